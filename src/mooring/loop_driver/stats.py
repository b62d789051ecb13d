"""How full a volume is, and whether it is well."""

from __future__ import annotations

from grpc import StatusCode

from mooring.host.interface import Host
from mooring.loop_driver.failures import Failure
from mooring.loop_driver.volumes import Access, Target, Volume
from mooring.stubs import csi_pb2 as csi

_Unit = csi.VolumeUsage


def place_of(what: str, volume: Volume, path: str) -> Target:
    """The target at a path, or the stage in the shape of one; NOT_FOUND when the volume is not there."""
    target = volume.target(path)
    if target is not None:
        return target
    stage = volume.stage
    if stage is not None and stage.path == path:
        return Target(path=path, access=stage.access, read_only=stage.read_only)
    raise not_there(what, volume, path)


def not_there(what: str, volume: Volume, path: str) -> Failure:
    return Failure(
        StatusCode.NOT_FOUND,
        f"cannot {what}",
        why=f"volume {volume.id!r} is not at {path!r}",
        next_step="Stage and publish it there first",
    )


def volume_stats(host: Host, volume: Volume, disk: str, place: Target) -> csi.NodeGetVolumeStatsResponse:
    """What is told of a volume at one of its places. It may hang."""
    what = "tell how full a volume is"
    if place.access is Access.BLOCK:
        device = host.loop_of(disk)
        facts = host.device(device) if device is not None else None
        if facts is None:
            raise not_there(what, volume, place.path)
        usage = [csi.VolumeUsage(unit=_Unit.BYTES, total=facts.size)]
    else:
        if host.mount_at(place.path) is None:
            raise not_there(what, volume, place.path)
        usage = _file_system_usage(host, place.path)
    return csi.NodeGetVolumeStatsResponse(usage=usage, volume_condition=_condition(host, disk, place))


def disk_condition(host: Host, disk: str) -> csi.VolumeCondition:
    """Whether a volume that may be used nowhere is well."""
    if host.look(disk) is None:
        return csi.VolumeCondition(abnormal=True, message=f"the file of the volume is gone: {disk}")
    return csi.VolumeCondition(abnormal=False, message="the volume is well")


def _file_system_usage(host: Host, path: str) -> list[csi.VolumeUsage]:
    found = host.file_system_usage(path)
    usage = [
        csi.VolumeUsage(unit=_Unit.BYTES, total=found.capacity, available=found.available, used=found.used),
    ]
    if found.inodes:  # a btrfs counts none
        usage.append(
            csi.VolumeUsage(unit=_Unit.INODES, total=found.inodes, available=found.inodes_free, used=found.inodes_used)
        )
    return usage


def _condition(host: Host, disk: str, place: Target) -> csi.VolumeCondition:
    mounted = host.mount_at(place.path)
    if place.access is Access.MOUNT and not place.read_only and mounted is not None and "ro" in mounted.options:
        why = "its file system has become read-only, as after errors of its device"
        return csi.VolumeCondition(abnormal=True, message=why)
    return disk_condition(host, disk)
