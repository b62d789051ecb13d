"""One watch on the local store: initial events, changes as seen through a selection, bookmarks, and its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Generic

from msgspec import structs

from mooring.kube.api import INITIAL_EVENTS_END, EventType, Expired, WatchEvent, WatchOptions
from mooring.kube.objects.kinds import ObjectT
from mooring.kube.selectors import Selection, select
from mooring.kube.store_log import Entry, KindLog


class StoreWatch(Generic[ObjectT]):
    """A stream of the changes of one kind. It wakes on changes; its only timer is for bookmarks and its timeout."""

    def __init__(self, log: KindLog[ObjectT], options: WatchOptions, *, bookmark_interval: float) -> None:
        self._log = log
        self._options = options
        self._bookmark_interval = bookmark_interval
        self._selection = Selection()
        self._sees_everything = True
        self._initial: Iterator[WatchEvent[ObjectT]] = iter(())
        self._position = 0
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._next_bookmark = 0.0
        self._closes_at: float | None = None
        self._ended = False

    async def __aenter__(self) -> AsyncIterator[WatchEvent[ObjectT]]:
        log, options = self._log, self._options
        what = f"cannot watch {log.kind}"
        self._selection = select(log.kind, options)
        self._sees_everything = self._selection.everything
        wanted = options.resource_version
        version = log.store.check_version(wanted, what) if wanted not in ("", "0") else 0
        if version and not options.send_initial_events:
            self._position = log.position_after(version)
        else:
            self._position = log.end_position
            self._initial = self._initial_events()
        now = asyncio.get_running_loop().time()
        self._next_bookmark = now + self._bookmark_interval
        self._closes_at = None if options.timeout_seconds is None else now + options.timeout_seconds
        log.sleepers[self] = None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def __aiter__(self) -> StoreWatch[ObjectT]:
        return self

    async def __anext__(self) -> WatchEvent[ObjectT]:
        while not self._ended:
            event = next(self._initial, None) or self._next_change() or self._due_bookmark()
            if event is not None:
                return event
            if not self._ended:
                await self._sleep()
        raise StopAsyncIteration

    def wake(self) -> None:
        """Look again: something was published, or a timer is due."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _initial_events(self) -> Iterator[WatchEvent[ObjectT]]:
        version = str(self._log.store.resource_version)
        objects = [obj for _, obj in self._log.items()]
        return self._replay(objects, version)

    def _replay(self, objects: list[ObjectT], version: str) -> Iterator[WatchEvent[ObjectT]]:
        for obj in objects:
            if self._selection.matches(obj):
                yield WatchEvent(type=EventType.ADDED, resource_version=obj.metadata.resource_version, object=obj)
        if self._options.send_initial_events and self._options.allow_bookmarks:
            end = {INITIAL_EVENTS_END: "true"}
            yield WatchEvent(type=EventType.BOOKMARK, resource_version=version, annotations=end)

    def _next_change(self) -> WatchEvent[ObjectT] | None:
        while True:
            try:
                entry = self._log.entry(self._position)
            except Expired as error:
                self._end()
                version = str(self._log.store.resource_version)
                return WatchEvent(type=EventType.ERROR, resource_version=version, error=error)
            if entry is None:
                return None
            self._position += 1
            event = entry.event if self._sees_everything else self._as_seen(entry)
            if event is not None:
                return event

    def _as_seen(self, entry: Entry[ObjectT]) -> WatchEvent[ObjectT] | None:
        """The change through the selection: entering it is an addition, leaving it a deletion."""
        before, after = entry.before, entry.after
        was_in = before is not None and self._selection.matches(before)
        is_in = after is not None and self._selection.matches(after)
        if was_in and is_in:
            return entry.event
        version = entry.event.resource_version
        if is_in:
            return WatchEvent(type=EventType.ADDED, resource_version=version, object=after)
        if not was_in or before is None:
            return None
        if after is None:
            return entry.event
        gone = structs.replace(before, metadata=structs.replace(before.metadata, resource_version=version))
        return WatchEvent(type=EventType.DELETED, resource_version=version, object=gone)

    def _due_bookmark(self) -> WatchEvent[ObjectT] | None:
        """A bookmark when one is due. The timeout ends the watch, after one last bookmark."""
        now = asyncio.get_running_loop().time()
        closing = self._log.store.closed or (self._closes_at is not None and now >= self._closes_at)
        due = closing or now >= self._next_bookmark
        if closing:
            self._end()
        if not due or not self._options.allow_bookmarks:
            return None
        self._next_bookmark = now + self._bookmark_interval
        return WatchEvent(type=EventType.BOOKMARK, resource_version=str(self._log.store.resource_version))

    async def _sleep(self) -> None:
        loop = asyncio.get_running_loop()
        deadlines = [self._next_bookmark] if self._options.allow_bookmarks else []
        if self._closes_at is not None:
            deadlines.append(self._closes_at)
        if deadlines and (self._timer is None or self._timer.when() <= loop.time()):
            self._timer = loop.call_at(min(deadlines), self.wake)
        self._waiter = loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _end(self) -> None:
        self._ended = True
        self._log.sleepers.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.wake()
