"""What a volume specification tells about a volume."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mooring.kube.objects.meta import ObjectMeta, ObjectReference
from mooring.kube.objects.storage import (
    CSIPersistentVolumeSource,
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
)
from mooring.kube.objects.volumes import CSIVolumeSource, EmptyDirVolumeSource, FlexVolumeSource, Volume
from mooring.world.spec import GID_ANNOTATION, MOUNT_OPTIONS_ANNOTATION, VolumeSpec

INLINE = VolumeSpec(volume=Volume(name="cache"))


def from_volume(
    *,
    modes: tuple[str, ...] = (),
    mode: str | None = None,
    annotations: Mapping[str, str] | None = None,
    options: tuple[str, ...] = (),
) -> VolumeSpec:
    spec = PersistentVolumeSpec(access_modes=modes, volume_mode=mode, mount_options=options)
    volume = PersistentVolume(metadata=ObjectMeta(name="pv1", annotations=annotations or {}), spec=spec)
    return VolumeSpec(persistent_volume=volume)


def test_the_inner_name_is_that_of_the_persistent_volume_or_of_the_volume_in_the_pod() -> None:
    assert from_volume().name == "pv1"
    assert INLINE.name == "cache"


def test_only_a_persistent_volume_of_mode_block_is_a_block_volume() -> None:
    assert from_volume(mode="Block").is_block
    assert not from_volume(mode="Filesystem").is_block
    assert not INLINE.is_block


@pytest.mark.parametrize(
    ("modes", "exclusive"),
    [
        (("ReadWriteOncePod",), True),
        (("ReadWriteOncePod", "ReadWriteOnce"), False),
        (("ReadWriteOnce",), False),
        ((), False),
    ],
)
def test_a_volume_is_exclusive_when_its_only_access_mode_is_for_one_pod(
    modes: tuple[str, ...], exclusive: bool
) -> None:
    """core.md 8.3-5: a volume without a PersistentVolume is never exclusive."""
    assert from_volume(modes=modes).is_exclusive is exclusive
    assert not INLINE.is_exclusive


@pytest.mark.parametrize(
    ("modes", "one"),
    [
        (("ReadWriteOnce",), True),
        (("ReadWriteOncePod",), True),
        (("ReadWriteOnce", "ReadOnlyMany"), False),
        (("ReadWriteMany",), False),
        ((), False),
    ],
)
def test_a_volume_is_for_one_node_when_no_access_mode_is_for_many(modes: tuple[str, ...], one: bool) -> None:
    assert from_volume(modes=modes).is_for_one_node is one
    assert not INLINE.is_for_one_node


def test_the_group_comes_from_the_annotation_of_the_persistent_volume() -> None:
    assert from_volume(annotations={GID_ANNOTATION: "777"}).gid == "777"
    assert from_volume().gid == ""
    assert INLINE.gid == ""


def test_mount_options_of_the_annotation_win_over_those_of_the_spec() -> None:
    spec = from_volume(annotations={MOUNT_OPTIONS_ANNOTATION: "ro,,hard"}, options=("soft",))
    assert spec.mount_options == ("ro", "hard")


def test_mount_options_come_from_the_spec_when_there_is_no_annotation() -> None:
    assert from_volume(options=("soft",)).mount_options == ("soft",)
    assert INLINE.mount_options == ()


def test_the_claim_behind_a_volume_is_the_one_it_is_bound_to() -> None:
    bound = PersistentVolume(
        metadata=ObjectMeta(name="pv1"),
        spec=PersistentVolumeSpec(claim_ref=ObjectReference(namespace="shop", name="data")),
    )
    assert VolumeSpec(persistent_volume=bound).claim == "shop/data"
    assert VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name="pv1"))).claim == ""
    assert INLINE.claim == ""


def test_the_sources_of_a_spec_are_named_as_in_a_manifest() -> None:
    local = PersistentVolumeSpec(local=LocalVolumeSource(path="/disks/a"))
    bound = PersistentVolume(metadata=ObjectMeta(name="pv1"), spec=local)
    assert VolumeSpec(persistent_volume=bound).source_names == ["local"]
    assert VolumeSpec(volume=Volume(name="v", empty_dir=EmptyDirVolumeSource())).source_names == ["emptyDir"]


def test_the_driver_of_a_csi_volume_is_told_for_both_forms() -> None:
    csi = CSIPersistentVolumeSource(driver="disk.example", volume_handle="1")
    bound = PersistentVolume(metadata=ObjectMeta(name="pv1"), spec=PersistentVolumeSpec(csi=csi))
    assert VolumeSpec(persistent_volume=bound).csi_driver == "disk.example"
    assert (
        VolumeSpec(volume=Volume(name="v", csi=CSIVolumeSource(driver="inline.example"))).csi_driver == "inline.example"
    )
    assert INLINE.csi_driver == ""


def test_a_persistent_volume_is_known_by_its_name() -> None:
    assert from_volume().is_volume(from_volume().name)
    assert not from_volume().is_volume("another")
    assert not INLINE.is_volume(INLINE.name)


def test_a_flex_volume_is_served_by_its_driver_alone() -> None:
    source = FlexVolumeSource(driver="example.com/d")
    inline = VolumeSpec(volume=Volume(name="v", flex_volume=source))
    persistent = VolumeSpec(persistent_volume=PersistentVolume(spec=PersistentVolumeSpec(flex_volume=source)))
    assert (inline.flex_driver, persistent.flex_driver) == ("example.com/d", "example.com/d")
    assert VolumeSpec(volume=Volume(name="v")).flex_driver == ""
