"""Reflector: keeps a queue in step with one kind of objects in the API, by list and watch."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Generic

from mooring.errors import MooringError
from mooring.kube.api import (
    ApiError,
    ConnectionRefused,
    EventType,
    Expired,
    InternalError,
    ListerWatcher,
    ListOptions,
    TooLargeResourceVersion,
    TooManyRequests,
    WatchEvent,
    WatchOptions,
)
from mooring.kube.backoff import USUAL_BACKOFF, Backoff, BackoffSettings, InternalErrorStreak
from mooring.kube.initial_state import State, collect_initial_events, error_of, list_all, log_skipped
from mooring.kube.objects.kinds import Kind, ObjectT
from mooring.kube.reflector_store import ReflectorStore

log = logging.getLogger(__name__)

PAGE_SIZE = 500
SHORTEST_WATCH_TIMEOUT = 300.0
VERY_SHORT_WATCH = 1.0
SLOW_LIST = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorOptions:
    """What to reflect and how patiently. Times are seconds; 0 switches a thing off."""

    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    watch_list: bool = True  # obtain the state by streaming; off for servers that cannot
    page_size: int = 0
    resync_period: float = 0.0
    shortest_watch_timeout: float = SHORTEST_WATCH_TIMEOUT
    internal_error_patience: float = 0.0
    backoff: BackoffSettings = USUAL_BACKOFF


REFLECT_ALL = ReflectorOptions()


def log_error(kind: Kind[ObjectT], error: MooringError) -> None:
    """The default watch-error handler."""
    if isinstance(error, Expired):
        log.info("watch of %s ended: %s", kind, error)
    else:
        log.error("cannot reflect %s: %s", kind, error)


@dataclass(slots=True)
class _Stream(Generic[ObjectT]):
    """An open watch."""

    events: AsyncIterator[WatchEvent[ObjectT]]
    closing: contextlib.AsyncExitStack
    started: float
    settled: bool  # whether its events' resourceVersions may be remembered
    count: int = 0

    @property
    def very_short(self) -> bool:
        return self.count == 0 and asyncio.get_running_loop().time() - self.started < VERY_SHORT_WATCH

    def __aiter__(self) -> _Stream[ObjectT]:
        return self

    async def __anext__(self) -> WatchEvent[ObjectT]:
        event = await anext(self.events)
        self.count += 1
        return event

    async def aclose(self) -> None:
        await self.closing.aclose()


class Reflector(Generic[ObjectT]):
    """Lists and watches one kind for ever; every failure leads to a retry. Stop it by cancelling `run`."""

    def __init__(
        self,
        api: ListerWatcher,
        kind: Kind[ObjectT],
        store: ReflectorStore[ObjectT],
        *,
        random_source: random.Random,
        options: ReflectorOptions = REFLECT_ALL,
        should_resync: Callable[[], bool] = lambda: True,
        on_error: Callable[[MooringError], None] | None = None,
    ) -> None:
        self._api = api
        self._kind = kind
        self._store = store
        self._random = random_source
        self._options = options
        self._should_resync = should_resync
        self._on_error = on_error or (lambda error: log_error(kind, error))
        self._backoff = Backoff(options.backoff, random_source)
        self._streak = InternalErrorStreak(options.internal_error_patience)
        self._unavailable = False  # the last resourceVersion is of no use for a list any more
        self._no_stream_level = logging.WARNING
        self._paginated = False  # the server answered a list at "0" in pages, so it has no watch cache
        self.last_resource_version = ""

    def hurry(self) -> None:
        """Try again now, if it waits after a failure: the server serves again."""
        self._backoff.start_over()

    async def run(self) -> None:
        """Reflect until cancelled."""
        while True:
            error = await self.list_and_watch()
            if error is not None:
                self._on_error(error)
            await self._backoff.wait()

    async def list_and_watch(self) -> MooringError | None:
        """Obtain the full state, then follow its changes as long as that goes well.

        An error while obtaining the state or opening a watch is returned. An error inside the stream of a watch is
        logged only.
        """
        try:
            stream = await self._stream_state() if self._options.watch_list else None
            if stream is None:
                await self._list_state()
        except MooringError as error:
            return error
        if self._options.resync_period <= 0:
            return await self._watch(stream)
        failure: MooringError | None = None
        try:
            async with asyncio.TaskGroup() as tasks:
                resync = tasks.create_task(self._resync_periodically())
                failure = await self._watch(stream)
                resync.cancel()
        except* MooringError as errors:
            log.error("cannot resync %s: %s", self._kind, errors.exceptions[0])
        return failure

    async def _list_state(self) -> None:
        version = "" if self._unavailable else self.last_resource_version or "0"
        started = asyncio.get_running_loop().time()
        try:
            state = await self._list(version)
        except (Expired, TooLargeResourceVersion):
            self._unavailable = True
            version = ""
            state = await self._list(version)
        took = asyncio.get_running_loop().time() - started
        if took > SLOW_LIST:
            log.warning("listing %s took %.1f s", self._kind, took)
        if version == "0" and state.paginated:
            self._paginated = True
        self._replace(state)

    async def _list(self, version: str) -> State[ObjectT]:
        limit = self._options.page_size
        if not limit and (version in ("", "0") or self._paginated):
            limit = PAGE_SIZE
        options = ListOptions(
            namespace=self._options.namespace,
            label_selector=self._options.label_selector,
            field_selector=self._options.field_selector,
            resource_version=version,
            limit=limit,
        )
        return await list_all(self._api, self._kind, options)

    async def _stream_state(self) -> _Stream[ObjectT] | None:
        """Obtain the state by the initial events of a watch, which is returned open; None to fall back to a list."""
        while True:
            version = "" if self._unavailable else self.last_resource_version
            try:
                async with contextlib.AsyncExitStack() as closing:
                    stream = await self._open(version, initial_events=True)
                    closing.push_async_callback(stream.aclose)
                    state = await collect_initial_events(self._kind, stream)
                    if state is not None:
                        self._replace(state)
                        closing.pop_all()
                        return stream
                    if stream.very_short:
                        log.warning("watch of %s closed at once; falling back to a list", self._kind)
                        return None
            except (ConnectionRefused, TooManyRequests):
                await self._backoff.wait()
            except (Expired, TooLargeResourceVersion) as error:
                if not version:  # nothing is older than "newest": asking again would only spin
                    self._say_no_stream(error)
                    return None
                self._unavailable = True
            except ApiError as error:
                self._say_no_stream(error)
                return None

    def _say_no_stream(self, error: ApiError) -> None:
        """Warn once: a server that cannot stream is asked anew each time, for it may be another by then."""
        log.log(self._no_stream_level, "cannot stream %s, falling back to a list: %s", self._kind, error)
        self._no_stream_level = logging.DEBUG

    def _replace(self, state: State[ObjectT]) -> None:
        self._unavailable = False
        self._store.replace(state.items, state.resource_version, [each.key for each in state.unreadable])
        for each in state.unreadable:
            log.error("skipped what is listed of %s: %s", self._kind, each.error)
        self.last_resource_version = state.resource_version

    async def _watch(self, stream: _Stream[ObjectT] | None) -> ApiError | None:
        while True:
            if stream is None:
                try:
                    stream = await self._open(self.last_resource_version)
                except (ConnectionRefused, TooManyRequests):
                    await self._backoff.wait()
                    continue
                except ApiError as error:
                    return error
            async with contextlib.aclosing(stream):
                failure = await self._follow(stream)
            if failure is None:
                if stream.very_short:
                    log.warning("watch of %s closed at once without any event", self._kind)
                    return None
            elif isinstance(failure, TooManyRequests):
                await self._backoff.wait()
            elif not (isinstance(failure, InternalError) and self._streak.forgive()):
                log.info("watch of %s ended: %s", self._kind, failure)
                return None
            stream = None

    async def _open(self, version: str, *, initial_events: bool = False) -> _Stream[ObjectT]:
        shortest = max(self._options.shortest_watch_timeout, SHORTEST_WATCH_TIMEOUT)
        options = WatchOptions(
            namespace=self._options.namespace,
            label_selector=self._options.label_selector,
            field_selector=self._options.field_selector,
            resource_version=version,
            timeout_seconds=int(shortest * (1.0 + self._random.random())),
            send_initial_events=initial_events,
        )
        started = asyncio.get_running_loop().time()
        closing = contextlib.AsyncExitStack()
        events = await closing.enter_async_context(self._api.watch(self._kind, options))
        # From "" or "0" a plain watch begins with objects in no order of their resourceVersions.
        settled = initial_events or version not in ("", "0")
        return _Stream(events, closing, started, settled)

    async def _follow(self, stream: _Stream[ObjectT]) -> ApiError | None:
        """Feed the store with the events of a stream until it ends; the error, if it ended by one."""
        store = self._store
        try:
            async for event in stream:
                if event.type is EventType.ERROR:
                    return error_of(event)
                self._handle(stream, event)
                if store.full:
                    await store.wait_for_room()
        except ApiError as error:
            return error
        return None

    def _handle(self, stream: _Stream[ObjectT], event: WatchEvent[ObjectT]) -> None:
        obj, store = event.object, self._store
        try:
            if event.type is EventType.BOOKMARK:
                store.bookmark(event.resource_version)
            elif not isinstance(obj, self._kind.type):
                log_skipped(self._kind, event)
                return
            elif event.type is EventType.MODIFIED:
                store.update(obj)
            elif event.type is EventType.ADDED:
                store.add(obj)
            else:
                store.delete(obj)
        except MooringError as error:
            log.error("lost a change of %s until the next list: %s", self._kind, error)
        if event.type is not EventType.ADDED:
            stream.settled = True
        if stream.settled:
            self.last_resource_version = event.resource_version

    async def _resync_periodically(self) -> None:
        while True:
            await asyncio.sleep(self._options.resync_period)
            if self._should_resync():
                self._store.resync()
