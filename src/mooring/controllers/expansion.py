"""Whether a claim wants a larger volume, and how far that is: pure decisions over the claim and its volume."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from mooring.kube.objects.meta import Condition
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.kube.quantity import Quantity, parse_quantity
from mooring.world.growth import CONDITIONS, INFEASIBLE, PENDING, PRE_RESIZE, STORAGE

IN_PROGRESS = "ControllerResizeInProgress"
CONTROLLER_INFEASIBLE = "ControllerResizeInfeasible"
_NODES_TURN = frozenset((PENDING, "NodeResizeInProgress"))
_UNDER_WAY = _NODES_TURN | {IN_PROGRESS, INFEASIBLE}


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


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The user asks for no more than the claim has: a size that could not be had is given up."""

    claim: str
    size: str  # what the claim has


@dataclass(frozen=True, slots=True)
class Settle:
    """A claim has all of its volume: that the volume was smaller once need not be kept in mind any more."""

    claim: str


Decision = Grow | TryNodeAgain | Withdraw | Settle


def decide(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Decision | None:
    """What is to be done about a claim's size; None where nothing is, or where it is a node's turn."""
    asked, offered = claim.spec.resources.requests.get(STORAGE), volume.spec.capacity.get(STORAGE)
    if claim.status.phase != "Bound" or asked is None or offered is None:
        return None
    if volume.spec.claim_ref is None or volume.spec.claim_ref.uid != claim.metadata.uid:
        return None
    state = claim.status.allocated_resource_statuses.get(STORAGE, "")
    allocated, held = claim.status.allocated_resources.get(STORAGE), claim.status.capacity.get(STORAGE)
    begun = allocated if allocated is not None else asked
    if not state and held is not None and parse_quantity(asked) <= parse_quantity(held):
        # It has that: a manifest that was read again may say that the volume is as small as it once was.
        is_whole = PRE_RESIZE in volume.metadata.annotations and parse_quantity(offered) <= parse_quantity(held)
        return Settle(claim.key) if is_whole else None
    if parse_quantity(offered) < parse_quantity(asked):
        return _grow_on(
            claim.key, state, str(asked), str(begun), reached=parse_quantity(begun) <= parse_quantity(offered)
        )
    if state == IN_PROGRESS:
        return Grow(claim.key, str(begun))
    if state in _NODES_TURN or held is None:
        return None
    if parse_quantity(asked) <= parse_quantity(held):
        return Withdraw(claim.key, str(held)) if state in (CONTROLLER_INFEASIBLE, INFEASIBLE) else None
    if state == INFEASIBLE:  # trying the same size again would be refused again
        return TryNodeAgain(claim.key, str(asked)) if parse_quantity(begun) != parse_quantity(asked) else None
    return Grow(claim.key, str(asked))


def _grow_on(claim: str, state: str, asked: str, begun: str, *, reached: bool) -> Grow | None:
    """How a volume goes on that is smaller than asked for. One that has `reached` what was begun is done with that:

    nodes follow before it grows again, and where they could not, they are not asked for the same once more.
    """
    if reached and state in _NODES_TURN:
        return None
    goes_on = state in _UNDER_WAY and not (reached and state == INFEASIBLE)
    return Grow(claim, begun if goes_on else asked)


def with_conditions(claim: PersistentVolumeClaim, *told: Condition) -> list[Any]:
    """The conditions of a claim that are not about growing, and those that tell about it now."""
    return _plain([*(each for each in claim.status.conditions if each.type not in CONDITIONS), *told])


def _plain(conditions: Iterable[Condition]) -> list[Any]:
    return [msgspec.to_builtins(each) for each in conditions]


def larger(one: str, other: int) -> str:
    """A size as it was written, or the number of bytes if a driver made it more than that."""
    return one if parse_quantity(one) >= Quantity(other * 10**9) else str(other)
