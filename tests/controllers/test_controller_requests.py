"""What the controller part of a driver is asked, field by field (csi.md 17.4, 17.7 and 17.8)."""

from __future__ import annotations

import pytest
from msgspec import structs

from mooring.controllers.attachdetach.requests import (
    access_mode,
    capability,
    csi_spec,
    expand_request,
    publish_request,
    source_of,
    unpublish_request,
)
from mooring.csi.controller import ControllerCapabilities
from mooring.errors import Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import (
    CSIPersistentVolumeSource,
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
)
from mooring.stubs import csi_pb2 as csi

Mode = csi.VolumeCapability.AccessMode

RWO, RWX, ROX, RWOP = "ReadWriteOnce", "ReadWriteMany", "ReadOnlyMany", "ReadWriteOncePod"
SOURCE = CSIPersistentVolumeSource(
    driver="d", volume_handle="v", fs_type="xfs", volume_attributes={"kind": "fast"}, read_only=True
)
SPEC = PersistentVolumeSpec(access_modes=(RWO,), volume_mode="Filesystem", mount_options=("noatime",), csi=SOURCE)
NOTHING = ControllerCapabilities()


@pytest.mark.parametrize(
    ("modes", "plain", "multi_writer"),
    [
        ((RWO,), Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER),
        ((RWOP,), Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_SINGLE_WRITER),
        ((ROX,), Mode.MULTI_NODE_READER_ONLY, Mode.MULTI_NODE_READER_ONLY),
        ((RWX,), Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_MULTI_WRITER),
        ((RWO, RWX), Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_MULTI_WRITER),
        ((ROX, RWX, RWO), Mode.MULTI_NODE_MULTI_WRITER, Mode.MULTI_NODE_MULTI_WRITER),
        ((RWO, RWO), Mode.SINGLE_NODE_WRITER, Mode.SINGLE_NODE_MULTI_WRITER),
    ],
)
def test_all_modes_of_a_volume_become_one(
    modes: tuple[str, ...],
    plain: csi.VolumeCapability.AccessMode.Mode.ValueType,
    multi_writer: csi.VolumeCapability.AccessMode.Mode.ValueType,
) -> None:
    assert access_mode(modes, multi_writer=False) == plain
    assert access_mode(modes, multi_writer=True) == multi_writer


@pytest.mark.parametrize(
    ("modes", "why"),
    [
        ((RWOP, RWO), "goes with no other mode"),
        ((RWX, RWOP), "goes with no other mode"),
        ((RWO, ROX), "no mode for ReadOnlyMany together with ReadWriteOnce"),
        ((), "none of them is known"),
        (("WriteNever",), "none of them is known"),
    ],
)
def test_modes_that_do_not_go_together_are_refused(modes: tuple[str, ...], why: str) -> None:
    """Scenario 123."""
    with pytest.raises(Refused, match=why):
        access_mode(modes, multi_writer=True)


def test_a_file_system_is_asked_for_with_its_type_and_options() -> None:
    mount = capability(SPEC, multi_writer=False).mount
    assert (mount.fs_type, list(mount.mount_flags), mount.volume_mount_group) == ("xfs", ["noatime"], "")


def test_a_raw_device_is_asked_for_as_one() -> None:
    made = capability(structs.replace(SPEC, volume_mode="Block"), multi_writer=False)
    assert made.HasField("block")
    assert not made.HasField("mount")


@pytest.mark.parametrize(
    ("abilities", "readonly"), [(NOTHING, False), (ControllerCapabilities(publishes_read_only=True), True)]
)
def test_a_volume_is_attached_read_only_by_drivers_that_can(abilities: ControllerCapabilities, readonly: bool) -> None:
    asked = publish_request(SPEC, "n", abilities, {"key": "x"})
    assert (asked.volume_id, asked.node_id, asked.readonly) == ("v", "n", readonly)
    assert (dict(asked.volume_context), dict(asked.secrets)) == ({"kind": "fast"}, {"key": "x"})


def test_a_volume_that_may_be_written_is_attached_so() -> None:
    writable = structs.replace(SPEC, csi=structs.replace(SOURCE, read_only=False))
    assert not publish_request(writable, "n", ControllerCapabilities(publishes_read_only=True), {}).readonly


def test_a_volume_is_detached_by_its_handle_from_one_node() -> None:
    asked = unpublish_request("v", "n", {"key": "x"})
    assert (asked.volume_id, asked.node_id, dict(asked.secrets)) == ("v", "n", {"key": "x"})


def test_a_volume_grows_to_at_least_a_size() -> None:
    asked = expand_request(SPEC, 7, ControllerCapabilities(multi_writer=True), {"key": "x"})
    assert (asked.volume_id, dict(asked.secrets)) == ("v", {"key": "x"})
    assert (asked.capacity_range.required_bytes, asked.capacity_range.limit_bytes) == (7, 0)
    assert asked.volume_capability.access_mode.mode == Mode.SINGLE_NODE_MULTI_WRITER


def persistent(spec: PersistentVolumeSpec) -> PersistentVolume:
    return PersistentVolume(metadata=ObjectMeta(name="pv"), spec=spec)


def test_a_volume_is_known_as_its_driver_knows_it() -> None:
    assert csi_spec(persistent(SPEC)) == SPEC
    moved = csi_spec(persistent(PersistentVolumeSpec(aws_elastic_block_store={"volumeID": "vol-0ab"})))
    assert moved is not None
    assert (source_of(moved).driver, source_of(moved).volume_handle) == ("ebs.csi.aws.com", "vol-0ab")


@pytest.mark.parametrize(
    "spec",
    [
        PersistentVolumeSpec(local=LocalVolumeSource(path="/x")),
        PersistentVolumeSpec(azure_disk={"diskName": "d", "diskURI": "u", "kind": "Dedicated"}),
    ],
    ids=["never moved", "cannot be moved"],
)
def test_a_volume_that_no_driver_has_is_none(spec: PersistentVolumeSpec) -> None:
    assert csi_spec(persistent(spec)) is None


def test_a_volume_of_no_driver_has_no_source() -> None:
    with pytest.raises(Refused, match="it is no volume of one"):
        source_of(PersistentVolumeSpec())
