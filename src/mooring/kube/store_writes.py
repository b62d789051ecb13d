"""What create, patch and delete mean: Kubernetes' rules, applied to a draft of the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import structs

from mooring.kube.api import AlreadyExists, Conflict, Invalid, NotFound, Preconditions, not_found, object_title
from mooring.kube.garbage import FullKey
from mooring.kube.merge_patch import Json, merge
from mooring.kube.objects.kinds import ALL_KINDS, NODE, Kind, ObjectT, kind_of
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta
from mooring.kube.objects.pod import PodStatus, Secret
from mooring.kube.objects.storage import PersistentVolumeClaimStatus, PersistentVolumeStatus
from mooring.kube.store_draft import Draft, Stored
from mooring.kube.strategic_merge import strategic_merge

KINDS_WITH_STATUS = frozenset(kind.name for kind in ALL_KINDS if "status" in kind.type.__struct_fields__)
_INITIAL_STATUS: Mapping[str, msgspec.Struct] = {
    "Pod": PodStatus(phase="Pending"),
    "PersistentVolume": PersistentVolumeStatus(phase="Pending"),
    "PersistentVolumeClaim": PersistentVolumeClaimStatus(phase="Pending"),
}
_ATTEMPTS_TO_NAME = 8


def status_of(obj: KubernetesObject) -> msgspec.Struct | None:
    """The status of an object, None for kinds without one."""
    status: msgspec.Struct | None = getattr(obj, "status", None)
    return status


def has_empty_status(obj: KubernetesObject) -> bool:
    status = status_of(obj)
    return status is None or status == type(status)()


def same_content(one: KubernetesObject, other: KubernetesObject) -> bool:
    """Whether two versions differ at most in metadata and status."""
    other = structs.replace(other, metadata=one.metadata)
    if status_of(one) is not None:
        other = structs.replace(other, status=status_of(one))
    return one == other


def with_initial_status(obj: KubernetesObject) -> KubernetesObject:
    """The object with the status that the server gives to new ones."""
    status = status_of(obj)
    if status is None:
        return obj
    return structs.replace(obj, status=_INITIAL_STATUS.get(obj.kind, type(status)()))


def normalise(obj: ObjectT) -> ObjectT:
    """The object as the server keeps it: a secret's `stringData` is folded into its `data`."""
    if isinstance(obj, Secret) and obj.string_data:
        encoded = {name: text.encode() for name, text in obj.string_data.items()}
        return structs.replace(obj, data={**obj.data, **encoded}, string_data={})
    return obj


class StoreWrites:
    """The writes of the API on a draft. Each either raises `ApiError`, or leaves the draft changed as a whole."""

    def __init__(self, draft: Draft, *, clock: Callable[[], str], new_uid: Callable[[], str]) -> None:
        self.draft = draft
        self._clock = clock
        self._new_uid = new_uid

    def key(self, kind: Kind[ObjectT], namespace: str, name: str) -> FullKey:
        return (kind.name, namespace if kind.namespaced else "", name)

    def create(self, obj: ObjectT) -> ObjectT:
        kind = kind_of(obj)
        if obj.metadata.resource_version:
            raise Invalid(
                f"cannot create {object_title(kind, obj.metadata.namespace, obj.metadata.name)}",
                why="metadata.resourceVersion must not be set on an object to be created",
            )
        named = self._named(kind, obj)
        fresh = named if kind.name == NODE.name else with_initial_status(named)
        return _typed(kind, self.add(Stored(fresh)))

    def add(self, stored: Stored) -> KubernetesObject:
        """Write an object that must not exist yet, with uid, creationTimestamp and generation filled in."""
        obj = normalise(stored.object)
        kind = kind_of(obj)
        meta = obj.metadata
        key = self.key(kind, meta.namespace, meta.name)
        self._check_address(kind, meta)
        if key in self.draft.objects:
            raise AlreadyExists(
                f"cannot create {object_title(kind, meta.namespace, meta.name)}", why="it exists already"
            )
        meta = structs.replace(
            meta,
            namespace=key[1],
            uid=meta.uid or self._new_uid(),
            creation_timestamp=meta.creation_timestamp or self._clock(),
            generation=1,
        )
        return self.draft.put(key, Stored(structs.replace(obj, metadata=meta), stored.origin, stored.applied))

    def patch(
        self,
        kind: Kind[ObjectT],
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        subresource: str,
        *,
        strategic: bool = False,
    ) -> ObjectT:
        key, stored = self._find(kind, namespace, name)
        what = f"cannot patch {object_title(kind, key[1], name)}"
        if subresource and (subresource != "status" or kind.name not in KINDS_WITH_STATUS):
            raise NotFound(what, why=f"{kind} has no subresource {subresource!r}")
        current = stored.object
        before: Json = msgspec.to_builtins(current)
        wanted: Json = msgspec.to_builtins(patch)
        _check_preconditions(what, current.metadata, wanted.get("metadata") or {})
        merged = _merge_strategically(what, kind, before, wanted) if strategic else merge(before, wanted)
        if subresource:
            merged = {**before, "status": merged.get("status", {})}
        elif kind.name in KINDS_WITH_STATUS:
            merged["status"] = before.get("status", {})
        after = self._convert(what, kind, merged)
        _check_immutable(what, current, after)
        return _typed(kind, self.replace(key, stored, after))

    def replace(self, key: FullKey, stored: Stored, after: KubernetesObject) -> KubernetesObject:
        """Write a new version of an object. A version equal to the present one writes nothing."""
        current = stored.object
        meta = structs.replace(
            after.metadata,
            generation=current.metadata.generation,
            resource_version=current.metadata.resource_version,
        )
        after = structs.replace(normalise(after), metadata=meta)
        if after == current:
            return current
        if not same_content(after, current):
            after = structs.replace(after, metadata=structs.replace(meta, generation=meta.generation + 1))
        if meta.deletion_timestamp and current.metadata.finalizers and not meta.finalizers:
            return self.draft.remove(key, last=after)
        return self.draft.put(key, Stored(after, stored.origin, stored.applied))

    def delete(self, kind: Kind[ObjectT], namespace: str, name: str, preconditions: Preconditions) -> ObjectT:
        key, stored = self._find(kind, namespace, name)
        expected = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
        _check_preconditions(f"cannot delete {object_title(kind, key[1], name)}", stored.object.metadata, expected)
        return _typed(kind, self.discard(key))

    def discard(self, key: FullKey) -> KubernetesObject:
        """Remove an object, or when it has finalizers, mark it as being deleted."""
        stored = self.draft.objects[key]
        meta = stored.object.metadata
        if not meta.finalizers:
            return self.draft.remove(key)
        if meta.deletion_timestamp:
            return stored.object
        marked = structs.replace(
            meta,
            deletion_timestamp=self._clock(),
            deletion_grace_period_seconds=0,
            generation=meta.generation + 1,
        )
        return self.draft.put(
            key, Stored(structs.replace(stored.object, metadata=marked), stored.origin, stored.applied)
        )

    def collect_garbage(self) -> None:
        """Delete what lost its last owner, and what that leaves without one, until nothing is left to delete."""
        while orphans := self.draft.take_orphans():
            for key in orphans:
                self.discard(key)

    def _find(self, kind: Kind[ObjectT], namespace: str, name: str) -> tuple[FullKey, Stored]:
        key = self.key(kind, namespace, name)
        stored = self.draft.objects.get(key)
        if stored is None:
            raise not_found(kind, key[1], name)
        return key, stored

    def _named(self, kind: Kind[ObjectT], obj: ObjectT) -> ObjectT:
        meta = structs.replace(obj.metadata, deletion_timestamp=None, deletion_grace_period_seconds=None)
        for _ in range(_ATTEMPTS_TO_NAME):
            if meta.name or not meta.generate_name:
                break
            suffix = "".join(letter for letter in self._new_uid().lower() if letter.isalnum())[-5:]
            if self.key(kind, meta.namespace, meta.generate_name + suffix) not in self.draft.objects:
                meta = structs.replace(meta, name=meta.generate_name + suffix)
        return structs.replace(obj, metadata=meta)

    def _check_address(self, kind: Kind[ObjectT], meta: ObjectMeta) -> None:
        if not meta.name or "/" in meta.name:
            raise Invalid(f"cannot create {kind} {meta.name!r}", why="an object needs a name without '/'")
        if kind.namespaced and not meta.namespace:
            raise Invalid(f"cannot create {kind} {meta.name!r}", why=f"{kind} lives in a namespace and none is given")

    def _convert(self, what: str, kind: Kind[ObjectT], merged: Json) -> ObjectT:
        try:
            return msgspec.convert(merged, kind.type)
        except msgspec.ValidationError as error:
            raise Invalid(what, why=str(error)) from error


def _merge_strategically(what: str, kind: Kind[ObjectT], before: Json, wanted: Json) -> Json:
    try:
        return strategic_merge(kind.name, before, wanted)
    except ValueError as error:
        raise Invalid(what, why=str(error)) from error


def _typed(kind: Kind[ObjectT], obj: KubernetesObject) -> ObjectT:
    if not isinstance(obj, kind.type):
        raise TypeError(f"{obj.key!r} is stored as {kind} but is a {type(obj).__name__}")
    return obj


def _check_preconditions(what: str, meta: ObjectMeta, expected: Mapping[str, str | None]) -> None:
    version, uid = expected.get("resourceVersion"), expected.get("uid")
    if version and version != meta.resource_version:
        raise Conflict(
            what,
            why=f"it changed: its resourceVersion is {meta.resource_version!r}, not {version!r}",
            next_step="Read it again and repeat the change on its newest version",
        )
    if uid and uid != meta.uid:
        raise Conflict(what, why=f"its uid is {meta.uid!r}, not {uid!r}: it is another object of the same name")


def _check_immutable(what: str, before: KubernetesObject, after: KubernetesObject) -> None:
    old, new = before.metadata, after.metadata
    pairs = {
        "apiVersion": (before.api_version, after.api_version),
        "kind": (before.kind, after.kind),
        "metadata.name": (old.name, new.name),
        "metadata.namespace": (old.namespace, new.namespace),
        "metadata.uid": (old.uid, new.uid),
        "metadata.creationTimestamp": (old.creation_timestamp, new.creation_timestamp),
        "metadata.deletionTimestamp": (old.deletion_timestamp, new.deletion_timestamp),
    }
    for field, (was, wanted) in pairs.items():
        if was != wanted:
            raise Invalid(what, why=f"{field} cannot be changed from {was!r} to {wanted!r}")
    if old.deletion_timestamp and not set(new.finalizers) <= set(old.finalizers):
        raise Invalid(what, why="no finalizer can be added to an object that is being deleted")
