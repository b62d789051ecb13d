"""What the controller part of a driver is asked: pure functions, field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.csi import migration
from mooring.csi.access_modes import READ_WRITE_ONCE, READ_WRITE_ONCE_POD
from mooring.csi.controller import ControllerCapabilities
from mooring.errors import Refused
from mooring.kube.objects.storage import CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec
from mooring.rpc import csi
from mooring.world.spec import VolumeSpec


def access_mode(modes: Sequence[str], *, multi_writer: bool) -> csi.VolumeCapability.AccessMode.Mode.ValueType:
    """The one mode that stands for all modes of a volume; `Refused` for modes that do not go together."""
    mode = csi.VolumeCapability.AccessMode
    asked, what = set(modes), f"cannot tell a driver the access modes {', '.join(modes) or 'of a volume without any'}"
    if READ_WRITE_ONCE_POD in asked:
        if len(asked) > 1:
            raise Refused(what, why="ReadWriteOncePod goes with no other mode")
        return mode.SINGLE_NODE_SINGLE_WRITER if multi_writer else mode.SINGLE_NODE_WRITER
    if "ReadWriteMany" in asked:
        return mode.MULTI_NODE_MULTI_WRITER
    if {"ReadOnlyMany", READ_WRITE_ONCE} <= asked:
        raise Refused(what, why="CSI has no mode for ReadOnlyMany together with ReadWriteOnce")
    if "ReadOnlyMany" in asked:
        return mode.MULTI_NODE_READER_ONLY
    if READ_WRITE_ONCE in asked:
        return mode.SINGLE_NODE_MULTI_WRITER if multi_writer else mode.SINGLE_NODE_WRITER
    raise Refused(what, why="none of them is known")


def capability(volume: PersistentVolumeSpec, *, multi_writer: bool) -> csi.VolumeCapability:
    mode = csi.VolumeCapability.AccessMode(mode=access_mode(volume.access_modes, multi_writer=multi_writer))
    if volume.volume_mode == "Block":
        return csi.VolumeCapability(access_mode=mode, block=csi.VolumeCapability.BlockVolume())
    mount = csi.VolumeCapability.MountVolume(fs_type=source_of(volume).fs_type, mount_flags=volume.mount_options)
    return csi.VolumeCapability(access_mode=mode, mount=mount)


def csi_spec(volume: PersistentVolume) -> PersistentVolumeSpec | None:
    """A PersistentVolume as its CSI driver knows it, also of a type that Kubernetes has moved to CSI; else None."""
    if volume.spec.csi is not None:
        return volume.spec
    spec = VolumeSpec(persistent_volume=volume)
    if migration.translator_of(spec) is None:
        return None
    try:
        moved = migration.to_csi(spec, namespace="").persistent_volume
    except Refused:
        return None  # it cannot be expressed, so no driver has it
    return moved.spec if moved is not None else None


def source_of(volume: PersistentVolumeSpec) -> CSIPersistentVolumeSource:
    if volume.csi is None:
        raise Refused("cannot ask a CSI driver", why="it is no volume of one")
    return volume.csi


def publish_request(
    volume: PersistentVolumeSpec, node_id: str, abilities: ControllerCapabilities, secrets: Mapping[str, str]
) -> csi.ControllerPublishVolumeRequest:
    source = source_of(volume)
    return csi.ControllerPublishVolumeRequest(
        volume_id=source.volume_handle,
        node_id=node_id,
        volume_capability=capability(volume, multi_writer=abilities.multi_writer),
        readonly=source.read_only and abilities.publishes_read_only,
        secrets=secrets,
        volume_context=source.volume_attributes,
    )


def unpublish_request(handle: str, node_id: str, secrets: Mapping[str, str]) -> csi.ControllerUnpublishVolumeRequest:
    return csi.ControllerUnpublishVolumeRequest(volume_id=handle, node_id=node_id, secrets=secrets)


def expand_request(
    volume: PersistentVolumeSpec, size: int, abilities: ControllerCapabilities, secrets: Mapping[str, str]
) -> csi.ControllerExpandVolumeRequest:
    return csi.ControllerExpandVolumeRequest(
        volume_id=source_of(volume).volume_handle,
        capacity_range=csi.CapacityRange(required_bytes=size),
        secrets=secrets,
        volume_capability=capability(volume, multi_writer=abilities.multi_writer),
    )
