"""The Node service: staging, growing and looking at volumes. Publishing is in `publishing`."""

from __future__ import annotations

from dataclasses import replace

from grpc import StatusCode

from mooring.host import mount_options
from mooring.loop_driver import requirements
from mooring.loop_driver.attachments import CONTEXT_KEY
from mooring.loop_driver.devices import Devices
from mooring.loop_driver.driver import Calls, Driver
from mooring.loop_driver.failures import Failure, require, unknown_volume
from mooring.loop_driver.publishing import Publishing
from mooring.loop_driver.stages import Stages
from mooring.loop_driver.stats import place_of, volume_stats
from mooring.loop_driver.targets import Targets
from mooring.loop_driver.volumes import Access, Stage, Volume
from mooring.stubs import csi_pb2 as csi

_Ability = csi.NodeServiceCapability.RPC
_ABILITIES = (
    _Ability.STAGE_UNSTAGE_VOLUME,
    _Ability.GET_VOLUME_STATS,
    _Ability.EXPAND_VOLUME,
    _Ability.VOLUME_CONDITION,
    _Ability.SINGLE_NODE_MULTI_WRITER,
)


class Node:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._shelf = driver.shelf
        self._devices = Devices(driver.host, driver.backing)
        targets = Targets(driver.host, self._devices)
        self._stages = Stages(driver, self._devices, targets)
        self._publishing = Publishing(driver, self._stages, targets)

    def calls(self) -> Calls:
        return {
            csi.NodeGetInfoRequest: self.info,
            csi.NodeGetCapabilitiesRequest: self.capabilities,
            csi.NodeStageVolumeRequest: self.stage,
            csi.NodeUnstageVolumeRequest: self.unstage,
            csi.NodePublishVolumeRequest: self._publishing.publish,
            csi.NodeUnpublishVolumeRequest: self._publishing.unpublish,
            csi.NodeGetVolumeStatsRequest: self.stats,
            csi.NodeExpandVolumeRequest: self.expand,
        }

    async def info(self, _: csi.NodeGetInfoRequest) -> csi.NodeGetInfoResponse:
        options = self._driver.options
        return csi.NodeGetInfoResponse(
            node_id=options.node_id,
            max_volumes_per_node=options.max_volumes,
            accessible_topology=self._driver.topology,
        )

    async def capabilities(self, _: csi.NodeGetCapabilitiesRequest) -> csi.NodeGetCapabilitiesResponse:
        abilities = [csi.NodeServiceCapability(rpc=_Ability(type=each)) for each in _ABILITIES]
        return csi.NodeGetCapabilitiesResponse(capabilities=abilities)

    async def stage(self, request: csi.NodeStageVolumeRequest) -> csi.NodeStageVolumeResponse:
        what = "stage a volume"
        require(what, volume_id=request.volume_id, staging_target_path=request.staging_target_path)
        require(what, volume_capability=request.HasField("volume_capability"))
        access = requirements.access_of(what, request.volume_capability)
        with self._driver.locks.holding(what, request.volume_id):
            volume = self._shelf.volume(what, request.volume_id)
            self._require_attached(what, volume, request)
            flags = tuple(request.volume_capability.mount.mount_flags)
            stage = _stage(request, volume, access, flags)
            await self._stages.stage(volume, stage, flags)
        return csi.NodeStageVolumeResponse()

    async def unstage(self, request: csi.NodeUnstageVolumeRequest) -> csi.NodeUnstageVolumeResponse:
        what = "unstage a volume"
        path = request.staging_target_path
        require(what, volume_id=request.volume_id, staging_target_path=path)
        with self._driver.locks.holding(what, request.volume_id):
            self._shelf.require_explained(what, request.volume_id)
            volume = self._shelf.volumes.get(request.volume_id)
            if volume is None:
                mounted = await self._driver.on_host(lambda: self._driver.host.mount_at(path), f"look at {path}")
                if mounted is not None:
                    raise unknown_volume(what, request.volume_id)
            elif volume.stage is not None and volume.stage.path == path:
                await self._stages.unstage(volume)
        return csi.NodeUnstageVolumeResponse()

    async def stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        what = "tell how full a volume is"
        require(what, volume_id=request.volume_id, volume_path=request.volume_path)
        volume = self._shelf.volume(what, request.volume_id)
        place, disk = place_of(what, volume, request.volume_path), self._shelf.disk(volume.id)
        return await self._driver.on_host(
            lambda: volume_stats(self._driver.host, volume, disk, place), f"look at {volume.id}"
        )

    async def expand(self, request: csi.NodeExpandVolumeRequest) -> csi.NodeExpandVolumeResponse:
        """Let the device and the file system fill the file that ControllerExpandVolume has grown."""
        what = "expand a volume on the node"
        require(what, volume_id=request.volume_id, volume_path=request.volume_path)
        with self._driver.locks.holding(what, request.volume_id):
            volume = self._shelf.volume(what, request.volume_id)
            place_of(what, volume, request.volume_path)
            wanted = request.capacity_range.required_bytes
            if wanted > volume.size:
                why = f"{wanted} bytes are wanted of {volume.id!r}, which has {volume.size}"
                raise requirements.out_of_range(what, f"{why}: ControllerExpandVolume comes first")
            stage, disk = volume.stage, self._shelf.disk(volume.id)
            path = stage.path if stage is not None and stage.access is Access.MOUNT else None
            await self._driver.on_host(lambda: self._devices.grow(disk, path), f"grow {volume.id}")
            if volume.needs_growth and path is not None:
                await self._shelf.keep(replace(volume, needs_growth=False))
        return csi.NodeExpandVolumeResponse(capacity_bytes=volume.size)

    def _require_attached(self, what: str, volume: Volume, request: csi.NodeStageVolumeRequest) -> None:
        if not self._driver.options.attach:
            return
        attached = volume.attachment is not None and volume.attachment.node_id == self._driver.options.node_id
        if not attached or request.publish_context.get(CONTEXT_KEY) != self._shelf.disk(volume.id):
            raise Failure(
                StatusCode.FAILED_PRECONDITION,
                f"cannot {what}",
                why=f"the publish context lacks {CONTEXT_KEY!r}" if attached else f"{volume.id!r} is not attached here",
                next_step="Call ControllerPublishVolume first, and hand on what it answers",
            )


def _stage(request: csi.NodeStageVolumeRequest, volume: Volume, access: Access, flags: tuple[str, ...]) -> Stage:
    is_attached_so = volume.attachment is not None and volume.attachment.read_only
    fs_type = requirements.staged_type(request.volume_capability.mount.fs_type, volume.fs_type)
    return Stage(
        path=request.staging_target_path,
        access=access,
        fs_type=fs_type if access is Access.MOUNT else "",
        read_only=is_attached_so or mount_options.parse(flags).read_only,
    )
