"""A node in memory beside a CSI driver on a real socket, with the objects that tell about both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from msgspec import structs

from mooring.csi.attachments import AttachmentOrders
from mooring.csi.drivers import Drivers
from mooring.csi.names import Identity, attachment_name
from mooring.csi.plugin import ATTACHMENT_KIND, DRIVER_KIND, CSIPlugin
from mooring.engine.waiters import Waiters
from mooring.kube.objects.meta import ObjectMeta, ObjectReference
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSIPersistentVolumeSource,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeAttachment,
    VolumeAttachmentSpec,
    VolumeAttachmentStatus,
)
from mooring.plugins.interface import ObjectRef, PluginContext
from mooring.settings import Settings
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.sample_objects import NAMESPACE, claim, claimed, pod
from mooring.testing.scripted_csi_driver import ScriptedCSIDriver
from mooring.world.names import PodUid

NAME = "scripted.csi.test"
NODE = "memory-node"
HANDLE = "vol-1"
ATTACHMENT = attachment_name(Identity(driver=NAME, handle=HANDLE), NODE)
WEB = pod("web", claimed("data", "data"))
UID = PodUid("uid-web")
PATIENCE = 20.0
"""Seconds after which a test that waits for an event has failed."""

T = TypeVar("T")


def volume(
    *, modes: tuple[str, ...] = ("ReadWriteOnce",), mode: str = "Filesystem", size: str = "", **source: object
) -> PersistentVolume:
    """The PersistentVolume `pv-data` of the scripted driver, bound to the claim `data`."""
    csi = CSIPersistentVolumeSource(driver=NAME, volume_handle=HANDLE, fs_type="ext4")
    return PersistentVolume(
        metadata=ObjectMeta(name="pv-data"),
        spec=PersistentVolumeSpec(
            capacity={"storage": size} if size else {},
            access_modes=modes,
            volume_mode=mode,
            claim_ref=ObjectReference(namespace=NAMESPACE, name="data", uid="uid-data"),
            csi=structs.replace(csi, **source),
        ),
    )


class CSIBench:
    """A node whose attachments are objects beside it, and a driver that can come and go."""

    def __init__(
        self,
        socket: str,
        *,
        name: str = NAME,
        orders: bool = False,
        asks_drivers: bool = False,
        attached_by_others: bool = False,
        timeout: float = 60.0,
    ) -> None:
        self.name = name
        self.drivers = Drivers(timeout=timeout)
        self.drivers.changed = self._driver_changed
        self.orders = MemoryOrders(self) if orders else None
        self._asks_drivers = asks_drivers
        self.node = MemoryNode(
            plugins=lambda context: [self._plugin(context)],
            settings=Settings(root=ROOT, node_name=NODE, backoff_initial=0.01, backoff_maximum=0.02),
            attached_by_others=attached_by_others,
        )
        self.driver = ScriptedCSIDriver(self.node.host, socket, name=name)
        self.node.put(claim("data"))
        self.node.put(volume())

    def _plugin(self, context: PluginContext) -> CSIPlugin:
        orders: AttachmentOrders | None = self.orders
        return CSIPlugin(context, self.drivers, self, orders=orders, asks_drivers=self._asks_drivers)

    # -- the objects that tell about drivers and attachments -------------------------------------------------------
    def csi_driver(self, name: str) -> CSIDriver | None:
        return self.node.objects.csi_driver(name)

    def volume_attachment(self, name: str) -> VolumeAttachment | None:
        return self.node.objects.volume_attachment(name)

    def volume_attachments(self) -> list[VolumeAttachment]:
        return self.node.objects.volume_attachments()

    # -- what happens around the node ------------------------------------------------------------------------------
    def describe(self, **spec: object) -> None:
        """There is a CSIDriver object that says so."""
        described = structs.replace(CSIDriverSpec(), **spec)
        self.node.put(CSIDriver(metadata=ObjectMeta(name=self.name), spec=described))

    def attachment(self, name: str = ATTACHMENT) -> VolumeAttachment | None:
        return self.volume_attachment(name)

    def answer(
        self, status: VolumeAttachmentStatus, *, name: str = ATTACHMENT, leaving: bool = False
    ) -> VolumeAttachment:
        """Whoever attaches says this of the volume."""
        spec = VolumeAttachmentSpec(attacher=self.name, node_name=NODE)
        found = self.attachment(name) or VolumeAttachment(metadata=ObjectMeta(name=name), spec=spec)
        meta = structs.replace(found.metadata, deletion_timestamp="now" if leaving else None)
        written = structs.replace(found, metadata=meta, status=status)
        self.node.put(written)
        self._told(name)
        return written

    def detached(self, name: str = ATTACHMENT) -> None:
        """The attachment is gone."""
        self.node.remove(ObjectRef(ATTACHMENT_KIND, "", name))
        self._told(name)

    def _told(self, name: str) -> None:
        if self.orders is not None:
            self.orders.waiters.notify(name)

    def _driver_changed(self, name: str) -> None:
        manager = self.node.manager
        manager.object_changed(ObjectRef(DRIVER_KIND, "", name))
        for held in list(manager.actual.volumes.values()):
            if held.spec.csi_driver == name:
                manager.reconciler.resume(held.name)

    # -- what is done with it --------------------------------------------------------------------------------------
    @asynccontextmanager
    async def running(self, *, registered: bool = True) -> AsyncIterator[None]:
        async with self.driver.serving(), self.node.running():
            if registered and self.drivers.get(self.name) is None:
                await self.register()
            yield

    async def register(self) -> None:
        await self.drivers.register(self.name, self.driver.socket, ["1.0.0"])

    async def mount(self, wanted: Pod = WEB) -> PodUid:
        uid = self.node.add_pod(wanted)
        await self.node.manager.wait_for_attach_and_mount(wanted, timeout=PATIENCE, fail_fast=False)
        return uid

    async def unmount(self, uid: PodUid = UID) -> None:
        self.node.remove_pod(uid)
        await self.node.manager.wait_for_nothing_left(timeout=PATIENCE)

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Until something is so after an outcome on the node."""
        told = asyncio.Event()
        self.node.manager.subscribe(lambda _: told.set())
        async with asyncio.timeout(PATIENCE):
            while not is_so():
                told.clear()
                await told.wait()

    async def fails_with(self, words: str) -> None:
        """Until something on the node has failed, or waits, for a reason with these words."""
        await self.until(lambda: words in self.failure())

    def failure(self) -> str:
        held = self.node.manager.actual.volumes.values()
        return "; ".join(failure.why for each in held for failure in each.failures.values())


class MemoryOrders:
    """Orders to attach among the objects of a node in memory; what becomes of them the test says."""

    def __init__(self, bench: CSIBench) -> None:
        self._bench = bench
        self.waiters = Waiters()
        self.given: list[VolumeAttachment] = []
        self.cancelled: list[str] = []
        self.ordered, self.taken_back = asyncio.Event(), asyncio.Event()

    async def order(self, attachment: VolumeAttachment) -> None:
        self.given.append(attachment)
        self.ordered.set()
        if self._bench.attachment(attachment.metadata.name) is None:
            self._bench.node.put(attachment)

    async def cancel(self, name: str) -> None:
        self.cancelled.append(name)
        self.taken_back.set()

    async def until(self, name: str, answer: Callable[[VolumeAttachment | None], T | None], timeout: float) -> T:
        return await self.waiters.until(name, lambda: answer(self._bench.attachment(name)), timeout=timeout)


def attached(metadata: Mapping[str, str] | None = None) -> VolumeAttachmentStatus:
    return VolumeAttachmentStatus(attached=True, attachment_metadata=metadata or {})
