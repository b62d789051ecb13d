"""DeltaFIFO: the queue between a reflector and the one consumer that applies its changes."""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mooring.errors import MooringError
from mooring.kube.objects.kinds import ObjectT
from mooring.kube.objects.meta import KubernetesObject

BATCH_SIZE = 1000
HIGH_WATER = 2 * BATCH_SIZE

ObjectT_co = TypeVar("ObjectT_co", bound=KubernetesObject, covariant=True)


class DeltaType(enum.Enum):
    ADDED = "Added"
    UPDATED = "Updated"
    DELETED = "Deleted"
    REPLACED_ALL = "ReplacedAll"
    SYNC_ALL = "SyncAll"
    BOOKMARK = "Bookmark"


@dataclass(frozen=True, slots=True)
class Tombstone(Generic[ObjectT_co]):
    """An object that went while nobody watched; `object` is the last version known, which may be stale."""

    key: str
    object: ObjectT_co


@dataclass(frozen=True, slots=True)
class Delta(Generic[ObjectT]):
    """One change. `items` is the object of a single change, or all objects of a replacement."""

    type: DeltaType
    items: Sequence[ObjectT] = ()
    resource_version: str = ""
    unreadable: frozenset[str] = frozenset()  # of a replacement: objects that are there as well, by their keys


class QueueClosed(MooringError):
    """The queue was closed and everything in it was consumed."""


class Rejected(MooringError):
    """A transform failed; the object did not enter the queue."""


Transform = Callable[[ObjectT], ObjectT]


class DeltaFIFO(Generic[ObjectT]):
    """Changes in the order of their arrival. Nothing is merged, dropped or reordered.

    A full list travels as one delta, so the consumer computes what has gone against its own store. `synced` is set
    once the first full list has been consumed, or at once when a single change came first.
    """

    def __init__(self, *, transform: Transform[ObjectT] | None = None) -> None:
        self._transform = transform
        self._deltas: deque[Delta[ObjectT]] = deque()
        self._filled = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._closed = False
        self._populated = False
        self.synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._deltas)

    @property
    def has_synced(self) -> bool:
        return self.synced.is_set()

    @property
    def full(self) -> bool:
        """Whether the producer should wait for room before it adds more."""
        return len(self._deltas) >= HIGH_WATER

    def add(self, obj: ObjectT) -> None:
        self._change(DeltaType.ADDED, obj)

    def update(self, obj: ObjectT) -> None:
        self._change(DeltaType.UPDATED, obj)

    def delete(self, obj: ObjectT) -> None:
        self._change(DeltaType.DELETED, obj)

    def replace(self, items: Sequence[ObjectT], resource_version: str, unreadable: Collection[str] = ()) -> None:
        """Queue a full list, and the keys of what is there as well but could not be read.

        When a transform fails on any one item, the whole list is rejected.
        """
        transformed = tuple(map(self._transformed, items)) if self._transform else tuple(items)
        self._populated = True
        self._append(Delta(DeltaType.REPLACED_ALL, transformed, resource_version, frozenset(unreadable)))

    def resync(self) -> None:
        """Let the consumer replay its store."""
        self._append(Delta(DeltaType.SYNC_ALL))

    def bookmark(self, resource_version: str) -> None:
        self._append(Delta(DeltaType.BOOKMARK, (), resource_version))

    def close(self) -> None:
        """Let waiting consumers end when the queue is empty."""
        self._closed = True
        self._filled.set()

    async def wait_for_room(self) -> None:
        await self._room.wait()

    async def wait(self) -> None:
        """Return when something is queued; raises `QueueClosed` when nothing will be."""
        while not self._deltas:
            if self._closed:
                raise QueueClosed("cannot wait for changes", why="the queue is closed")
            self._filled.clear()
            await self._filled.wait()

    def process(self, handle: Callable[[Delta[ObjectT], bool], None], limit: int = BATCH_SIZE) -> int:
        """Hand up to `limit` deltas to `handle`, each with whether it is part of the initial list.

        A delta leaves the queue before it is handled, so one that fails is not seen again. Returns how many were
        handled.
        """
        count = 0
        while self._deltas and count < limit:
            delta = self._deltas.popleft()
            count += 1
            handle(delta, not self.synced.is_set())
            if delta.type is DeltaType.REPLACED_ALL:
                self.synced.set()
        if not self.full:
            self._room.set()
        return count

    def _change(self, delta_type: DeltaType, obj: ObjectT) -> None:
        delta = Delta(delta_type, (self._transformed(obj),))
        if not self._populated:
            self._populated = True
            self.synced.set()
        self._append(delta)

    def _append(self, delta: Delta[ObjectT]) -> None:
        self._deltas.append(delta)
        if self.full:
            self._room.clear()
        if not self._filled.is_set():
            self._filled.set()

    def _transformed(self, obj: ObjectT) -> ObjectT:
        if self._transform is None:
            return obj
        try:
            return self._transform(obj)
        except Exception as error:  # a transform is foreign code; what it raises costs its object only
            raise Rejected(f"cannot take in {obj.kind} {obj.key!r}", why=f"the transform failed: {error}") from error
