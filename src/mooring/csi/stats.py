"""How full a volume is, as its driver tells."""

from __future__ import annotations

from mooring.csi.drivers import Driver
from mooring.errors import Refused, Unsupported
from mooring.host.interface import FileSystemUsage
from mooring.rpc import csi


async def volume_usage(driver: Driver, handle: str, path: str) -> FileSystemUsage:
    """What a driver tells of a volume at a path. `Refused` when it tells nothing, `CallFailed` when it fails."""
    what = f"cannot tell how full volume {handle!r} is"
    if not (await driver.capabilities()).stats:
        raise Unsupported(what, why=f"driver {driver.name!r} does not support GET_VOLUME_STATS")
    request = csi.NodeGetVolumeStatsRequest(volume_id=handle, volume_path=path)
    usage = usage_of(await driver.client.get_volume_stats(request))
    if usage is None:
        raise Refused(what, why=f"driver {driver.name!r} told no usage")
    return usage


def usage_of(answer: csi.NodeGetVolumeStatsResponse) -> FileSystemUsage | None:
    """The last entry of each unit counts, and units that nobody knows do not; None for an empty answer."""
    if not answer.usage:
        return None
    by_unit = {entry.unit: entry for entry in answer.usage}
    space = by_unit.get(csi.VolumeUsage.BYTES, csi.VolumeUsage())
    inodes = by_unit.get(csi.VolumeUsage.INODES, csi.VolumeUsage())
    return FileSystemUsage(
        capacity=space.total,
        available=space.available,
        used=space.used,
        inodes=inodes.total,
        inodes_free=inodes.available,
        inodes_used=inodes.used,
    )
