"""Growing a volume that pods use: what a claim and its PersistentVolume say about the size to bring it to. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from mooring.kube.objects.meta import Condition
from mooring.kube.objects.pod import Quantities
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.kube.quantity import Notation, Quantity, parse_quantity

STORAGE = "storage"
NOT_REQUIRED = "volume.kubernetes.io/node-expansion-not-required"
"""Annotation of a claim whose driver needs nothing done on nodes; that it is there counts, not what it says."""

PRE_RESIZE = "volume.alpha.kubernetes.io/pre-resize-capacity"
"""Annotation of a PersistentVolume that nodes have yet to grow: what its claim had before, for the next claim that
is bound to it must not take the volume for grown."""

PENDING = "NodeResizePending"
IN_PROGRESS = "NodeResizeInProgress"
INFEASIBLE = "NodeResizeInfeasible"

FAILED_CONDITION = "NodeResizeError"
CONDITIONS = frozenset(("Resizing", "FileSystemResizePending", "ControllerResizeError", FAILED_CONDITION))
"""The conditions of a claim that tell of growing."""


class Growth(msgspec.Struct, frozen=True, kw_only=True):
    """The bytes that pods can use of a volume, and those that this node should bring it to."""

    held: int = 0  # 0: nobody has said
    wanted: int = 0  # 0: it may not grow now
    tracked: bool = False  # the claim tells how far it is, and is told
    settled: bool = False  # the claim counts as grown already, by another node or before


NO_GROWTH = Growth()


def growth_of(claim: PersistentVolumeClaim, volume: PersistentVolume, *, read_only: bool) -> Growth:
    """What a claim and its volume want of a node. A volume that its pod may only read is never grown."""
    held = _bytes(claim.status.capacity)
    if read_only:
        return Growth(held=held)
    state = claim.status.allocated_resource_statuses.get(STORAGE, "")
    target = _bytes(claim.status.allocated_resources) or _bytes(volume.spec.capacity)
    if not state and STORAGE not in claim.status.allocated_resources:
        return Growth(held=held, wanted=target)
    if state in (PENDING, IN_PROGRESS):
        return Growth(held=held, wanted=target, tracked=True)
    if not state and held >= target:
        return Growth(held=held, wanted=target, tracked=True, settled=not _grows_everywhere(claim))
    return Growth(held=held, tracked=True)


def _grows_everywhere(claim: PersistentVolumeClaim) -> bool:
    """Whether every node that has the volume must grow it, although one has told that it is done."""
    return "ReadWriteMany" in claim.spec.access_modes and NOT_REQUIRED not in claim.metadata.annotations


def _bytes(amounts: Quantities) -> int:
    return parse_quantity(amounts[STORAGE]).value if STORAGE in amounts else 0


def begun(claim: PersistentVolumeClaim) -> dict[str, object]:
    """The patch of a claim's status that says a node has begun; only as the claim was seen."""
    return {
        "metadata": {"resourceVersion": claim.metadata.resource_version},
        "status": {"allocatedResourceStatuses": {STORAGE: IN_PROGRESS}},
    }


def finished(claim: PersistentVolumeClaim, size: int) -> dict[str, object]:
    """The patch of a claim's status that says pods can use this many bytes; only as the claim was seen."""
    return {
        "metadata": {"resourceVersion": claim.metadata.resource_version},
        "status": {
            "capacity": {STORAGE: _text(size)},
            "allocatedResourceStatuses": {STORAGE: None},
            "conditions": _plain(each for each in claim.status.conditions if each.type not in CONDITIONS),
        },
    }


def failed(claim: PersistentVolumeClaim, why: str, *, infeasible: bool, now: str) -> dict[str, object]:
    """The patch of a claim's status that says why a node could not; what cannot be done is not tried again."""
    message = f"failed to expand pvc with {why}"
    told = Condition(type=FAILED_CONDITION, status="True", message=message, last_transition_time=now)
    status: dict[str, object] = {"conditions": _plain(_with(claim.status.conditions, told))}
    if infeasible:
        status["allocatedResourceStatuses"] = {STORAGE: INFEASIBLE}
    return {"status": status}


def _with(conditions: Iterable[Condition], told: Condition) -> Iterator[Condition]:
    """The conditions and what is told now: one that says the same already keeps its time and its words."""
    known = {each.type: each for each in conditions}
    before = known.get(told.type)
    if before is None or before.status != told.status:
        known[told.type] = told
    return iter(known.values())


def _plain(conditions: Iterable[Condition]) -> list[object]:
    return [msgspec.to_builtins(each) for each in conditions]


def _text(size: int) -> str:
    return str(Quantity(size * 10**9, Notation.BINARY))
