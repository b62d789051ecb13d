"""Calling a CSI driver at its socket, in few words."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence

import pytest
from grpc import StatusCode, aio

from mooring.stubs import csi_pb2 as csi
from mooring.stubs import csi_pb2_grpc as services

STAGE = "/stage"
PODS = "/pods"
MEBIBYTE = 1 << 20
Mode = csi.VolumeCapability.AccessMode
SINGLE_NODE_WRITER = Mode.SINGLE_NODE_WRITER


class Calls:
    """A caller of the driver."""

    def __init__(self, channel: aio.Channel, *, stage: str = STAGE, pods: str = PODS) -> None:
        self._stage = stage
        self._target = f"{pods}/one"
        self.identity: services.IdentityAsyncStub = services.IdentityStub(channel)
        self.controller: services.ControllerAsyncStub = services.ControllerStub(channel)
        self.node: services.NodeAsyncStub = services.NodeStub(channel)

    async def create(self, name: str = "data", *, size: int = MEBIBYTE, limit: int = 0, **more: object) -> csi.Volume:
        request = csi.CreateVolumeRequest(
            name=name,
            capacity_range=csi.CapacityRange(required_bytes=size, limit_bytes=limit),
            volume_capabilities=[mount()],
            **more,  # type: ignore[arg-type]
        )
        return (await self.controller.CreateVolume(request)).volume

    async def stage(
        self,
        volume: str,
        capability: csi.VolumeCapability | None = None,
        path: str | None = None,
        context: Mapping[str, str] | None = None,
    ) -> None:
        await self.node.NodeStageVolume(
            csi.NodeStageVolumeRequest(
                volume_id=volume,
                staging_target_path=path or self._stage,
                volume_capability=capability or mount(),
                publish_context=context,
            )
        )

    async def publish(
        self,
        volume: str,
        target: str | None = None,
        capability: csi.VolumeCapability | None = None,
        *,
        stage: str | None = None,
        readonly: bool = False,
        context: Mapping[str, str] | None = None,
    ) -> None:
        await self.node.NodePublishVolume(
            csi.NodePublishVolumeRequest(
                volume_id=volume,
                staging_target_path=self._stage if stage is None else stage,
                target_path=target or self._target,
                volume_capability=capability or mount(),
                readonly=readonly,
                volume_context=context,
            )
        )

    async def unpublish(self, volume: str, target: str | None = None) -> None:
        await self.node.NodeUnpublishVolume(
            csi.NodeUnpublishVolumeRequest(volume_id=volume, target_path=target or self._target)
        )

    async def unstage(self, volume: str, path: str | None = None) -> None:
        await self.node.NodeUnstageVolume(
            csi.NodeUnstageVolumeRequest(volume_id=volume, staging_target_path=path or self._stage)
        )

    async def delete(self, volume: str) -> None:
        await self.controller.DeleteVolume(csi.DeleteVolumeRequest(volume_id=volume))

    async def snapshot(self, volume: str, name: str = "before") -> csi.Snapshot:
        request = csi.CreateSnapshotRequest(source_volume_id=volume, name=name)
        return (await self.controller.CreateSnapshot(request)).snapshot

    async def stats(self, volume: str, path: str | None = None) -> csi.NodeGetVolumeStatsResponse:
        return await self.node.NodeGetVolumeStats(
            csi.NodeGetVolumeStatsRequest(volume_id=volume, volume_path=path or self._target)
        )

    async def grow(self, volume: str, size: int) -> csi.ControllerExpandVolumeResponse:
        return await self.controller.ControllerExpandVolume(
            csi.ControllerExpandVolumeRequest(volume_id=volume, capacity_range=csi.CapacityRange(required_bytes=size))
        )

    async def grow_on_node(self, volume: str, path: str | None = None, size: int = 0) -> int:
        request = csi.NodeExpandVolumeRequest(
            volume_id=volume, volume_path=path or self._target, capacity_range=csi.CapacityRange(required_bytes=size)
        )
        return (await self.node.NodeExpandVolume(request)).capacity_bytes


def inline(size: str) -> dict[str, str]:
    """The context of a volume that is made for one pod."""
    return {"csi.storage.k8s.io/ephemeral": "true", "size": size}


def mount(
    fs_type: str = "", mode: Mode.Mode.ValueType = SINGLE_NODE_WRITER, flags: Sequence[str] = ()
) -> csi.VolumeCapability:
    kind = csi.VolumeCapability.MountVolume(fs_type=fs_type, mount_flags=flags)
    return csi.VolumeCapability(mount=kind, access_mode=Mode(mode=mode))


def block(mode: Mode.Mode.ValueType = SINGLE_NODE_WRITER) -> csi.VolumeCapability:
    return csi.VolumeCapability(block=csi.VolumeCapability.BlockVolume(), access_mode=Mode(mode=mode))


async def refused(call: Awaitable[object], code: StatusCode) -> str:
    """The words with which a call was refused; it must have been with this code."""
    with pytest.raises(aio.AioRpcError) as caught:
        await call
    assert caught.value.code() is code, caught.value.details()
    return caught.value.details() or ""
