"""What a driver tells of a volume that it has published: how full it is, and whether something is wrong with it."""

from __future__ import annotations

from mooring.csi.client import CallFailed
from mooring.csi.drivers import Driver
from mooring.csi.names import identity_of, inline_source
from mooring.csi.stats import volume_usage
from mooring.csi.surroundings import Surroundings
from mooring.errors import Unsupported
from mooring.host.interface import FileSystemUsage
from mooring.rpc import csi
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec


class CSIInspector:
    """Asks drivers that can tell. For one that cannot, `Unsupported` lets the kernel be asked, or nobody."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around

    async def usage(self, uid: PodUid, spec: VolumeSpec) -> FileSystemUsage:
        what = f"cannot tell how full volume {spec.name!r} is"
        driver = self._around.drivers.require(spec.csi_driver, what)
        try:
            return await volume_usage(driver, identity_of(spec, uid).handle, self._path(uid, spec))
        except CallFailed as error:
            raise error.as_outcome(what) from error

    async def complaints(self, uid: PodUid, spec: VolumeSpec) -> tuple[str, ...]:
        """What is wrong with the volume, in the driver's words; nothing when all is well."""
        what = f"cannot tell how volume {spec.name!r} is"
        driver = self._around.drivers.require(spec.csi_driver, what)
        try:
            abilities = await driver.capabilities()
            if abilities.health and inline_source(spec) is None:
                return await self._health(driver, uid, spec)
            if abilities.condition and abilities.stats:
                return await self._condition(driver, uid, spec)
        except CallFailed as error:
            raise error.as_outcome(what) from error
        raise Unsupported(what, why=f"driver {driver.name!r} does not tell")

    async def _health(self, driver: Driver, uid: PodUid, spec: VolumeSpec) -> tuple[str, ...]:
        request = csi.NodeGetVolumeHealthRequest(
            volume_id=identity_of(spec, uid).handle,
            volume_publish_path=self._path(uid, spec),
            staging_target_path=await self._stage(driver, uid, spec),
        )
        told = (await driver.client.get_volume_health(request)).volume_health.health_statuses
        kinds = {csi.DEGRADED: "Degraded", csi.INACCESSIBLE: "Inaccessible", csi.DATA_LOSS: "DataLoss"}
        return tuple(f"{kinds[each.status]}: {each.message or each.reason}" for each in told if each.status in kinds)

    async def _condition(self, driver: Driver, uid: PodUid, spec: VolumeSpec) -> tuple[str, ...]:
        """What drivers before CSI 1.13 tell along with their figures."""
        request = csi.NodeGetVolumeStatsRequest(
            volume_id=identity_of(spec, uid).handle, volume_path=self._path(uid, spec)
        )
        told = (await driver.client.get_volume_stats(request)).volume_condition
        return (told.message or "the driver says that it is abnormal",) if told.abnormal else ()

    def _path(self, uid: PodUid, spec: VolumeSpec) -> str:
        places = self._around.places
        return places.block_publish(uid, spec.name) if spec.is_block else places.target(uid, spec.name)

    async def _stage(self, driver: Driver, uid: PodUid, spec: VolumeSpec) -> str:
        if not (await driver.capabilities()).stages:
            return ""
        places = self._around.places
        return places.block_stage(spec.name) if spec.is_block else places.stage(identity_of(spec, uid))
