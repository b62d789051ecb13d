"""Which volume fits a claim (scenarios B1–B19 of the binder)."""

from __future__ import annotations

import pytest

from mooring.controllers.matching import choose_volume, mismatch
from mooring.kube.objects.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta, ObjectReference
from mooring.kube.objects.pod import ResourceRequirements
from mooring.kube.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
)


def volume(
    name: str,
    size: str = "10Gi",
    *,
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    storage_class: str = "",
    mode: str | None = None,
    labels: dict[str, str] | None = None,
    owner: ObjectReference | None = None,
    phase: str = "Available",
) -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(name=name, labels=labels or {}),
        spec=PersistentVolumeSpec(
            capacity={"storage": size},
            access_modes=modes,
            storage_class_name=storage_class,
            volume_mode=mode,
            claim_ref=owner,
        ),
        status=PersistentVolumeStatus(phase=phase),
    )


def claim(
    size: str = "1Gi",
    *,
    modes: tuple[str, ...] = ("ReadWriteOnce",),
    storage_class: str | None = "",
    mode: str | None = None,
    selector: LabelSelector | None = None,
) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name="data", namespace="shop", uid="uid-data"),
        spec=PersistentVolumeClaimSpec(
            access_modes=modes,
            resources=ResourceRequirements(requests={"storage": size}),
            storage_class_name=storage_class,
            volume_mode=mode,
            selector=selector,
        ),
    )


def chosen(wanted: PersistentVolumeClaim, *volumes: PersistentVolume, reserved_only: bool = False) -> str | None:
    found = choose_volume(wanted, volumes, reserved_only=reserved_only, fits_node=lambda _: True)
    return found.metadata.name if found is not None else None


OURS = ObjectReference(namespace="shop", name="data")
THEIRS = ObjectReference(namespace="shop", name="other")


def test_the_smallest_volume_that_is_large_enough_is_chosen() -> None:
    """B2."""
    assert chosen(claim("1Gi"), volume("big", "10Gi"), volume("small", "1Gi"), volume("middle", "5Gi")) == "small"


def test_a_volume_reserved_for_the_claim_wins_although_it_is_larger() -> None:
    """B3."""
    assert chosen(claim(), volume("free", "1Gi"), volume("ours", "10Gi", owner=OURS)) == "ours"


def test_a_volume_of_another_claim_is_not_taken() -> None:
    """B4."""
    assert chosen(claim(), volume("theirs", owner=THEIRS)) is None


def test_a_volume_reserved_under_another_uid_is_not_ours() -> None:
    """B12."""
    assert chosen(claim(), volume("old", owner=ObjectReference(namespace="shop", name="data", uid="older"))) is None


def test_fewer_access_modes_come_before_smaller_size() -> None:
    """B19."""
    both = volume("both", "5Gi", modes=("ReadWriteOnce", "ReadOnlyMany"))
    assert chosen(claim(), both, volume("one", "10Gi")) == "one"


def test_every_requested_access_mode_is_needed() -> None:
    assert chosen(claim(modes=("ReadWriteMany",)), volume("rwo")) is None


def test_a_block_claim_does_not_get_a_file_system() -> None:
    """B18."""
    assert chosen(claim(mode="Block"), volume("fs")) is None
    assert chosen(claim(mode="Block"), volume("raw", mode="Block")) == "raw"


def test_classes_must_be_equal() -> None:
    assert chosen(claim(storage_class="fast"), volume("plain"), volume("fast", storage_class="fast")) == "fast"


@pytest.mark.parametrize(
    ("requirement", "fits"),
    [
        (LabelSelectorRequirement(key="tier", operator="In", values=("gold",)), True),
        (LabelSelectorRequirement(key="tier", operator="NotIn", values=("gold",)), False),
        (LabelSelectorRequirement(key="tier", operator="Exists"), True),
        (LabelSelectorRequirement(key="tier", operator="DoesNotExist"), False),
        (LabelSelectorRequirement(key="tier", operator="Near"), False),
    ],
)
def test_expressions_of_a_selector_are_held_against_the_labels(
    requirement: LabelSelectorRequirement, fits: bool
) -> None:
    wanted = claim(selector=LabelSelector(match_expressions=(requirement,)))
    assert chosen(wanted, volume("v", labels={"tier": "gold"})) == ("v" if fits else None)


def test_labels_of_a_selector_must_match() -> None:
    """B5."""
    wanted = claim(selector=LabelSelector(match_labels={"tier": "gold"}))
    assert chosen(wanted, volume("v", labels={"tier": "silver"})) is None
    assert chosen(wanted, volume("v", labels={"tier": "gold"})) == "v"


@pytest.mark.parametrize("phase", ["Released", "Failed", "Bound"])
def test_only_a_free_volume_is_taken(phase: str) -> None:
    assert chosen(claim(), volume("v", phase=phase)) is None


def test_while_binding_waits_for_a_pod_only_reserved_volumes_are_taken() -> None:
    """B16."""
    assert chosen(claim(), volume("free"), reserved_only=True) is None
    assert chosen(claim(), volume("free"), volume("ours", owner=OURS), reserved_only=True) == "ours"


def test_a_volume_that_this_node_cannot_use_is_passed_over() -> None:
    """B17."""
    found = choose_volume(
        claim(),
        [volume("far", "1Gi"), volume("near", "2Gi")],
        reserved_only=False,
        fits_node=lambda each: each.metadata.name == "near",
    )
    assert found is not None
    assert found.metadata.name == "near"


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (volume("v", "1Mi"), "too small"),
        (volume("v", storage_class="fast"), "storageClassName does not match"),
        (volume("v", mode="Block"), "volumeMode does not match"),
        (volume("v", modes=("ReadOnlyMany",)), "it lacks ReadWriteOnce"),
    ],
)
def test_a_named_volume_that_does_not_fit_says_why(named: PersistentVolume, why: str) -> None:
    """B6."""
    found = mismatch(claim(), named)
    assert found is not None
    assert why in found


def test_the_selector_does_not_count_for_a_named_volume() -> None:
    """B7."""
    assert mismatch(claim(selector=LabelSelector(match_labels={"tier": "gold"})), volume("v")) is None
