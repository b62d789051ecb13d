"""Whether a claim wants a larger volume (operations.md 2.11, attachdetach.md 9): decisions alone."""

from __future__ import annotations

import pytest
from msgspec import structs

from mooring.controllers.expansion import (
    Decision,
    Grow,
    Settle,
    TryNodeAgain,
    Withdraw,
    decide,
    larger,
    with_conditions,
)
from mooring.kube.objects.meta import Condition, ObjectMeta, ObjectReference
from mooring.kube.objects.pod import ResourceRequirements
from mooring.kube.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
)

KEY = "shop/data"
CONTROLLER_BUSY, CONTROLLER_CANNOT = "ControllerResizeInProgress", "ControllerResizeInfeasible"
PENDING, NODE_BUSY, NODE_CANNOT = "NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"


def claim(request: str, *, held: str = "1Gi", state: str = "", allocated: str = "") -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace="shop", uid="uid-data"),
        spec=PersistentVolumeClaimSpec(
            resources=ResourceRequirements(requests={"storage": request} if request else {})
        ),
        status=PersistentVolumeClaimStatus(
            phase="Bound",
            capacity={"storage": held} if held else {},
            allocated_resources={"storage": allocated} if allocated else {},
            allocated_resource_statuses={"storage": state} if state else {},
        ),
    )


def volume(size: str, *, uid: str = "uid-data") -> PersistentVolume:
    reference = ObjectReference(namespace="shop", name="data", uid=uid)
    spec = PersistentVolumeSpec(capacity={"storage": size} if size else {}, claim_ref=reference)
    return PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec)


@pytest.mark.parametrize(
    ("state", "allocated", "decision"),
    [
        ("", "", Grow(KEY, "3Gi")),
        ("", "2Gi", Grow(KEY, "3Gi")),  # an earlier growth that has come to its end
        (CONTROLLER_CANNOT, "5Gi", Grow(KEY, "3Gi")),  # scenario 103 of csi.md: a smaller request is honoured
        (CONTROLLER_BUSY, "2Gi", Grow(KEY, "2Gi")),
        (CONTROLLER_BUSY, "5Gi", Grow(KEY, "5Gi")),  # and before that it is not
        (PENDING, "2Gi", Grow(KEY, "2Gi")),
        (NODE_BUSY, "2Gi", Grow(KEY, "2Gi")),
        (NODE_CANNOT, "2Gi", Grow(KEY, "2Gi")),
        (CONTROLLER_BUSY, "", Grow(KEY, "3Gi")),
        (PENDING, "", Grow(KEY, "3Gi")),
    ],
)
def test_a_volume_that_is_too_small_grows_to_what_was_begun_or_to_what_is_asked(
    state: str, allocated: str, decision: Decision
) -> None:
    assert decide(claim("3Gi", state=state, allocated=allocated), volume("1Gi")) == decision


@pytest.mark.parametrize(
    ("state", "decision"),
    [
        (PENDING, None),
        (NODE_BUSY, None),
        (NODE_CANNOT, Grow(KEY, "3Gi")),
        (CONTROLLER_BUSY, Grow(KEY, "2Gi")),  # it is to be written down
        ("", Grow(KEY, "3Gi")),
    ],
)
def test_a_volume_that_has_grown_grows_again_only_after_nodes_have_followed(
    state: str, decision: Decision | None
) -> None:
    assert decide(claim("3Gi", state=state, allocated="2Gi"), volume("2Gi")) == decision


@pytest.mark.parametrize(
    ("state", "allocated", "decision"),
    [
        (PENDING, "2Gi", None),
        (NODE_BUSY, "2Gi", None),
        (CONTROLLER_BUSY, "2Gi", Grow(KEY, "2Gi")),  # it is to be written down
        (CONTROLLER_BUSY, "3Gi", Grow(KEY, "3Gi")),
        (CONTROLLER_BUSY, "", Grow(KEY, "2Gi")),
        (CONTROLLER_CANNOT, "5Gi", Grow(KEY, "2Gi")),
        (NODE_CANNOT, "3Gi", TryNodeAgain(KEY, "2Gi")),
        (NODE_CANNOT, "2Gi", None),  # the node would only refuse again
        ("", "1Gi", Grow(KEY, "2Gi")),
        ("", "", Grow(KEY, "2Gi")),
    ],
)
def test_a_volume_that_is_large_enough_is_brought_to_its_claim(
    state: str, allocated: str, decision: Decision | None
) -> None:
    assert decide(claim("2Gi", state=state, allocated=allocated), volume("3Gi")) == decision


@pytest.mark.parametrize("state", [CONTROLLER_CANNOT, NODE_CANNOT])
@pytest.mark.parametrize("request_", ["1Gi", "512Mi"])
def test_a_size_that_could_not_be_had_is_given_up_when_nobody_asks_for_more(state: str, request_: str) -> None:
    asked = claim(request_, state=state, allocated="5Gi")
    assert decide(asked, volume("2Gi")) == Withdraw(KEY, "1Gi")


@pytest.mark.parametrize("request_", ["1Gi", "1024Mi", "512Mi"])
def test_a_claim_that_has_what_it_asks_for_is_left_alone(request_: str) -> None:
    assert decide(claim(request_), volume("1Gi")) is None
    assert decide(claim(request_, allocated="1Gi"), volume("2Gi")) is None


@pytest.mark.parametrize(("size", "decision"), [("2Gi", Settle(KEY)), ("1Gi", Settle(KEY)), ("3Gi", None)])
def test_what_a_claim_had_before_is_kept_in_mind_until_it_has_all_of_its_volume(
    size: str, decision: Decision | None
) -> None:
    noted = ObjectMeta(name="pv", annotations={"volume.alpha.kubernetes.io/pre-resize-capacity": "1Gi"})
    assert decide(claim("2Gi", held="2Gi"), structs.replace(volume(size), metadata=noted)) == decision


def test_a_size_that_the_driver_may_still_give_is_finished_whatever_is_asked_now() -> None:
    assert decide(claim("1Gi", state=CONTROLLER_BUSY, allocated="5Gi"), volume("5Gi")) == Grow(KEY, "5Gi")


@pytest.mark.parametrize("state", [PENDING, NODE_BUSY])
def test_a_growth_that_has_begun_is_not_taken_back(state: str) -> None:
    """Scenario 104 of csi.md."""
    assert decide(claim("1Gi", state=state, allocated="2Gi"), volume("2Gi")) is None


@pytest.mark.parametrize(
    ("asked", "bound"),
    [
        (structs.replace(claim("3Gi"), status=PersistentVolumeClaimStatus(phase="Pending")), volume("1Gi")),
        (claim("3Gi"), volume("1Gi", uid="of-another")),
        (claim("3Gi"), PersistentVolume(spec=PersistentVolumeSpec(capacity={"storage": "1Gi"}))),
        (claim(""), volume("1Gi")),
        (claim("3Gi"), volume("")),
        (claim("1Gi", held=""), volume("2Gi")),
    ],
    ids=["not bound", "another's", "nobody's", "no request", "no size", "no status"],
)
def test_a_claim_that_is_not_bound_or_does_not_say_wants_nothing(
    asked: PersistentVolumeClaim, bound: PersistentVolume
) -> None:
    assert decide(asked, bound) is None


def test_what_a_claim_tells_about_growing_is_replaced_and_all_else_stays() -> None:
    checked = Condition(type="Checked", status="True")
    old = Condition(type="Resizing", status="True")
    asked = claim("1Gi")
    told = structs.replace(asked, status=structs.replace(asked.status, conditions=(old, checked)))
    assert [each["type"] for each in with_conditions(told)] == ["Checked"]
    failed = Condition(type="ControllerResizeError", status="True")
    assert [each["type"] for each in with_conditions(told, failed)] == ["Checked", "ControllerResizeError"]


@pytest.mark.parametrize(
    ("asked", "given", "size"), [("2Gi", 2**31, "2Gi"), ("2Gi", 0, "2Gi"), ("2Gi", 2**31 + 1, "2147483649")]
)
def test_a_size_is_told_as_it_was_written_unless_the_driver_made_it_more(asked: str, given: int, size: str) -> None:
    assert larger(asked, given) == size
