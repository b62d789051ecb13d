"""The processor of an informer: its listeners, who of them gets what, and when they are due for a resync."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Generic

from mooring.kube.delta_fifo import Tombstone
from mooring.kube.listener import EventHandler, Listener
from mooring.kube.objects.kinds import ObjectT

log = logging.getLogger(__name__)

SHORTEST_RESYNC = 1.0


class Processor(Generic[ObjectT]):
    """Distributes notifications to listeners. `check_period` is how often the informer looks for due resyncs."""

    def __init__(self, default_resync: float) -> None:
        self.check_period = default_resync
        self._default_resync = default_resync
        self._listeners: dict[Listener[ObjectT], None] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Run all listeners, and those to come, as tasks of a group."""
        self._tasks = tasks
        for listener in self._listeners:
            self._start(listener, tasks)

    def stop(self) -> None:
        """Note that no listener runs any more, not even one whose task was cancelled before it began."""
        for listener in self._listeners:
            listener.ended.set()

    def add(
        self, handler: EventHandler[ObjectT], resync_period: float | None, seen: Iterable[ObjectT]
    ) -> Listener[ObjectT]:
        """Register a handler. It is told of the objects `seen` so far; from then on it hears of every change."""
        listener = Listener(handler, self._agree_on_resync(resync_period))
        self._listeners[listener] = None
        for obj in seen:
            listener.added(obj, True)
        if self._tasks is not None:
            self._start(listener, self._tasks)
        return listener

    def remove(self, listener: Listener[ObjectT]) -> None:
        if listener in self._listeners:
            del self._listeners[listener]
            listener.remove()
            if self._tasks is None:
                listener.ended.set()

    def added(self, obj: ObjectT, is_initial: bool) -> None:
        for listener in self._listeners:
            listener.added(obj, is_initial)

    def updated(self, old: ObjectT, new: ObjectT) -> None:
        """An update that leaves the resourceVersion as it is goes only to the listeners that are being resynced."""
        is_sync = old.metadata.resource_version == new.metadata.resource_version
        for listener in self._listeners:
            if listener.syncing or not is_sync:
                listener.updated(old, new)

    def deleted(self, obj: ObjectT | Tombstone[ObjectT]) -> None:
        for listener in self._listeners:
            listener.deleted(obj)

    def informer_synced(self) -> None:
        for listener in self._listeners:
            listener.informer_synced()

    def should_resync(self) -> bool:
        """Mark the listeners whose resync is due, unmark the others; true when there is at least one."""
        now = asyncio.get_running_loop().time()
        for listener in self._listeners:
            listener.syncing = listener.resync_period > 0 and now >= listener.next_resync
            if listener.syncing:
                listener.next_resync = now + listener.resync_period
        return any(listener.syncing for listener in self._listeners)

    def _start(self, listener: Listener[ObjectT], tasks: asyncio.TaskGroup) -> None:
        listener.next_resync = asyncio.get_running_loop().time() + listener.resync_period
        tasks.create_task(listener.run())

    def _agree_on_resync(self, wanted: float | None) -> float:
        period = self._default_resync if wanted is None else wanted
        if period <= 0:
            return 0.0
        if self.check_period <= 0:
            log.warning("a handler asks for a resync every %g s, but its informer never resyncs", period)
            return 0.0
        period = max(period, SHORTEST_RESYNC)
        if self._tasks is not None:
            return max(period, self.check_period)
        self.check_period = min(period, self.check_period)
        return period
