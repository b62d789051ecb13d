"""An API that is asked for not too many things at once."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from mooring.kube.api import (
    LIST_ALL,
    WATCH_ALL,
    ListOptions,
    ObjectList,
    Reader,
    WatchEvent,
    WatchOptions,
)
from mooring.kube.objects.kinds import Kind, ObjectT

GETS_AT_ONCE = 16
OPENINGS_AT_ONCE = 32
"""Lists and beginnings of watches under way at a time; a watch that has begun does not count."""


class GatedReader:
    """Lets through so many requests at a time; the others wait for their turn, in order."""

    def __init__(self, api: Reader) -> None:
        self._api = api
        self._gets = asyncio.Semaphore(GETS_AT_ONCE)
        self._openings = asyncio.Semaphore(OPENINGS_AT_ONCE)

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        async with self._gets:
            return await self._api.get(kind, namespace, name)

    async def list(self, kind: Kind[ObjectT], options: ListOptions = LIST_ALL) -> ObjectList[ObjectT]:
        async with self._openings:
            return await self._api.list(kind, options)

    @contextlib.asynccontextmanager
    async def watch(
        self, kind: Kind[ObjectT], options: WatchOptions = WATCH_ALL
    ) -> AsyncIterator[AsyncIterator[WatchEvent[ObjectT]]]:
        async with contextlib.AsyncExitStack() as opened:
            async with self._openings:
                events = await opened.enter_async_context(self._api.watch(kind, options))
            yield events
