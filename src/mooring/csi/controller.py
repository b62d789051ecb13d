"""Asking the controller part of a driver: what it can do, attaching, detaching and growing."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.csi.client import CallFailed, DriverClient, Kind, require
from mooring.rpc import csi, grpc
from mooring.rpc import csi_services as services


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerCapabilities:
    """What the controller part of a driver can do; nothing for a driver that has none at its socket."""

    publishes: bool = False
    publishes_read_only: bool = False
    expands: bool = False
    multi_writer: bool = False


class ControllerClient:
    """Calls of the Controller service, on the channel of a driver."""

    def __init__(self, client: DriverClient) -> None:
        self._client = client
        self._identity: services.IdentityAsyncStub = services.IdentityStub(client.channel)
        self._controller: services.ControllerAsyncStub = services.ControllerStub(client.channel)

    async def capabilities(self) -> ControllerCapabilities:
        """What it can do; `CallFailed`, of kind transient, when it does not say."""
        try:
            offered = await self._client.call(
                self._identity.GetPluginCapabilities, csi.GetPluginCapabilitiesRequest(), Kind.TRANSIENT
            )
            if not any(_serves(each) for each in offered.capabilities):
                return ControllerCapabilities()
            told = await self._client.call(
                self._controller.ControllerGetCapabilities, csi.ControllerGetCapabilitiesRequest(), Kind.TRANSIENT
            )
        except CallFailed as error:
            if error.code is grpc.StatusCode.UNIMPLEMENTED:  # only the node part listens here
                return ControllerCapabilities()
            raise
        ability = csi.ControllerServiceCapability.RPC
        types = {each.rpc.type for each in told.capabilities if each.HasField("rpc")}
        return ControllerCapabilities(
            publishes=ability.PUBLISH_UNPUBLISH_VOLUME in types,
            publishes_read_only=ability.PUBLISH_READONLY in types,
            expands=ability.EXPAND_VOLUME in types,
            multi_writer=ability.SINGLE_NODE_MULTI_WRITER in types,
        )

    async def publish(self, request: csi.ControllerPublishVolumeRequest) -> dict[str, str]:
        """Attach; returns what the node is told when it stages and publishes."""
        require(Kind.FINAL, volume_id=request.volume_id, node_id=request.node_id)
        answer = await self._client.call(self._controller.ControllerPublishVolume, request, None)
        return dict(answer.publish_context)

    async def unpublish(self, request: csi.ControllerUnpublishVolumeRequest) -> None:
        require(Kind.FINISHED, volume_id=request.volume_id)
        await self._client.call(self._controller.ControllerUnpublishVolume, request, Kind.FINISHED)

    async def expand(self, request: csi.ControllerExpandVolumeRequest) -> csi.ControllerExpandVolumeResponse:
        require(Kind.FINAL, volume_id=request.volume_id)
        return await self._client.call(self._controller.ControllerExpandVolume, request, None)


def _serves(capability: csi.PluginCapability) -> bool:
    return capability.service.type == csi.PluginCapability.Service.CONTROLLER_SERVICE
