"""What readers of the local store see: the published objects, and for each kind a window of its latest changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, cast

from mooring.kube.api import Expired, Invalid, TooLargeResourceVersion, WatchEvent
from mooring.kube.garbage import FullKey
from mooring.kube.objects.kinds import ALL_KINDS, Kind, ObjectT
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.store_draft import Change, Stored

ObjectKey = tuple[str, str]
"""Namespace and name."""


class Sleeper(Protocol):
    """Someone who waits for the next change of a kind."""

    def wake(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Entry(Generic[ObjectT]):
    """One change in the window: the event, and the object as it was before."""

    version: int
    key: ObjectKey
    event: WatchEvent[ObjectT]
    before: ObjectT | None
    after: ObjectT | None


class KindLog(Generic[ObjectT]):
    """The published objects of one kind and its window of changes.

    Watchers read the window by position, which counts all changes ever published; none of them is ever waited for.
    """

    def __init__(self, kind: Kind[ObjectT], store: StoreLog) -> None:
        self.kind = kind
        self.store = store
        self.objects: dict[ObjectKey, ObjectT] = {}
        self.sleepers: dict[Sleeper, None] = {}
        self._sorted: list[tuple[ObjectKey, ObjectT]] | None = None
        self._entries: list[Entry[ObjectT]] = []
        self._first_position = 0
        self._oldest_version = store.resource_version  # changes after this one are in the window

    @property
    def end_position(self) -> int:
        return self._first_position + len(self._entries)

    def entry(self, position: int) -> Entry[ObjectT] | None:
        """The change at a position, None when it is still to come; raises `Expired` when it left the window."""
        index = position - self._first_position
        if index < 0:
            raise self.expired(f"more than {self.store.history_limit} changes were not read in time")
        return self._entries[index] if index < len(self._entries) else None

    def position_after(self, version: int) -> int:
        """The position of the first change after a resourceVersion; raises `Expired`."""
        self._check_window(version)
        low, high = 0, len(self._entries)
        while low < high:
            middle = (low + high) // 2
            if self._entries[middle].version <= version:
                low = middle + 1
            else:
                high = middle
        return self._first_position + low

    def items_at(self, version: int) -> list[tuple[ObjectKey, ObjectT]]:
        """All objects as they were at a resourceVersion, by key; raises `Expired`."""
        later = self._entries[self.position_after(version) - self._first_position :]
        if not later:
            return self.items()
        objects = dict(self.objects)
        for entry in reversed(later):
            if entry.before is None:
                objects.pop(entry.key, None)
            else:
                objects[entry.key] = entry.before
        return sorted(objects.items(), key=_by_key)

    def items(self) -> list[tuple[ObjectKey, ObjectT]]:
        """All objects, by key."""
        if self._sorted is None:
            self._sorted = sorted(self.objects.items(), key=_by_key)
        return self._sorted

    def append(self, entry: Entry[ObjectT]) -> None:
        self._sorted = None
        self._entries.append(entry)
        if entry.after is None:
            self.objects.pop(entry.key, None)
        else:
            self.objects[entry.key] = entry.after

    def trim(self) -> None:
        """Forget the oldest changes; done before each commit is published, so no single commit overruns a reader."""
        surplus = len(self._entries) - self.store.history_limit
        if surplus > 0:
            self._oldest_version = self._entries[surplus - 1].version
            self._first_position += surplus
            del self._entries[:surplus]

    def wake_sleepers(self) -> None:
        for sleeper in self.sleepers:
            sleeper.wake()

    def expired(self, why: str) -> Expired:
        return Expired(f"cannot follow the changes of {self.kind}", why=why, next_step="List it again")

    def _check_window(self, version: int) -> None:
        if version < self._oldest_version:
            raise self.expired(f"changes up to resourceVersion {self._oldest_version} are no longer kept")


class StoreLog:
    """The published state of all kinds at one resourceVersion."""

    def __init__(self, objects: Iterable[tuple[FullKey, Stored]], *, resource_version: int, history_limit: int) -> None:
        self.resource_version = resource_version
        self.history_limit = history_limit
        self.closed = False
        self._kinds = {kind.name: KindLog(kind, self) for kind in ALL_KINDS}
        for (kind_name, namespace, name), stored in objects:
            self._kinds[kind_name].objects[namespace, name] = stored.object

    def of(self, kind: Kind[ObjectT]) -> KindLog[ObjectT]:
        """The log of one kind."""
        # Objects are filed under the kind of their own type, so a kind's log holds that type only.
        return cast("KindLog[ObjectT]", self._kinds[kind.name])

    def publish(self, changes: Iterable[Change], resource_version: int) -> None:
        """Let readers and watchers see one committed batch."""
        touched: dict[str, KindLog[KubernetesObject]] = {}
        for change in changes:
            if change.event is None:
                continue
            kind_name, namespace, name = change.key
            log = touched.get(kind_name)
            if log is None:
                log = touched[kind_name] = self._kinds[kind_name]
                log.trim()
            before = change.before.object if change.before else None
            after = change.after.object if change.after else None
            version = int(change.event.resource_version)
            log.append(Entry(version, (namespace, name), change.event, before, after))
        self.resource_version = resource_version
        for log in touched.values():
            log.wake_sleepers()

    def close(self) -> None:
        """End all watches after what they have still to read."""
        self.closed = True
        for log in self._kinds.values():
            log.wake_sleepers()

    def check_version(self, text: str, what: str) -> int:
        """The resourceVersion that a request names; raises `Invalid` or `TooLargeResourceVersion`."""
        if not text.isascii() or not text.isdigit():
            raise Invalid(what, why=f"{text!r} is not a resourceVersion of this store")
        version = int(text)
        if version > self.resource_version:
            raise TooLargeResourceVersion(
                what, why=f"resourceVersion {version} is not reached yet; the newest is {self.resource_version}"
            )
        return version


def _by_key(item: tuple[ObjectKey, object]) -> ObjectKey:
    return item[0]
