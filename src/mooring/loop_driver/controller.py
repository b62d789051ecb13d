"""The Controller service for volumes: made, deleted, grown, listed; `snapshots` and `attachments` have the rest."""

from __future__ import annotations

from dataclasses import replace

from google.protobuf.wrappers_pb2 import Int64Value
from grpc import StatusCode

from mooring.loop_driver import requirements
from mooring.loop_driver.attachments import Attachments, require_unused
from mooring.loop_driver.copies import Copies
from mooring.loop_driver.driver import Calls, Driver
from mooring.loop_driver.failures import Failure, require
from mooring.loop_driver.paging import ids_of, page
from mooring.loop_driver.snapshots import Snapshots
from mooring.loop_driver.stats import disk_condition
from mooring.loop_driver.volumes import Phase, Source, Volume, volume_id
from mooring.stubs import csi_pb2 as csi

_Ability = csi.ControllerServiceCapability.RPC
_ABILITIES = (
    _Ability.CREATE_DELETE_VOLUME,
    _Ability.LIST_VOLUMES,
    _Ability.GET_CAPACITY,
    _Ability.CREATE_DELETE_SNAPSHOT,
    _Ability.LIST_SNAPSHOTS,
    _Ability.GET_SNAPSHOT,
    _Ability.CLONE_VOLUME,
    _Ability.EXPAND_VOLUME,
    _Ability.VOLUME_CONDITION,
    _Ability.GET_VOLUME,
    _Ability.SINGLE_NODE_MULTI_WRITER,
)
_WITH_ATTACHMENTS = (
    _Ability.PUBLISH_UNPUBLISH_VOLUME,
    _Ability.PUBLISH_READONLY,
    _Ability.LIST_VOLUMES_PUBLISHED_NODES,
)


class Controller:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._shelf = driver.shelf
        self._copies = Copies(driver)
        self._snapshots = Snapshots(driver, self._copies)
        self._attachments = Attachments(driver) if driver.options.attach else None

    def calls(self) -> Calls:
        return {
            csi.ControllerGetCapabilitiesRequest: self.capabilities,
            csi.CreateVolumeRequest: self.create,
            csi.DeleteVolumeRequest: self.delete,
            csi.ValidateVolumeCapabilitiesRequest: self.validate,
            csi.ListVolumesRequest: self.list_all,
            csi.ControllerGetVolumeRequest: self.get,
            csi.GetCapacityRequest: self.capacity,
            csi.ControllerExpandVolumeRequest: self.expand,
            **self._snapshots.calls(),
            **(self._attachments.calls() if self._attachments is not None else {}),
        }

    async def capabilities(self, _: csi.ControllerGetCapabilitiesRequest) -> csi.ControllerGetCapabilitiesResponse:
        wanted = (*_ABILITIES, *(_WITH_ATTACHMENTS if self._attachments is not None else ()))
        abilities = [csi.ControllerServiceCapability(rpc=_Ability(type=each)) for each in wanted]
        return csi.ControllerGetCapabilitiesResponse(capabilities=abilities)

    # -- making and deleting ---------------------------------------------------------------------------------------
    async def create(self, request: csi.CreateVolumeRequest) -> csi.CreateVolumeResponse:
        what = "create a volume"
        require(what, name=request.name, volume_capabilities=request.volume_capabilities)
        fs_type = self._checked_type(what, request)
        identity, source = volume_id(request.name), _source(request)
        busy = (source.volume_id, source.snapshot_id) if source is not None else ()
        with self._driver.locks.holding(what, identity, *busy):
            self._shelf.require_explained(what, identity)
            volume = await self._shelf.finished(self._shelf.volumes.get(identity))
            if volume is None:
                volume = await self._make(what, request, fs_type, source)
            elif (difference := _difference(request, volume, fs_type, source)) is not None:
                why = f"there is a volume {request.name!r} already, {difference}"
                raise Failure(StatusCode.ALREADY_EXISTS, f"cannot {what}", why=why)
        return csi.CreateVolumeResponse(volume=self._described(volume))

    def _checked_type(self, what: str, request: csi.CreateVolumeRequest) -> str:
        """The file system that a new volume is for, after all that could be wrong with the request."""
        for capability in request.volume_capabilities:
            requirements.access_of(what, capability)
        if request.mutable_parameters:
            raise requirements.invalid(what, "this driver has no parameters that can be changed later")
        requisite = request.accessibility_requirements.requisite
        if requisite and self._driver.topology not in requisite:
            why = "none of the places asked for is this node"
            raise Failure(StatusCode.RESOURCE_EXHAUSTED, f"cannot {what}", why=why)
        return requirements.fs_type_of(what, request.parameters, request.volume_capabilities)

    async def _make(self, what: str, request: csi.CreateVolumeRequest, fs_type: str, source: Source | None) -> Volume:
        origin = self._copies.origin(what, source) if source is not None else None
        size = requirements.new_size(
            what, request.capacity_range, fs_type=fs_type, source=origin.size if origin is not None else 0
        )
        self._driver.require_room(what, size)
        volume = Volume(
            id=volume_id(request.name),
            name=request.name,
            size=size,
            fs_type=fs_type,
            source=source,
            needs_growth=origin is not None and size > origin.size,
            phase=Phase.CREATING,
        )
        await self._copies.fill(volume, origin)
        return await self._shelf.keep(replace(volume, phase=Phase.READY))

    async def delete(self, request: csi.DeleteVolumeRequest) -> csi.DeleteVolumeResponse:
        what = "delete a volume"
        require(what, volume_id=request.volume_id)
        with self._driver.locks.holding(what, request.volume_id):
            self._shelf.require_explained(what, request.volume_id)
            volume = self._shelf.volumes.get(request.volume_id)
            if volume is not None:
                await require_unused(self._driver, what, volume)
                await self._shelf.forget(volume)
        return csi.DeleteVolumeResponse()

    async def expand(self, request: csi.ControllerExpandVolumeRequest) -> csi.ControllerExpandVolumeResponse:
        what = "expand a volume"
        require(what, volume_id=request.volume_id, capacity_range=request.HasField("capacity_range"))
        with self._driver.locks.holding(what, request.volume_id):
            volume = self._shelf.volume(what, request.volume_id)
            size = requirements.grown_size(what, request.capacity_range, volume.size)
            if size > volume.size:
                self._driver.require_room(what, size - volume.size)
                disk = self._shelf.disk(volume.id)
                await self._driver.on_host(lambda: self._driver.backing.grow(disk, size), f"grow {disk}")
                await self._shelf.keep(replace(volume, size=size, needs_growth=True))
        # Always: the device of a raw volume has to notice its new size as well.
        return csi.ControllerExpandVolumeResponse(capacity_bytes=size, node_expansion_required=True)

    # -- looking ---------------------------------------------------------------------------------------------------
    async def validate(self, request: csi.ValidateVolumeCapabilitiesRequest) -> csi.ValidateVolumeCapabilitiesResponse:
        what = "validate capabilities"
        require(what, volume_id=request.volume_id, volume_capabilities=request.volume_capabilities)
        self._shelf.volume(what, request.volume_id)
        for capability in request.volume_capabilities:
            why = requirements.objection(capability)
            if why:
                return csi.ValidateVolumeCapabilitiesResponse(message=why)
        return csi.ValidateVolumeCapabilitiesResponse(
            confirmed=csi.ValidateVolumeCapabilitiesResponse.Confirmed(
                volume_context=request.volume_context,
                volume_capabilities=request.volume_capabilities,
                parameters=request.parameters,
            )
        )

    async def list_all(self, request: csi.ListVolumesRequest) -> csi.ListVolumesResponse:
        ids, token = page(
            "list volumes",
            ids_of(self._shelf.ready_volumes()),
            token=request.starting_token,
            most=request.max_entries,
        )
        volumes = [self._shelf.volumes[identity] for identity in ids]
        conditions = await self._conditions(*volumes)
        entries = [
            csi.ListVolumesResponse.Entry(
                volume=self._described(volume),
                status=csi.ListVolumesResponse.VolumeStatus(
                    published_node_ids=_nodes(volume), volume_condition=condition
                ),
            )
            for volume, condition in zip(volumes, conditions, strict=True)
        ]
        return csi.ListVolumesResponse(entries=entries, next_token=token)

    async def get(self, request: csi.ControllerGetVolumeRequest) -> csi.ControllerGetVolumeResponse:
        what = "look at a volume"
        require(what, volume_id=request.volume_id)
        volume = self._shelf.volume(what, request.volume_id)
        (condition,) = await self._conditions(volume)
        return csi.ControllerGetVolumeResponse(
            volume=self._described(volume),
            status=csi.ControllerGetVolumeResponse.VolumeStatus(
                published_node_ids=_nodes(volume), volume_condition=condition
            ),
        )

    async def capacity(self, request: csi.GetCapacityRequest) -> csi.GetCapacityResponse:
        """What is left of the capacity, or of the disk when there is none; nothing for what cannot be served."""
        refused = any(requirements.objection(each) for each in request.volume_capabilities)
        elsewhere = request.HasField("accessible_topology") and request.accessible_topology != self._driver.topology
        if refused or elsewhere:
            return csi.GetCapacityResponse(available_capacity=0)
        host, disks = self._driver.host, self._shelf.disks
        available = (await self._driver.on_host(lambda: host.file_system_usage(disks), f"look at {disks}")).available
        if self._driver.options.capacity is not None:
            available = max(0, self._driver.options.capacity - self._shelf.bytes_promised())
        return csi.GetCapacityResponse(
            available_capacity=available, minimum_volume_size=Int64Value(value=requirements.SMALLEST)
        )

    async def _conditions(self, *volumes: Volume) -> list[csi.VolumeCondition]:
        host = self._driver.host
        disks = [self._shelf.disk(volume.id) for volume in volumes]
        return await self._driver.on_host(lambda: [disk_condition(host, disk) for disk in disks], "look at volumes")

    def _described(self, volume: Volume) -> csi.Volume:
        described = csi.Volume(
            volume_id=volume.id, capacity_bytes=volume.size, accessible_topology=[self._driver.topology]
        )
        if volume.source is not None and volume.source.snapshot_id:
            described.content_source.snapshot.snapshot_id = volume.source.snapshot_id
        elif volume.source is not None:
            described.content_source.volume.volume_id = volume.source.volume_id
        return described


def _difference(request: csi.CreateVolumeRequest, volume: Volume, fs_type: str, source: Source | None) -> str | None:
    """What keeps a volume that is there from being the one that is asked for."""
    if not requirements.fits(request.capacity_range, volume.size):
        return f"and it has {volume.size} bytes"
    if volume.source != source:
        return "made from another source"
    if volume.fs_type != fs_type:
        return f"made for the file system {volume.fs_type or 'that is usual'!r}"
    return None


def _nodes(volume: Volume) -> list[str]:
    return [volume.attachment.node_id] if volume.attachment is not None else []


def _source(request: csi.CreateVolumeRequest) -> Source | None:
    if not request.HasField("volume_content_source"):
        return None
    source = request.volume_content_source
    if source.HasField("snapshot"):
        require("create a volume", snapshot_id=source.snapshot.snapshot_id)
        return Source(snapshot_id=source.snapshot.snapshot_id)
    require("create a volume", volume_id=source.volume.volume_id)
    return Source(volume_id=source.volume.volume_id)
