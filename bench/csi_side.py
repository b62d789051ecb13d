"""CSI volumes: mooring with the driver that the kubelet is measured with, and that driver by itself.

The driver by itself is asked only what nobody can leave out: to stage and to publish, in reverse to take away.
"""

from __future__ import annotations

import asyncio
import os
import statistics

from grpc import aio

from bench.clock import Clock
from bench.mooring_side import all_at_once, one_after_the_other
from bench.node import BenchNode, claiming_pod, csi_objects, handle, running_node
from bench.programs import Figures, csi_driver
from mooring.stubs import csi_pb2 as csi
from mooring.stubs import csi_pb2_grpc as services

_ACCESS = csi.VolumeCapability(
    mount=csi.VolumeCapability.MountVolume(),
    access_mode=csi.VolumeCapability.AccessMode(mode=csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER),
)


async def single(root: str, pods: int) -> Figures:
    with csi_driver(root) as data:
        async with running_node(f"{root}/node") as node:
            await _acquaint(node, root, data, volumes=1)
            return await one_after_the_other(node, [claiming_pod(number, 0) for number in range(pods)])


async def bulk(root: str, pods: int) -> Figures:
    with csi_driver(root) as data:
        async with running_node(f"{root}/node") as node:
            await _acquaint(node, root, data, volumes=pods)
            return await all_at_once(node, [claiming_pod(number, number) for number in range(pods)])


async def _acquaint(node: BenchNode, root: str, data: str, *, volumes: int) -> None:
    for number in range(volumes):
        os.makedirs(f"{data}/{handle(number)}")
    for each in csi_objects(volumes):
        node.objects.put(each)
    await node.register(f"{root}/driver.sock")


class _Driver:
    """The bare calls for one volume after another."""

    def __init__(self, root: str, data: str, channel: aio.Channel) -> None:
        self._root, self._data, self._node = f"{root}/node", data, services.NodeStub(channel)
        os.mkdir(self._root)

    async def up(self, number: int) -> None:
        os.makedirs(f"{self._data}/{handle(number)}", exist_ok=True)
        os.makedirs(self._staging(number), exist_ok=True)
        volume, staging, target = handle(number), self._staging(number), f"{self._root}/published-{number}"
        await self._node.NodeStageVolume(
            csi.NodeStageVolumeRequest(volume_id=volume, staging_target_path=staging, volume_capability=_ACCESS)
        )
        await self._node.NodePublishVolume(
            csi.NodePublishVolumeRequest(
                volume_id=volume, staging_target_path=staging, target_path=target, volume_capability=_ACCESS
            )
        )

    async def down(self, number: int) -> None:
        target = f"{self._root}/published-{number}"
        await self._node.NodeUnpublishVolume(
            csi.NodeUnpublishVolumeRequest(volume_id=handle(number), target_path=target)
        )

    async def unstage(self, number: int) -> None:
        await self._node.NodeUnstageVolume(
            csi.NodeUnstageVolumeRequest(volume_id=handle(number), staging_target_path=self._staging(number))
        )

    def _staging(self, number: int) -> str:
        return f"{self._root}/staged-{number}"


async def driver_single(root: str, pods: int) -> Figures:
    up, down = [], []
    with csi_driver(root) as data:
        async with aio.insecure_channel(f"unix:{root}/driver.sock") as channel:
            driver = _Driver(root, data, channel)
            await driver.up(0)  # the channel's first call is no measure
            await driver.down(0)
            await driver.unstage(0)
            for _ in range(pods):
                clock = Clock()
                await driver.up(0)
                up.append(clock.seconds)
                clock = Clock()
                await driver.down(0)
                down.append(clock.seconds)
                await driver.unstage(0)
    return {"wait": statistics.median(up), "wait_worst": max(up), "gone": statistics.median(down)}


async def driver_bulk(root: str, pods: int) -> Figures:
    with csi_driver(root) as data:
        async with aio.insecure_channel(f"unix:{root}/driver.sock") as channel:
            driver = _Driver(root, data, channel)
            clock = Clock()
            await asyncio.gather(*(driver.up(number) for number in range(pods)))
            up, clock = clock.seconds, Clock()
            await asyncio.gather(*(driver.down(number) for number in range(pods)))
            down = clock.seconds
            await asyncio.gather(*(driver.unstage(number) for number in range(pods)))
    return {"up": up, "down": down}
