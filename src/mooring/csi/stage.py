"""What a driver is asked when a volume is staged: a pure function, field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mooring.csi.access_modes import access_mode
from mooring.csi.drivers import Capabilities
from mooring.csi.names import persistent_source
from mooring.host.mount_options import context_option
from mooring.plugins.interface import NO_WISHES, StageWishes
from mooring.rpc import csi
from mooring.world.spec import VolumeSpec


def capability(
    spec: VolumeSpec, abilities: Capabilities, fs_type: str, mount_group: int | None = None, label: str = ""
) -> csi.VolumeCapability:
    """How a volume is to be used: as a raw device, or as a file system with the volume's own mount options.

    The group is told only to a driver that takes one, a label as the last option. A volume written in a pod counts as
    ReadWriteOnce.
    """
    volume = spec.persistent_volume
    modes: Sequence[str] = volume.spec.access_modes if volume is not None else ()
    mode = csi.VolumeCapability.AccessMode(mode=access_mode(modes, multi_writer=abilities.multi_writer))
    if spec.is_block:
        return csi.VolumeCapability(access_mode=mode, block=csi.VolumeCapability.BlockVolume())
    options = volume.spec.mount_options if volume is not None else ()
    mount = csi.VolumeCapability.MountVolume(
        fs_type=fs_type,
        mount_flags=[*options, context_option(label)] if label else options,
        volume_mount_group=str(mount_group) if mount_group is not None and abilities.mount_group else "",
    )
    return csi.VolumeCapability(access_mode=mode, mount=mount)


def stage_request(
    spec: VolumeSpec,
    abilities: Capabilities,
    path: str,
    *,
    secrets: Mapping[str, str],
    publish_context: Mapping[str, str],
    wishes: StageWishes = NO_WISHES,
) -> csi.NodeStageVolumeRequest:
    """The request that stages a PersistentVolume at a path. Of the pod it holds what it wants of the mount."""
    source = persistent_source(spec)
    return csi.NodeStageVolumeRequest(
        volume_id=source.volume_handle,
        publish_context=publish_context,
        staging_target_path=path,
        volume_capability=capability(spec, abilities, source.fs_type, wishes.fs_group, wishes.label),
        secrets=secrets,
        volume_context=source.volume_attributes,
    )
