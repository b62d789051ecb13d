"""Whether a claim wants a larger volume, and how far that is: pure decisions over the claim and its volume."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from mooring.kube.objects.meta import Condition
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.kube.quantity import Quantity, parse_quantity
from mooring.world.growth import CONDITIONS, INFEASIBLE, PENDING, STORAGE

IN_PROGRESS = "ControllerResizeInProgress"
CONTROLLER_INFEASIBLE = "ControllerResizeInfeasible"
_UNDER_WAY = frozenset((IN_PROGRESS, PENDING, "NodeResizeInProgress", INFEASIBLE))


@dataclass(frozen=True, slots=True)
class Grow:
    """The volume of a claim is to be grown to a size, by its driver's controller part."""

    claim: str  # `namespace/name`
    size: str  # as a quantity is written


@dataclass(frozen=True, slots=True)
class TryNodeAgain:
    """The user asks for a size that the volume has already: nodes may try again with that."""

    claim: str
    size: str


Decision = Grow | TryNodeAgain


def decide(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Decision | None:
    """What is to be done about a claim's size; None where nothing is, or where it is a node's turn."""
    asked_text, offered_text = claim.spec.resources.requests.get(STORAGE), volume.spec.capacity.get(STORAGE)
    if claim.status.phase != "Bound" or asked_text is None or offered_text is None:
        return None
    if volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid:
        return None
    asked, state = parse_quantity(asked_text), claim.status.allocated_resource_statuses.get(STORAGE, "")
    allocated = claim.status.allocated_resources.get(STORAGE)
    if parse_quantity(offered_text) < asked:
        return Grow(claim.key, str(allocated if allocated is not None and state in _UNDER_WAY else asked_text))
    if state in (IN_PROGRESS, CONTROLLER_INFEASIBLE):
        return Grow(claim.key, str(allocated if allocated is not None else asked_text))
    if state == INFEASIBLE and allocated is not None and parse_quantity(allocated) != asked:
        return TryNodeAgain(claim.key, str(asked_text))
    return None


def with_conditions(claim: PersistentVolumeClaim, *told: Condition) -> list[Any]:
    """The conditions of a claim that are not about growing, and those that tell about it now."""
    return _plain([*(each for each in claim.status.conditions if each.type not in CONDITIONS), *told])


def _plain(conditions: Iterable[Condition]) -> list[Any]:
    return [msgspec.to_builtins(each) for each in conditions]


def larger(one: str, other: int) -> str:
    """A size as it was written, or the number of bytes if a driver made it more than that."""
    return one if parse_quantity(one) >= Quantity(other * 10**9) else str(other)
