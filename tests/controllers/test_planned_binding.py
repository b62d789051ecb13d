"""What the binder would do, on values alone."""

from __future__ import annotations

from mooring.controllers.planned_binding import PlannedBinding
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ResourceRequirements
from mooring.kube.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
)

DEFAULT = {"storageclass.kubernetes.io/is-default-class": "true"}


def volume(name: str, size: str, storage_class: str = "") -> PersistentVolume:
    spec = PersistentVolumeSpec(
        capacity={"storage": size}, access_modes=("ReadWriteOnce",), storage_class_name=storage_class
    )
    return PersistentVolume(metadata=ObjectMeta(name=name), spec=spec)


def claim(name: str, storage_class: str | None = "") -> PersistentVolumeClaim:
    spec = PersistentVolumeClaimSpec(
        access_modes=("ReadWriteOnce",),
        resources=ResourceRequirements(requests={"storage": "1Gi"}),
        storage_class_name=storage_class,
    )
    return PersistentVolumeClaim(metadata=ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}"), spec=spec)


def test_two_claims_get_a_volume_each_and_the_third_waits_with_a_reason() -> None:
    planned = PlannedBinding(
        [claim("a"), claim("b"), claim("c")], [volume("big", "2Gi"), volume("small", "1Gi")], [], lambda _: True
    )
    assert [planned.claims[f"shop/{name}"].spec.volume_name for name in "abc"] == ["small", "big", ""]
    reference = planned.volumes["small"].spec.claim_ref
    assert reference is not None
    assert reference.uid == "uid-a"
    assert "no persistent volumes available" in planned.claims["shop/c"].status.conditions[0].message


def test_a_claim_without_a_class_is_bound_through_the_default_one() -> None:
    usual = StorageClass(
        metadata=ObjectMeta(name="usual", annotations=DEFAULT), provisioner="kubernetes.io/no-provisioner"
    )
    planned = PlannedBinding([claim("a", None)], [volume("v", "1Gi", "usual")], [usual], lambda _: True)
    assert planned.claims["shop/a"].status.phase == "Bound"


def test_a_volume_of_another_node_is_not_planned_with() -> None:
    planned = PlannedBinding([claim("a")], [volume("v", "1Gi")], [], lambda _: False)
    assert planned.claims["shop/a"].status.phase == "Pending"
