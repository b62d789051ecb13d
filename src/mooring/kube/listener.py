"""Handlers of an informer's notifications, and the listener that feeds each one at its own pace."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, Protocol, TypeVar

from mooring.kube.delta_fifo import Tombstone
from mooring.kube.objects.kinds import ObjectT
from mooring.kube.objects.meta import KubernetesObject

ObjectT_contra = TypeVar("ObjectT_contra", bound=KubernetesObject, contravariant=True)

Answer = Awaitable[None] | None
NOTIFICATIONS_A_TURN = 1000


class EventHandler(Protocol[ObjectT_contra]):
    """What an informer notifies. A method may return an awaitable; the next notification waits until it is done.

    Updates may carry the same object twice: after a resync or a new list nothing need have changed. A `Tombstone`
    stands for an object that went while nobody watched. An exception in a handler is a bug and ends the informer.
    """

    def on_add(self, obj: ObjectT_contra, is_initial: bool, /) -> Answer: ...

    def on_update(self, old: ObjectT_contra, new: ObjectT_contra, /) -> Answer: ...

    def on_delete(self, obj: ObjectT_contra | Tombstone[ObjectT_contra], /) -> Answer: ...


def _ignore(*_: object) -> None:
    """The answer of a handler to what it does not care for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler(Generic[ObjectT]):
    """An event handler made of functions; those left out ignore their events."""

    on_add: Callable[[ObjectT, bool], Answer] = _ignore
    on_update: Callable[[ObjectT, ObjectT], Answer] = _ignore
    on_delete: Callable[[ObjectT | Tombstone[ObjectT]], Answer] = _ignore


@dataclass(frozen=True, slots=True)
class FilteringHandler(Generic[ObjectT]):
    """Passes on only what concerns objects that match; entering the match is an addition, leaving it a deletion."""

    matches: Callable[[ObjectT], bool]
    handler: EventHandler[ObjectT]

    def on_add(self, obj: ObjectT, is_initial: bool) -> Answer:
        return self.handler.on_add(obj, is_initial) if self.matches(obj) else None

    def on_update(self, old: ObjectT, new: ObjectT) -> Answer:
        match self.matches(old), self.matches(new):
            case True, True:
                return self.handler.on_update(old, new)
            case False, True:
                return self.handler.on_add(new, False)
            case True, False:
                return self.handler.on_delete(old)
            case _:
                return None

    def on_delete(self, obj: ObjectT | Tombstone[ObjectT]) -> Answer:
        last = obj.object if isinstance(obj, Tombstone) else obj
        return self.handler.on_delete(obj) if self.matches(last) else None


class Listener(Generic[ObjectT]):
    """One registered handler with the notifications it has not seen yet.

    The buffer has no bound: a slow handler delays nobody but itself.
    """

    def __init__(self, handler: EventHandler[ObjectT], resync_period: float) -> None:
        self.handler = handler
        self.resync_period = resync_period  # seconds; 0 is never
        self.next_resync = 0.0
        self.syncing = True  # whether updates that change nothing are passed on
        self.synced = asyncio.Event()
        self.ended = asyncio.Event()
        self._pending: deque[tuple[Callable[[], Answer], bool]] = deque()
        self._filled = asyncio.Event()
        self._initial_left = 0
        self._informer_synced = False
        self._removed = False

    def added(self, obj: ObjectT, is_initial: bool) -> None:
        if is_initial:
            self._initial_left += 1
        self._notify(partial(self.handler.on_add, obj, is_initial), is_initial)

    def updated(self, old: ObjectT, new: ObjectT) -> None:
        self._notify(partial(self.handler.on_update, old, new))

    def deleted(self, obj: ObjectT | Tombstone[ObjectT]) -> None:
        self._notify(partial(self.handler.on_delete, obj))

    def informer_synced(self) -> None:
        """The informer has its initial list; synced is this listener when its handler has seen all of it."""
        self._informer_synced = True
        self._check_synced()

    def remove(self) -> None:
        """Drop what was not delivered yet, and end after the running call."""
        self._removed = True
        self._pending.clear()
        self._filled.set()

    async def run(self) -> None:
        """Deliver, one notification after the other, until removed."""
        try:
            while not self._removed:
                await self._deliver()
                if self._pending:
                    await asyncio.sleep(0)  # others want to run, too
                elif not self._removed:
                    self._filled.clear()
                    await self._filled.wait()
        finally:
            self.ended.set()

    async def _deliver(self) -> None:
        for _ in range(NOTIFICATIONS_A_TURN):
            if not self._pending:
                return
            call, is_initial = self._pending.popleft()
            answer = call()
            if answer is not None:
                await answer
            if is_initial:
                self._initial_left -= 1
                self._check_synced()

    def _notify(self, call: Callable[[], Answer], is_initial: bool = False) -> None:
        self._pending.append((call, is_initial))
        if not self._filled.is_set():
            self._filled.set()

    def _check_synced(self) -> None:
        if self._informer_synced and self._initial_left == 0:
            self.synced.set()


class Registration(Generic[ObjectT]):
    """A handler's place at an informer."""

    def __init__(self, listener: Listener[ObjectT]) -> None:
        self.listener = listener

    @property
    def has_synced(self) -> bool:
        """Whether the handler has returned from every addition of the informer's initial list."""
        return self.listener.synced.is_set()

    async def wait_synced(self) -> None:
        await self.listener.synced.wait()

    async def wait_ended(self) -> None:
        """Wait until a removed handler is called no more. From inside the handler itself this never returns."""
        await self.listener.ended.wait()
