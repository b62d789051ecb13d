"""What a node finds out of volumes that others do not attach, and how often it asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mooring.controllers.attachment_looks import AttachmentLooks
from mooring.csi.attachments import attachment_for
from mooring.kube.api import ApiError, Forbidden, InternalError
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import VOLUME_ATTACHMENT, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import ISCSIVolumeSource, Volume
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import VolumeName
from mooring.world.spec import VolumeSpec

NODE = "here"
SOURCE = CSIPersistentVolumeSource(driver="disk.csi.test", volume_handle="v")
SPEC = VolumeSpec(
    persistent_volume=PersistentVolume(metadata=ObjectMeta(name="pv"), spec=PersistentVolumeSpec(csi=SOURCE))
)
DISK, OTHER = VolumeName("kubernetes.io/csi/disk.csi.test^v"), VolumeName("kubernetes.io/iscsi/10.0.0.1:iqn:0")
ORDER = attachment_for(SPEC, NODE)
FULL = {"message": "no room", "time": "2026-01-01T00:00:00Z", "errorCode": 8}


class Server(LocalStore):
    """A store that counts what it is asked for, and may refuse to tell."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []
        self.says: ApiError | None = None

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        self.asked.append(asyncio.get_running_loop().time())
        if self.says is not None:
            raise self.says
        return await super().get(kind, namespace, name)

    async def attacher_says(self, **status: Any) -> None:
        await self.patch(VOLUME_ATTACHMENT, "", ORDER.metadata.name, {"status": status}, subresource="status")


class Volumes:
    """Volumes that wait, and what is known of them."""

    def __init__(self) -> None:
        self.awaited: dict[VolumeName, VolumeSpec] = {DISK: SPEC}
        self.why: Mapping[VolumeName, str] = {}
        self.full: list[str] = []

    def awaited_attachments(self) -> Mapping[VolumeName, VolumeSpec]:
        return self.awaited

    def attachments_failed(self, why: Mapping[VolumeName, str]) -> None:
        self.why = why


@asynccontextmanager
async def looking(server: Server, volumes: Volumes) -> AsyncIterator[AttachmentLooks]:
    looks = AttachmentLooks(server, NODE, volumes, limit_reached=volumes.full.append)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(looks.run())
        await asyncio.sleep(0)
        yield looks
        running.cancel()


@in_virtual_time
async def test_why_a_volume_is_not_attached_is_known_after_a_while_and_no_more_once_it_is() -> None:
    server, volumes = Server(), Volumes()
    await server.create(ORDER)
    await server.attacher_says(attachError={"message": "no such disk", "time": "2026-01-01T00:00:00Z"})
    async with looking(server, volumes) as looks:
        await asyncio.sleep(14)
        assert server.asked == []
        await asyncio.sleep(2)
        assert (volumes.why, volumes.full) == ({DISK: "no such disk"}, [])
        volumes.awaited = {}
        looks.wake()
        await asyncio.sleep(600)
        assert (volumes.why, len(server.asked)) == ({}, 1)


@in_virtual_time
async def test_a_node_that_has_all_volumes_it_can_have_is_told_so() -> None:
    server, volumes = Server(), Volumes()
    await server.create(ORDER)
    await server.attacher_says(attachError=FULL)
    async with looking(server, volumes):
        await asyncio.sleep(16)
        assert "attach limit exceeded" in volumes.why[DISK]
        assert volumes.full == ["disk.csi.test"]


@in_virtual_time
async def test_a_volume_that_is_being_attached_after_all_has_no_error() -> None:
    server, volumes = Server(), Volumes()
    await server.create(ORDER)
    await server.attacher_says(attachError=FULL)
    async with looking(server, volumes):
        await asyncio.sleep(16)
        await server.attacher_says(attachError=None, attached=True)
        await asyncio.sleep(120)
        assert volumes.why == {}


@in_virtual_time
async def test_what_may_not_be_read_is_not_known_and_seldom_asked_for() -> None:
    server, volumes = Server(), Volumes()
    server.says = Forbidden("cannot read", why="no relationship found")
    async with looking(server, volumes):
        await asyncio.sleep(3600)
        assert volumes.why == {}
        assert server.asked[0] == pytest.approx(15)
        assert 30 <= len(server.asked) <= 33


@in_virtual_time
async def test_what_is_known_stays_known_while_the_server_is_away() -> None:
    server, volumes = Server(), Volumes()
    await server.create(ORDER)
    await server.attacher_says(attachError=FULL)
    async with looking(server, volumes):
        await asyncio.sleep(16)
        server.says = InternalError("cannot read", why="the server is not well")
        await asyncio.sleep(120)
        assert "attach limit exceeded" in volumes.why[DISK]


@in_virtual_time
async def test_nothing_is_asked_of_volumes_that_no_driver_attaches() -> None:
    server, volumes = Server(), Volumes()
    disk = ISCSIVolumeSource(target_portal="10.0.0.1", iqn="iqn")
    volumes.awaited = {OTHER: VolumeSpec(volume=Volume(name="v", iscsi=disk))}
    async with looking(server, volumes):
        await asyncio.sleep(600)
        assert server.asked == []
