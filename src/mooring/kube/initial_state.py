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
    Unreadable,
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
    unreadable: Sequence[Unreadable] = ()


async def list_all(api: ListerWatcher, kind: Kind[ObjectT], options: ListOptions) -> State[ObjectT]:
    """List all pages. When a later page has expired, one unlimited list takes the place of the pages read so far."""
    page = await api.list(kind, options)
    items, unreadable, version = list(page.items), list(page.unreadable), page.resource_version
    paginated = bool(page.continue_token)
    while page.continue_token:
        try:
            page = await api.list(kind, replace(options, resource_version="", continue_token=page.continue_token))
        except Expired:
            page = await api.list(kind, replace(options, limit=0))
            items, unreadable, version = [], [], page.resource_version
        items.extend(page.items)
        unreadable.extend(page.unreadable)
    return State(items=items, resource_version=version, paginated=paginated, unreadable=unreadable)


async def collect_initial_events(
    kind: Kind[ObjectT], events: AsyncIterator[WatchEvent[ObjectT]]
) -> State[ObjectT] | None:
    """Read a streaming list up to the bookmark that ends it; None when the stream ends before. Raises `ApiError`."""
    objects: dict[str, ObjectT] = {}
    unreadable: dict[str, Unreadable] = {}
    reminder = _Reminder(kind)
    try:
        async for event in events:
            reminder.heard_something()
            match event.type:
                case EventType.ERROR:
                    raise error_of(event)
                case EventType.BOOKMARK:
                    if event.annotations.get(INITIAL_EVENTS_END) == "true":
                        items, version = list(objects.values()), event.resource_version
                        return State(items=items, resource_version=version, unreadable=list(unreadable.values()))
                case EventType.DELETED:
                    if event.object is not None:
                        objects.pop(event.object.key, None)
                        unreadable.pop(event.object.key, None)
                case EventType.ADDED | EventType.MODIFIED:
                    if isinstance(event.object, kind.type):
                        objects[event.object.key] = event.object
                    elif event.unreadable is not None:
                        unreadable[event.unreadable.key] = event.unreadable
                    else:
                        log_skipped(kind, event)
    finally:
        reminder.stop()
    return None


def log_skipped(kind: Kind[ObjectT], event: WatchEvent[ObjectT]) -> None:
    """Say that an event is skipped, which costs its object only."""
    why = event.unreadable.error if event.unreadable is not None else f"its object is no {kind}"
    log.error("skipped an event of the watch on %s: %s", kind, why)


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
