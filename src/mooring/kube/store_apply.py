"""Applying manifests: many objects written, changed and removed as one transaction."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec
from msgspec import structs

from mooring.kube.api import Invalid
from mooring.kube.garbage import FullKey
from mooring.kube.merge_patch import Json, three_way
from mooring.kube.objects.kinds import kind_of
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.store_draft import Stored
from mooring.kube.store_writes import (
    StoreWrites,
    has_empty_status,
    normalise,
    same_content,
    status_of,
    with_initial_status,
)

_OF_THE_STORE = frozenset({"uid", "resourceVersion", "generation", "creationTimestamp", "finalizers"})
_KEPT_UNLESS_GIVEN = frozenset({"ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds"})


@dataclass(slots=True, kw_only=True)
class Applied:
    """What one `apply_all` did, by (kind name, namespace, name).

    An object in `waiting` is being deleted and still held by finalizers; the manifest must be applied again when
    it has gone.
    """

    created: list[FullKey] = field(default_factory=list)
    changed: list[FullKey] = field(default_factory=list)
    removed: list[FullKey] = field(default_factory=list)
    unchanged: list[FullKey] = field(default_factory=list)
    waiting: list[FullKey] = field(default_factory=list)


def apply_all(writes: StoreWrites, put: Iterable[tuple[KubernetesObject, str]], remove: Iterable[FullKey]) -> Applied:
    """Remove and write on the draft; objects that others removed before are none of our business."""
    report = Applied()
    for key in remove:
        if key in writes.draft.objects:
            writes.discard(key)
            report.removed.append(key)
    for obj, origin in put:
        _apply(writes, report, normalise(obj), origin)
    return report


def _apply(writes: StoreWrites, report: Applied, obj: KubernetesObject, origin: str) -> None:
    meta = obj.metadata
    key = writes.key(kind_of(obj), meta.namespace, meta.name)
    if key[1] != meta.namespace:
        obj = structs.replace(obj, metadata=structs.replace(meta, namespace=key[1]))
    wanted = Stored(obj, origin, _encode(obj))
    stored = writes.draft.objects.get(key)
    if stored is not None and meta.uid and meta.uid != stored.object.metadata.uid:
        writes.discard(key)
        if key in writes.draft.objects:
            report.waiting.append(key)
            return
        _create(writes, wanted)
        report.changed.append(key)
    elif stored is None:
        _create(writes, wanted)
        report.created.append(key)
    else:
        changed = _change(writes, key, stored, wanted)
        (report.changed if changed else report.unchanged).append(key)
        if stored.object.metadata.deletion_timestamp and not meta.deletion_timestamp:
            report.waiting.append(key)


def _create(writes: StoreWrites, wanted: Stored) -> None:
    obj = with_initial_status(wanted.object) if has_empty_status(wanted.object) else wanted.object
    writes.add(Stored(obj, wanted.origin, wanted.applied))


def _change(writes: StoreWrites, key: FullKey, stored: Stored, wanted: Stored) -> bool:
    if stored.applied == wanted.applied and _says_nothing_new(stored.object, wanted.object):
        if stored.origin != wanted.origin:
            writes.draft.remark(key, Stored(stored.object, wanted.origin, wanted.applied))
        return False
    after = _merge(stored, wanted)
    if writes.replace(key, Stored(stored.object, wanted.origin, wanted.applied), after) is not stored.object:
        return True
    if (stored.origin, stored.applied) != (wanted.origin, wanted.applied):
        writes.draft.remark(key, Stored(stored.object, wanted.origin, wanted.applied))
    return False


def _says_nothing_new(current: KubernetesObject, wanted: KubernetesObject) -> bool:
    """A quick and safe yes for the usual case: the same manifest again, nothing changed by others."""
    have, want = current.metadata, wanted.metadata
    return (
        not (want.finalizers or want.owner_references or want.deletion_timestamp)
        and want.labels.items() <= have.labels.items()
        and want.annotations.items() <= have.annotations.items()
        and has_empty_status(wanted)
        and same_content(current, wanted)
    )


def _merge(stored: Stored, wanted: Stored) -> KubernetesObject:
    """The stored object with what the manifest says, without what only its last version said.

    What others wrote stays: a binder's `spec.volumeName`, a controller's annotations and finalizers. The status
    stays too, unless the manifest brings one.
    """
    current, given = stored.object, wanted.object
    merged = three_way(
        last=_authored(_decode(stored.applied), _OF_THE_STORE | _KEPT_UNLESS_GIVEN),
        new=_authored(_decode(wanted.applied), _OF_THE_STORE),
        current=msgspec.to_builtins(current),
    )
    try:
        after = msgspec.convert(merged, type(current))
    except msgspec.ValidationError as error:
        raise Invalid(f"cannot apply {current.kind} {current.key!r}", why=str(error)) from error
    meta = structs.replace(after.metadata, finalizers=_merge_finalizers(stored, wanted))
    status = {} if has_empty_status(given) else {"status": status_of(given)}
    return structs.replace(after, metadata=meta, **status)


def _authored(manifest: Json, left_out: frozenset[str]) -> Json:
    """The parts of a manifest that its author decides on; finalizers and status are merged apart."""
    meta = {name: value for name, value in manifest.get("metadata", {}).items() if name not in left_out}
    rest = {name: value for name, value in manifest.items() if name not in ("metadata", "status")}
    return {**rest, "metadata": meta}


def _merge_finalizers(stored: Stored, wanted: Stored) -> tuple[str, ...]:
    current, given = stored.object.metadata.finalizers, wanted.object.metadata.finalizers
    last = _decode(stored.applied).get("metadata", {}).get("finalizers", [])
    kept = tuple(name for name in current if name not in last or name in given)
    return kept + tuple(name for name in given if name not in current)


def _encode(obj: KubernetesObject) -> bytes:
    try:
        return msgspec.json.encode(obj)
    except UnicodeEncodeError as error:
        raise Invalid(
            f"cannot apply {obj.kind} {obj.key!r}", why=f"it holds text that is not Unicode: {error}"
        ) from error


def _decode(applied: bytes) -> Json:
    manifest: Json = msgspec.json.decode(applied) if applied else {}
    return manifest
