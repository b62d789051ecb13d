"""A whole instance beside a CSI driver: attached, mounted, grown and taken away, all by mooring itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc import StatusCode
from tests.observe.conftest import Observed, observed

from mooring.csi.attachments import finalizer
from mooring.csi.handler import CSIHandler
from mooring.daemon.claim_status import ApiClaimStatus
from mooring.engine.pending import Backoff
from mooring.errors import NotYet
from mooring.kube.api import LIST_ALL, NotFound
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CLAIM, CSI_NODE, EVENT, PERSISTENT_VOLUME, VOLUME_ATTACHMENT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import (
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from mooring.observe.events import EventRecorder
from mooring.observe.stored_events import StoredEvents
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import ALL_ABILITIES, Ability, Answer, ControllerAbility, ScriptedCSIDriver

NAME = "scripted.csi.test"
SOON = {"backoff_initial": 0.01, "backoff_maximum": 0.02}
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web}
spec:
  containers: [{name: main, volumeMounts: [{name: v, mountPath: /v}]}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]
"""
CLAIM_OF = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  volumeName: pv
  resources: {{requests: {{storage: {size}}}}}
"""
VOLUME = f"""\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: pv}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  persistentVolumeReclaimPolicy: Retain
  csi: {{driver: {NAME}, volumeHandle: vol-1, fsType: ext4}}
"""


class Served:
    """An instance and the driver beside it."""

    def __init__(self, seen: Observed, driver: ScriptedCSIDriver) -> None:
        self.seen, self.driver = seen, driver
        self.csi, self.store = seen.instance.csi, seen.instance.store

    async def register(self) -> None:
        await CSIHandler(self.csi.drivers, self.csi.node).register(NAME, self.driver.socket, ["1.0.0"])

    async def attachments(self) -> list[VolumeAttachment]:
        return list((await self.store.list(VOLUME_ATTACHMENT, LIST_ALL)).items)

    async def claim(self) -> PersistentVolumeClaim:
        return await self.store.get(CLAIM, "default", "data")

    async def until_detached(self) -> None:
        async def is_gone() -> bool:
            return not await self.attachments() and not self.seen.instance.manager.actual.volumes

        await self.seen.until(is_gone)


@pytest.fixture
def driver(tmp_path: Path) -> ScriptedCSIDriver:
    driver = ScriptedCSIDriver(
        MemoryHost(),
        str(tmp_path / "csi.sock"),
        abilities=[*ALL_ABILITIES, Ability.EXPAND_VOLUME],
        controller=[ControllerAbility.PUBLISH_UNPUBLISH_VOLUME, ControllerAbility.EXPAND_VOLUME],
    )
    driver.publish_context = {"lun": "7"}
    return driver


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    made = tmp_path / "manifests"
    made.mkdir()
    (made / "pod.yaml").write_text(POD)
    (made / "claim.yaml").write_text(CLAIM_OF.format(size="1Gi"))
    (made / "volume.yaml").write_text(VOLUME)
    return made


@asynccontextmanager
async def served(
    manifests: Path,
    driver: ScriptedCSIDriver,
    *,
    attach: str = "local",
    registered: bool = True,
) -> AsyncIterator[Served]:
    async with driver.serving(), observed(manifests, host=driver.host, attach=attach, **SOON) as seen:
        served = Served(seen, driver)
        if registered:
            await served.register()
        yield served
        await served.csi.close()


async def test_a_volume_that_must_be_attached_lives_its_whole_life_on_one_machine(
    manifests: Path, driver: ScriptedCSIDriver
) -> None:
    async with served(manifests, driver) as here:
        await here.seen.mounted("web")
        (attachment,) = await here.attachments()
        assert (attachment.status.attached, attachment.status.attachment_metadata) == (True, {"lun": "7"})
        assert attachment.metadata.finalizers == (finalizer(NAME),)
        assert driver.attached == {("vol-1", "memory-node")}
        (manifests / "pod.yaml").unlink()
        await here.until_detached()
    assert driver.methods() == [
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
        "ControllerUnpublishVolume",
    ]
    assert dict(driver.requests(csi.NodeStageVolumeRequest)[0].publish_context) == {"lun": "7"}


async def test_a_claim_that_asks_for_more_gets_it_while_its_pod_runs(
    manifests: Path, driver: ScriptedCSIDriver
) -> None:
    async with served(manifests, driver) as here:
        await here.seen.mounted("web")
        (manifests / "claim.yaml").write_text(CLAIM_OF.format(size="2Gi"))

        async def has_grown() -> bool:
            return (await here.claim()).status.capacity.get("storage") == "2Gi"

        await here.seen.until(has_grown)
        status = (await here.claim()).status
        assert (dict(status.allocated_resource_statuses), status.conditions) == ({}, ())
        assert (await here.store.get(PERSISTENT_VOLUME, "", "pv")).spec.capacity["storage"] == "2Gi"
        assert await here.seen.states() == {"default/web/v": "mounted"}

        async def is_told() -> bool:
            events = (await here.store.list(EVENT, LIST_ALL)).items
            return any(each.reason == "FileSystemResizeSuccessful" for each in events)

        await here.seen.until(is_told)
    methods = driver.methods()
    assert methods[methods.index("ControllerExpandVolume") + 1] == "NodeExpandVolume"
    assert driver.requests(csi.NodeExpandVolumeRequest)[0].capacity_range.required_bytes == 2 * 2**30


async def test_a_driver_that_dies_while_it_attaches_is_asked_again_by_the_next_process(
    manifests: Path, driver: ScriptedCSIDriver
) -> None:
    driver.answer("ControllerPublishVolume", Answer(dies=True))
    async with served(manifests, driver) as here:

        async def is_noted() -> bool:
            return any(each.status.attach_error is not None for each in await here.attachments())

        await here.seen.until(is_noted)
    assert driver.attached == {("vol-1", "memory-node")}
    (manifests / "pod.yaml").unlink()
    async with served(manifests, driver) as here:
        await here.until_detached()
    assert driver.attached == set()


async def test_a_volume_whose_detach_had_failed_is_forgotten_when_its_attachment_goes(
    manifests: Path, driver: ScriptedCSIDriver
) -> None:
    driver.answer("ControllerUnpublishVolume", Answer(code=StatusCode.INTERNAL))
    async with served(manifests, driver) as here:
        await here.seen.mounted("web")
        # From here on whoever orders rests for ever after a failure; whoever carries orders out does not.
        here.seen.instance.manager.reconciler.pending.backoff = Backoff(initial=3600.0, maximum=3600.0)
        (manifests / "pod.yaml").unlink()
        await here.until_detached()


async def test_who_awaits_attachments_of_others_says_what_it_waits_for(
    manifests: Path, driver: ScriptedCSIDriver
) -> None:
    async with served(manifests, driver, attach="auto") as here:

        async def waits() -> bool:
            (row,) = await here.seen.get("/v1/volumes")
            return "there is no VolumeAttachment" in (row["reason"] or "")

        await here.seen.until(waits)
        assert here.csi.attacher is None
        assert driver.methods() == []


async def test_a_driver_that_cannot_attach_needs_nobody_who_does(manifests: Path, driver: ScriptedCSIDriver) -> None:
    driver.controller = []
    async with served(manifests, driver, attach="auto") as here:
        await here.seen.mounted("web")
        assert await here.attachments() == []


async def test_a_driver_that_registers_wakes_all_that_waits_for_it(manifests: Path, driver: ScriptedCSIDriver) -> None:
    """A pod of this machine, a claim that asks for more, and an order that somebody wrote for another machine."""
    async with served(manifests, driver, registered=False) as here:

        async def waits() -> bool:
            (row,) = await here.seen.get("/v1/volumes")
            return "to register" in (row["reason"] or "")

        await here.seen.until(waits)
        entry = CSINodeDriver(name=NAME, node_id="other")
        await here.store.create(CSINode(metadata=ObjectMeta(name="other"), spec=CSINodeSpec(drivers=(entry,))))
        theirs = CSIPersistentVolumeSource(driver=NAME, volume_handle="vol-2")
        inline = PersistentVolumeSpec(access_modes=("ReadWriteOnce",), csi=theirs)
        source = VolumeAttachmentSource(inline_volume_spec=inline)
        spec = VolumeAttachmentSpec(attacher=NAME, node_name="other", source=source)
        await here.store.create(VolumeAttachment(metadata=ObjectMeta(name="theirs"), spec=spec))
        (manifests / "claim.yaml").write_text(CLAIM_OF.format(size="2Gi"))

        async def has_asked() -> bool:
            """The manifest was read after the order was written, so that has been seen as well."""
            return (await here.claim()).spec.resources.requests["storage"] == "2Gi"

        await here.seen.until(has_asked)
        await here.register()
        await here.seen.mounted("web")

        async def is_done() -> bool:
            grown = (await here.claim()).status.capacity.get("storage") == "2Gi"
            return grown and all(each.status.attached for each in await here.attachments())

        await here.seen.until(is_done)
    assert driver.attached == {("vol-1", "memory-node"), ("vol-2", "other")}


async def test_a_registered_driver_is_shown_and_counted(manifests: Path, driver: ScriptedCSIDriver) -> None:
    async with served(manifests, driver) as here:
        await here.seen.mounted("web")
        (row,) = await here.seen.get("/v1/drivers")
        assert (row["name"], row["state"], row["node_id"]) == (NAME, "registered", "memory-node")
        assert [each.name for each in (await here.store.get(CSI_NODE, "", "here")).spec.drivers] == [NAME]
        metrics = await here.seen.text("/metrics")
    assert 'driver_name="scripted.csi.test",grpc_status_code="OK",method_name="/csi.v1.Node/NodeStageVolume"' in metrics


async def test_a_failed_growth_is_told_as_an_event_of_the_claim(manifests: Path, driver: ScriptedCSIDriver) -> None:
    driver.always("ControllerExpandVolume", Answer(code=StatusCode.OUT_OF_RANGE, words="too much", happens=False))
    async with served(manifests, driver) as here:
        await here.seen.mounted("web")
        (manifests / "claim.yaml").write_text(CLAIM_OF.format(size="2Gi"))

        async def is_told() -> bool:
            events = (await here.store.list(EVENT, LIST_ALL)).items
            return any(each.reason == "VolumeResizeFailed" and "too much" in each.message for each in events)

        await here.seen.until(is_told)
        assert await here.seen.states() == {"default/web/v": "mounted"}


async def test_a_registry_that_cannot_be_watched_is_a_finding(manifests: Path, driver: ScriptedCSIDriver) -> None:
    async with served(
        manifests, driver
    ) as here:  # the directory is made on a machine in memory, and watched on this one

        async def is_found() -> bool:
            return any(each.what.startswith("cannot watch") for each in here.csi.findings())

        await here.seen.until(is_found)


# -- the status of claims ----------------------------------------------------------------------------------------------
async def test_the_status_of_a_claim_is_written_only_as_it_was_seen() -> None:
    async with LocalStore() as store:
        events = EventRecorder(StoredEvents(store, node_name="here", now=lambda: "now", lifetime=60.0))
        writer = ApiClaimStatus(store, events)
        made = await store.create(PersistentVolumeClaim(metadata=ObjectMeta(name="data", namespace="shop")))
        seen = {"metadata": {"resourceVersion": made.metadata.resource_version}}
        written = await writer.patch(made, {**seen, "status": {"capacity": {"storage": "2Gi"}}})
        assert written.status.capacity == {"storage": "2Gi"}
        with pytest.raises(NotYet, match="cannot write the status of claim 'shop/data'"):
            await writer.patch(made, {**seen, "status": {"capacity": {"storage": "3Gi"}}})
        await store.delete(CLAIM, "shop", "data")
        with pytest.raises(NotYet):
            await writer.patch(made, {"status": {}})
        with pytest.raises(NotFound):
            await store.get(CLAIM, "shop", "data")
        assert writer.now().endswith("Z")
