"""Obtaining the full state of a kind: page by page with LIST, or as the initial events of a watch."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic

from mooring.kube.api import (
    INITIAL_EVENTS_END,
    ApiError,
    EventType,
    Expired,
    InternalError,
    ListerWatcher,
    ListOptions,
    WatchEvent,
)
from mooring.kube.objects.kinds import Kind, ObjectT

log = logging.getLogger(__name__)

REMINDER_INTERVAL = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Generic[ObjectT]):
    """All objects of a kind at one resourceVersion."""

    items: Sequence[ObjectT]
    resource_version: str
    paginated: bool = False


async def list_all(api: ListerWatcher, kind: Kind[ObjectT], options: ListOptions) -> State[ObjectT]:
    """List all pages. When a later page has expired, one unlimited list takes the place of the pages read so far."""
    page = await api.list(kind, options)
    items, version = list(page.items), page.resource_version
    paginated = bool(page.continue_token)
    while page.continue_token:
        try:
            page = await api.list(kind, replace(options, resource_version="", continue_token=page.continue_token))
        except Expired:
            page = await api.list(kind, replace(options, limit=0))
            items, version = [], page.resource_version
        items.extend(page.items)
    return State(items=items, resource_version=version, paginated=paginated)


async def collect_initial_events(
    kind: Kind[ObjectT], events: AsyncIterator[WatchEvent[ObjectT]]
) -> State[ObjectT] | None:
    """Read a streaming list up to the bookmark that ends it; None when the stream ends before. Raises `ApiError`."""
    objects: dict[str, ObjectT] = {}
    reminder = _Reminder(kind)
    try:
        async for event in events:
            reminder.heard_something()
            match event.type:
                case EventType.ERROR:
                    raise error_of(event)
                case EventType.BOOKMARK:
                    if event.annotations.get(INITIAL_EVENTS_END) == "true":
                        return State(items=list(objects.values()), resource_version=event.resource_version)
                case EventType.DELETED:
                    if event.object is not None:
                        objects.pop(event.object.key, None)
                case EventType.ADDED | EventType.MODIFIED:
                    if isinstance(event.object, kind.type):
                        objects[event.object.key] = event.object
                    else:
                        log.error("skipped an event of the watch on %s: its object is no %s", kind, kind)
    finally:
        reminder.stop()
    return None


def error_of(event: WatchEvent[ObjectT]) -> ApiError:
    """The error that an ERROR event carries."""
    return event.error or InternalError("cannot go on watching", why="the server sent an error without saying which")


class _Reminder:
    """Warns every ten silent seconds that the end of the initial events is still awaited."""

    def __init__(self, kind: Kind[ObjectT]) -> None:
        self._name = kind.name
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._timer = self._loop.call_later(REMINDER_INTERVAL, self._tick)

    def heard_something(self) -> None:
        self._heard = self._loop.time()

    def stop(self) -> None:
        self._timer.cancel()

    def _tick(self) -> None:
        if self._loop.time() - self._heard >= REMINDER_INTERVAL:
            log.warning("still waiting for the bookmark that ends the initial events of %s", self._name)
        self._timer = self._loop.call_later(REMINDER_INTERVAL, self._tick)
