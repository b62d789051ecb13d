"""SharedIndexInformer: one watch of a kind, one indexed cache of it, any number of handlers."""

from __future__ import annotations

import asyncio
import enum
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Generic

from mooring.errors import MooringError
from mooring.kube.api import ListerWatcher
from mooring.kube.delta_fifo import Delta, DeltaFIFO, DeltaType, Tombstone, Transform
from mooring.kube.indexer import NAMESPACE_INDEX, Indexer, IndexFunction, Lister, namespace_of
from mooring.kube.listener import EventHandler, Registration
from mooring.kube.objects.kinds import Kind, ObjectT
from mooring.kube.processor import Processor
from mooring.kube.reflector import REFLECT_ALL, Reflector, ReflectorOptions

log = logging.getLogger(__name__)


class Life(enum.Enum):
    CREATED = "created"
    STARTED = "started"
    STOPPED = "stopped"


class InformerState(MooringError):
    """The informer's stage of life does not allow that any more."""


class SharedIndexInformer(Generic[ObjectT]):
    """Keeps a cache of one kind in step with the API and tells handlers of every change.

    The cache is updated before handlers hear of a change, so a handler may find it newer than its notification.
    `run` keeps it going until it is cancelled; an informer never runs twice.
    """

    def __init__(
        self,
        api: ListerWatcher,
        kind: Kind[ObjectT],
        *,
        resync_period: float = 0.0,
        indexers: Mapping[str, IndexFunction[ObjectT]] | None = None,
        options: ReflectorOptions = REFLECT_ALL,
        random_source: random.Random | None = None,
    ) -> None:
        self.kind = kind
        self.indexer: Indexer[ObjectT] = Indexer({NAMESPACE_INDEX: namespace_of, **(indexers or {})})
        self.synced = asyncio.Event()
        self._api = api
        self._options = options
        self._random = random_source or random.Random()
        self._processor: Processor[ObjectT] = Processor(resync_period)
        self._transform: Transform[ObjectT] | None = None
        self._on_error: Callable[[MooringError], None] | None = None
        self._life = Life.CREATED
        self._seeded = False
        self._settled = asyncio.Event()  # synced, or stopped before that
        self._furnished = asyncio.Event()  # seeded or synced, or stopped before that
        self._queue: DeltaFIFO[ObjectT] | None = None
        self._reflector: Reflector[ObjectT] | None = None

    @property
    def has_synced(self) -> bool:
        """Whether the initial list has reached the cache. It says nothing of the handlers."""
        return self.synced.is_set()

    @property
    def has_state(self) -> bool:
        """Whether the cache holds a state at all: the server's, or the one that was known before."""
        return self._seeded or self.has_synced

    @property
    def resource_version(self) -> str:
        """The resourceVersion that the cache has reached."""
        return self.indexer.resource_version

    @property
    def backlog(self) -> int:
        """How many changes wait to be applied to the cache."""
        return len(self._queue) if self._queue is not None else 0

    @property
    def resync_check_period(self) -> float:
        return self._processor.check_period

    @property
    def stopped(self) -> bool:
        return self._life is Life.STOPPED

    def lister(self) -> Lister[ObjectT]:
        return Lister(self.kind, self.indexer)

    def set_transform(self, transform: Transform[ObjectT]) -> None:
        """Install a function that every object passes on its way in; only before the start."""
        self._only_before_start("set the transform")
        self._transform = transform

    def seed(self, items: Iterable[ObjectT]) -> None:
        """Begin with what was known before; only before the start, and only once.

        Handlers hear of it as of a first list. The server's first list then tells what has changed since. A state
        without objects is a state, too.
        """
        self._only_before_start("seed the cache")
        if self._seeded:
            raise InformerState(f"cannot seed the cache of the informer of {self.kind}", why="it is seeded already")
        passage: DeltaFIFO[ObjectT] = DeltaFIFO(transform=self._transform)
        passage.replace(list(items), "")
        passage.process(self._apply)
        self._seeded = True
        self._furnished.set()

    def set_error_handler(self, on_error: Callable[[MooringError], None]) -> None:
        """Install a function that hears of failed lists and watches, which are retried; only before the start."""
        self._only_before_start("set the error handler")
        self._on_error = on_error

    def add_indexers(self, indexers: Mapping[str, IndexFunction[ObjectT]]) -> None:
        self._not_after_stop("add an index")
        self.indexer.add_indexers(indexers)

    def add_event_handler(
        self, handler: EventHandler[ObjectT], *, resync_period: float | None = None
    ) -> Registration[ObjectT]:
        """Register a handler; on a running informer it first hears of every object in the cache.

        Nothing is awaited between that snapshot and the registration, so each object is seen exactly once.
        """
        self._not_after_stop("add an event handler")
        listener = self._processor.add(handler, resync_period, self.indexer.list())
        if self.has_synced:
            listener.informer_synced()
        return Registration(listener)

    def remove_event_handler(self, registration: Registration[ObjectT]) -> None:
        """Stop notifying a handler; what it has not heard yet is dropped. Removing again does nothing."""
        self._processor.remove(registration.listener)

    async def wait_synced(self) -> bool:
        """Wait for the initial list; false when the informer stopped before it came."""
        await self._settled.wait()
        return self.has_synced

    async def wait_state(self) -> bool:
        """Wait until there is a state, from before or from the server; false when the informer stopped without one."""
        await self._furnished.wait()
        return self.has_state

    def hurry(self) -> None:
        """Try again now, if it waits after a failure: the server serves again."""
        if self._reflector is not None:
            self._reflector.hurry()

    async def run(self) -> None:
        """Keep the cache in step until cancelled: first the reflector ends, then the handlers' tasks."""
        if self._life is not Life.CREATED:
            log.warning("the informer of %s is already %s and does not run twice", self.kind, self._life.value)
            return
        self._life = Life.STARTED
        queue = self._queue = DeltaFIFO(transform=self._transform)
        reflector = self._reflector = Reflector(
            self._api,
            self.kind,
            queue,
            random_source=self._random,
            options=replace(self._options, resync_period=self._processor.check_period),
            should_resync=self._processor.should_resync,
            on_error=self._on_error,
        )
        try:
            async with asyncio.TaskGroup() as listeners:
                self._processor.start(listeners)
                await self._control(reflector, queue)
        finally:
            self._processor.stop()

    async def _control(self, reflector: Reflector[ObjectT], queue: DeltaFIFO[ObjectT]) -> None:
        try:
            async with asyncio.TaskGroup() as controller:
                controller.create_task(reflector.run())
                controller.create_task(self._consume(queue))
        finally:
            self._life = Life.STOPPED
            self._settled.set()
            self._furnished.set()

    async def _consume(self, queue: DeltaFIFO[ObjectT]) -> None:
        while True:
            await queue.wait()
            queue.process(self._apply)
            if queue.has_synced and not self.has_synced:
                self.synced.set()
                self._settled.set()
                self._furnished.set()
                self._processor.informer_synced()
            if len(queue):
                await asyncio.sleep(0)  # others want to run, too

    def _apply(self, delta: Delta[ObjectT], is_initial: bool) -> None:
        match delta.type:
            case DeltaType.ADDED | DeltaType.UPDATED:
                for obj in delta.items:
                    self._tell(self.indexer.add(obj), obj, is_initial)
            case DeltaType.DELETED:
                for obj in delta.items:
                    self.indexer.delete(obj)
                    self._processor.deleted(obj)
            case DeltaType.REPLACED_ALL:
                self._replace(delta, is_initial)
            case DeltaType.SYNC_ALL:
                for obj in self.indexer.list():
                    self._processor.updated(obj, obj)
            case DeltaType.BOOKMARK:
                self.indexer.resource_version = delta.resource_version

    def _replace(self, delta: Delta[ObjectT], is_initial: bool) -> None:
        kept = [obj for key in delta.unreadable if (obj := self.indexer.get_by_key(key)) is not None]
        before = self.indexer.replace((*kept, *delta.items) if kept else delta.items, delta.resource_version)
        for key, old in before.items():
            if self.indexer.get_by_key(key) is None:
                self._processor.deleted(Tombstone(key, old))
        for obj in delta.items:
            self._tell(before.get(obj.key), obj, is_initial)

    def _tell(self, old: ObjectT | None, new: ObjectT, is_initial: bool) -> None:
        if old is None:
            self._processor.added(new, is_initial)
        else:
            self._processor.updated(old, new)

    def _only_before_start(self, what: str) -> None:
        if self._life is not Life.CREATED:
            raise InformerState(f"cannot {what} of the informer of {self.kind}", why="it has already started")

    def _not_after_stop(self, what: str) -> None:
        if self._life is Life.STOPPED:
            raise InformerState(f"cannot {what} to the informer of {self.kind}", why="it has stopped already")
