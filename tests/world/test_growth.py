"""What a claim and its volume say about growing, and what is written to the claim (operations.md 6 and 10.4)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.kube.merge_patch import merge
from mooring.kube.objects.meta import Condition, ObjectMeta
from mooring.kube.objects.pod import ResourceRequirements
from mooring.kube.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
)
from mooring.world.growth import (
    FAILED_CONDITION,
    IN_PROGRESS,
    INFEASIBLE,
    NO_GROWTH,
    NOT_REQUIRED,
    PENDING,
    STORAGE,
    Growth,
    begun,
    failed,
    finished,
    growth_of,
)

ONE, TWO, THREE = 10**9, 2 * 10**9, 3 * 10**9
NOW = "2026-01-01T00:00:00Z"
RESIZING = Condition(type="Resizing", status="True", last_transition_time="then")
FOREIGN = Condition(type="Checked", status="True", message="by somebody else")


def claim(
    *,
    held: str = "1G",
    allocated: str = "",
    state: str = "",
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    conditions: tuple[Condition, ...] = (),
    annotations: dict[str, str] | None = None,
) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace="shop", resource_version="7", annotations=annotations or {}),
        spec=PersistentVolumeClaimSpec(
            access_modes=modes, resources=ResourceRequirements(requests={STORAGE: "2G"}), volume_name="pv"
        ),
        status=PersistentVolumeClaimStatus(
            phase="Bound",
            capacity={STORAGE: held} if held else {},
            allocated_resources={STORAGE: allocated} if allocated else {},
            allocated_resource_statuses={STORAGE: state} if state else {},
            conditions=conditions,
        ),
    )


def volume(size: str = "2G") -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(capacity={STORAGE: size}))


def growth(found: PersistentVolumeClaim, size: str = "2G") -> Growth:
    return growth_of(found, volume(size), read_only=False)


# -- how far a volume is to grow -------------------------------------------------------------------------------------
def test_a_claim_that_tells_nothing_grows_to_the_size_of_its_volume() -> None:
    """Scenario 49: without a state and an allocated size it is the old way, in which the claim is not told first."""
    assert growth(claim()) == Growth(held=ONE, wanted=TWO)


@pytest.mark.parametrize("state", [PENDING, IN_PROGRESS])
def test_a_claim_whose_turn_it_is_grows_to_what_was_allocated(state: str) -> None:
    """Scenario 42; the volume may be larger than what was asked for."""
    assert growth(claim(allocated="2G", state=state), "3G") == Growth(held=ONE, wanted=TWO, tracked=True)


def test_a_claim_with_a_state_and_without_an_allocated_size_grows_to_the_size_of_its_volume() -> None:
    """Q10."""
    assert growth(claim(state=PENDING), "3G") == Growth(held=ONE, wanted=THREE, tracked=True)


@pytest.mark.parametrize("state", [INFEASIBLE, "ControllerResizeInProgress", "ControllerResizeInfeasible"])
@pytest.mark.parametrize("allocated", ["", "2G"])
def test_a_claim_whose_turn_it_is_not_does_not_grow_here(state: str, allocated: str) -> None:
    """Scenarios 43 and 48."""
    assert growth(claim(allocated=allocated, state=state)) == Growth(held=ONE, tracked=True)


def test_a_claim_that_was_allocated_more_and_has_no_state_waits_for_one() -> None:
    assert growth(claim(allocated="2G")) == Growth(held=ONE, tracked=True)


def test_a_claim_that_has_grown_already_is_settled() -> None:
    """Scenario 46."""
    expected = Growth(held=TWO, wanted=TWO, tracked=True, settled=True)
    assert growth(claim(held="2G", allocated="2G")) == expected


def test_a_volume_that_many_nodes_write_grows_on_each_of_them() -> None:
    """Scenario 47."""
    shared = claim(held="2G", allocated="2G", modes=("ReadWriteOnce", "ReadWriteMany"))
    assert growth(shared) == Growth(held=TWO, wanted=TWO, tracked=True, settled=False)


def test_a_volume_whose_driver_needs_no_nodes_is_settled_for_all_of_them() -> None:
    """Scenario 47: that the annotation is there counts, not what it says."""
    shared = claim(held="2G", allocated="2G", modes=("ReadWriteMany",), annotations={NOT_REQUIRED: "false"})
    assert growth(shared).settled


def test_a_volume_that_is_only_read_is_never_grown() -> None:
    assert growth_of(claim(allocated="2G", state=PENDING), volume(), read_only=True) == Growth(held=ONE)


def test_a_claim_and_a_volume_without_sizes_want_nothing() -> None:
    bare = PersistentVolume(metadata=ObjectMeta(name="pv"))
    assert growth_of(claim(held=""), bare, read_only=False) == NO_GROWTH


# -- what is written to the claim ------------------------------------------------------------------------------------
def status_after(found: PersistentVolumeClaim, patch: dict[str, Any]) -> dict[str, Any]:
    status: dict[str, Any] = merge(msgspec.to_builtins(found), patch)["status"]
    return status


def test_a_claim_is_told_that_a_node_has_begun_only_as_it_was_seen() -> None:
    """Scenario 56."""
    patch = begun(claim(allocated="2G", state=PENDING))
    assert patch["metadata"] == {"resourceVersion": "7"}
    assert status_after(claim(state=PENDING), patch)["allocatedResourceStatuses"] == {STORAGE: IN_PROGRESS}


def test_a_claim_that_has_grown_loses_its_state_and_what_it_told_about_growing_and_nothing_else() -> None:
    """Scenario 56: the state of another resource, and conditions of others, stay."""
    found = claim(allocated="2G", state=IN_PROGRESS, conditions=(RESIZING, FOREIGN))
    patch = finished(found, TWO)
    assert patch["metadata"] == {"resourceVersion": "7"}
    other = merge(msgspec.to_builtins(found), {"status": {"allocatedResourceStatuses": {"other": "Busy"}}})
    after = merge(other, patch)["status"]
    assert after["allocatedResourceStatuses"] == {"other": "Busy"}
    assert after["capacity"] == {STORAGE: "1953125Ki"}
    assert [each["type"] for each in after["conditions"]] == ["Checked"]


def test_a_failure_is_told_beside_what_is_there_and_may_be_written_over_any_version() -> None:
    """Scenarios 45 and 55."""
    found = claim(allocated="2G", state=IN_PROGRESS, conditions=(RESIZING, FOREIGN))
    patch = failed(found, "no space", infeasible=False, now=NOW)
    assert "metadata" not in patch
    after = status_after(found, patch)
    assert after["allocatedResourceStatuses"] == {STORAGE: IN_PROGRESS}
    assert [each["type"] for each in after["conditions"]] == ["Resizing", "Checked", FAILED_CONDITION]
    told = after["conditions"][-1]
    expected = ("True", "failed to expand pvc with no space", NOW)
    assert (told["status"], told["message"], told["lastTransitionTime"]) == expected


def test_what_cannot_be_done_is_a_state_of_its_own() -> None:
    """Scenario 44."""
    found = claim(allocated="2G", state=IN_PROGRESS)
    after = status_after(found, failed(found, "too much", infeasible=True, now=NOW))
    assert after["allocatedResourceStatuses"] == {STORAGE: INFEASIBLE}


@pytest.mark.parametrize(("status", "time"), [("True", "then"), ("False", NOW)])
def test_a_condition_that_says_the_same_keeps_its_time_and_words(status: str, time: str) -> None:
    """Scenario 55."""
    before = Condition(type=FAILED_CONDITION, status=status, message="before", last_transition_time="then")
    found = claim(state=IN_PROGRESS, conditions=(before,))
    (told,) = status_after(found, failed(found, "again", infeasible=False, now=NOW))["conditions"]
    assert told["lastTransitionTime"] == time
    assert (told["message"] == "before") is (status == "True")
