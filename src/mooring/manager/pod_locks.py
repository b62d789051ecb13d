"""One lock per pod: its sub-paths are not made and taken away at the same time."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from mooring.world.names import PodUid


class PodLocks:
    """Locks by pod, each there as long as somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[PodUid, asyncio.Lock] = WeakValueDictionary()

    def of(self, pod: PodUid) -> asyncio.Lock:
        lock = self._locks.get(pod)
        if lock is None:
            self._locks[pod] = lock = asyncio.Lock()
        return lock
