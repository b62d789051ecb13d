"""The writer's view of the local store: what is committed plus what the present batch changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import structs

from mooring.kube.api import EventType, WatchEvent
from mooring.kube.garbage import FullKey, Owners
from mooring.kube.objects.meta import KubernetesObject


@dataclass(frozen=True, slots=True)
class Stored:
    """An object with what the store alone knows of it."""

    object: KubernetesObject
    origin: str = ""  # the manifest it came from; empty when it was created through the API
    applied: bytes = b""  # the manifest as it was applied last, in JSON


@dataclass(frozen=True, slots=True)
class Change:
    """One step of a transaction. Without an event only the origin changed, which no watcher sees."""

    key: FullKey
    before: Stored | None
    after: Stored | None
    event: WatchEvent[KubernetesObject] | None


@dataclass(frozen=True, slots=True)
class Savepoint:
    changes: int
    resource_version: int


class Draft:
    """All objects as the next write must see them. Changes can be taken back to a savepoint until they are taken."""

    def __init__(self, objects: Mapping[FullKey, Stored], resource_version: int) -> None:
        self.objects: dict[FullKey, Stored] = dict(objects)
        self.origins = {key: stored.origin for key, stored in objects.items() if stored.origin}
        self.resource_version = resource_version
        self.owners = Owners()
        self._changes: list[Change] = []
        self._removed_uids: list[str] = []
        for key, stored in self.objects.items():
            self.owners.change(key, None, stored.object)

    def put(self, key: FullKey, stored: Stored) -> KubernetesObject:
        """Write an object with the next resourceVersion."""
        before = self.objects.get(key)
        obj = self._stamp(stored.object)
        after = Stored(obj, stored.origin, stored.applied)
        self._record(key, before, after, EventType.MODIFIED if before else EventType.ADDED, obj)
        return obj

    def remark(self, key: FullKey, stored: Stored) -> None:
        """Change only what the store alone knows of an object; its resourceVersion stays."""
        self._changes.append(Change(key, self.objects[key], stored, None))
        self._keep(key, stored)

    def remove(self, key: FullKey, last: KubernetesObject | None = None) -> KubernetesObject:
        """Remove an object; the returned last version carries the resourceVersion of its removal."""
        before = self.objects[key]
        obj = self._stamp(last or before.object)
        self._removed_uids.append(obj.metadata.uid)
        self._record(key, before, None, EventType.DELETED, obj)
        return obj

    def take_orphans(self) -> list[FullKey]:
        """The objects whose last owner was removed since the last call."""
        uids, self._removed_uids = self._removed_uids, []
        keys = self.owners.dependents(uids)
        return [key for key in keys if not self.owners.has_live_owner(self.objects[key].object)]

    def savepoint(self) -> Savepoint:
        return Savepoint(len(self._changes), self.resource_version)

    def roll_back(self, to: Savepoint) -> None:
        """Undo everything since the savepoint."""
        undone = self._changes[to.changes :]
        self._changes = self._changes[: to.changes]
        self._removed_uids = []
        self.take_back(undone)
        self.resource_version = to.resource_version

    def take_back(self, changes: list[Change]) -> None:
        """Undo changes that were taken but could not be committed; the numbers they used stay used."""
        for change in reversed(changes):
            after = change.after.object if change.after else None
            before = change.before.object if change.before else None
            self.owners.change(change.key, after, before)
            self._keep(change.key, change.before)

    def take_changes(self) -> list[Change]:
        """The changes of the batch, in order; the next batch starts empty."""
        taken, self._changes = self._changes, []
        return taken

    def _stamp(self, obj: KubernetesObject) -> KubernetesObject:
        self.resource_version += 1
        return structs.replace(obj, metadata=structs.replace(obj.metadata, resource_version=str(self.resource_version)))

    def _record(
        self, key: FullKey, before: Stored | None, after: Stored | None, event_type: EventType, obj: KubernetesObject
    ) -> None:
        event = WatchEvent(type=event_type, resource_version=obj.metadata.resource_version, object=obj)
        self._changes.append(Change(key, before, after, event))
        self.owners.change(key, before.object if before else None, after.object if after else None)
        self._keep(key, after)

    def _keep(self, key: FullKey, stored: Stored | None) -> None:
        if stored is None:
            del self.objects[key]
        else:
            self.objects[key] = stored
        if stored is not None and stored.origin:
            self.origins[key] = stored.origin
        else:
            self.origins.pop(key, None)
