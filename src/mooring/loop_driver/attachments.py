"""ControllerPublishVolume and its reverse: that a volume may be staged on the node, written down."""

from __future__ import annotations

from dataclasses import replace

from grpc import StatusCode

from mooring.loop_driver import requirements
from mooring.loop_driver.driver import Calls, Driver
from mooring.loop_driver.failures import Failure, require
from mooring.loop_driver.volumes import Attachment, Volume
from mooring.stubs import csi_pb2 as csi

CONTEXT_KEY = "devicePath-hint"
"""What the controller tells the node of a volume that it attached: the file whose blocks the device will show."""


class Attachments:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._shelf = driver.shelf

    def calls(self) -> Calls:
        return {
            csi.ControllerPublishVolumeRequest: self.publish,
            csi.ControllerUnpublishVolumeRequest: self.unpublish,
        }

    async def publish(self, request: csi.ControllerPublishVolumeRequest) -> csi.ControllerPublishVolumeResponse:
        what = "attach a volume"
        require(what, volume_id=request.volume_id, node_id=request.node_id)
        require(what, volume_capability=request.HasField("volume_capability"))
        requirements.access_of(what, request.volume_capability)
        with self._driver.locks.holding(what, request.volume_id):
            volume = self._shelf.volume(what, request.volume_id)
            wanted = Attachment(node_id=request.node_id, read_only=request.readonly)
            if volume.attachment != wanted:
                self._require_possible(what, volume, wanted)
                await self._shelf.keep(replace(volume, attachment=wanted))
        return csi.ControllerPublishVolumeResponse(publish_context={CONTEXT_KEY: self._shelf.disk(volume.id)})

    async def unpublish(self, request: csi.ControllerUnpublishVolumeRequest) -> csi.ControllerUnpublishVolumeResponse:
        what = "detach a volume"
        require(what, volume_id=request.volume_id)
        with self._driver.locks.holding(what, request.volume_id):
            self._shelf.require_explained(what, request.volume_id)
            volume = self._shelf.volumes.get(request.volume_id)
            held = volume.attachment if volume is not None else None
            if volume is not None and held is not None and request.node_id in ("", held.node_id):
                await require_unused(self._driver, what, volume)
                await self._shelf.keep(replace(volume, attachment=None))
        return csi.ControllerUnpublishVolumeResponse()

    def _require_possible(self, what: str, volume: Volume, wanted: Attachment) -> None:
        options = self._driver.options
        if wanted.node_id not in options.nodes:
            why = f"there is no node {wanted.node_id!r}, only {', '.join(map(repr, options.nodes))}"
            raise Failure(StatusCode.NOT_FOUND, f"cannot {what}", why=why)
        if volume.attachment is not None and volume.attachment.node_id != wanted.node_id:
            why = f"{volume.id!r} is attached to node {volume.attachment.node_id!r}"
            raise Failure(StatusCode.FAILED_PRECONDITION, f"cannot {what}", why=why, next_step="Detach it there first")
        if volume.attachment is not None:
            way = "read-only" if volume.attachment.read_only else "for writing"
            why = f"{volume.id!r} is attached already, {way}"
            raise Failure(StatusCode.ALREADY_EXISTS, f"cannot {what}", why=why, next_step="Detach it first")
        held = (each.attachment for each in self._shelf.volumes.values())
        attached = sum(each is not None and each.node_id == wanted.node_id for each in held)
        if options.max_volumes and attached >= options.max_volumes:
            raise Failure(
                StatusCode.RESOURCE_EXHAUSTED,
                f"cannot {what}",
                why=f"node {wanted.node_id!r} has {attached} volumes, and may have no more",
                next_step="Detach another volume first",
            )


async def require_unused(driver: Driver, what: str, volume: Volume) -> None:
    """Refuse to take away a volume that has a device: it is staged, whatever else is known of it."""
    disk = driver.shelf.disk(volume.id)
    device = await driver.on_host(lambda: driver.host.loop_of(disk), f"look at {volume.id}")
    if device is not None:
        where = f" at {volume.stage.path!r}" if volume.stage is not None else ""
        raise Failure(
            StatusCode.FAILED_PRECONDITION,
            f"cannot {what}",
            why=f"{volume.id!r} is in use: it is staged{where} with the device {device}",
            next_step="Unstage it first",
        )
