"""In-tree volumes that have moved to CSI, on a whole node: one name each, also after a restart (csi.md 16)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.csi.csi_bench import NODE, UID, WEB, CSIBench, attached

from mooring.csi.names import Identity, attachment_name
from mooring.kube.objects.meta import ObjectMeta, ObjectReference
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import Volume
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_node import ROOT
from mooring.testing.sample_objects import NAMESPACE, pod
from mooring.world.changes import Change, Finished
from mooring.world.names import VolumeName
from mooring.world.presence import Presence

EBS = "ebs.csi.aws.com"
ATTACHMENT = attachment_name(Identity(driver=EBS, handle="vol-0ab"), NODE)
NAME = VolumeName(f"kubernetes.io/csi/{EBS}^vol-0ab")
SOURCE = {"volumeID": "aws://us-east-1a/vol-0ab", "fsType": "xfs", "partition": 3}
INLINE = pod("web", Volume(name="data", aws_elastic_block_store=SOURCE))
KINDS = pytest.mark.parametrize(
    ("wanted", "inner"), [(WEB, "pv-data"), (INLINE, f"{EBS}-vol-0ab")], ids=["pv", "inline"]
)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[CSIBench]:
    """A node that attaches itself, whose one driver serves what was awsElasticBlockStore before."""
    bench = CSIBench(str(tmp_path / "csi.sock"), name=EBS, orders=True)
    reference = ObjectReference(namespace=NAMESPACE, name="data", uid="uid-data")
    spec = PersistentVolumeSpec(
        access_modes=("ReadWriteOnce",), volume_mode="Filesystem", claim_ref=reference, aws_elastic_block_store=SOURCE
    )
    bench.node.put(PersistentVolume(metadata=ObjectMeta(name="pv-data"), spec=spec))
    bench.describe()
    bench.answer(attached({"device": "/dev/xvdba"}), name=ATTACHMENT)
    yield bench
    await bench.drivers.close()


@KINDS
async def test_an_in_tree_volume_is_served_by_the_driver_that_took_its_place(
    bench: CSIBench, wanted: Pod, inner: str
) -> None:
    async with bench.running():
        await bench.mount(wanted)
        assert set(bench.node.manager.actual.volumes) == {NAME}
        unit = f"{ROOT}/pods/uid-web/volumes/kubernetes.io~csi/{inner}"
        data = json.loads(bench.node.host.read_file(f"{unit}/vol_data.json"))
    expected = (EBS, "vol-0ab", inner, ATTACHMENT, "Persistent")
    fields = ("driverName", "volumeHandle", "specVolID", "attachmentID", "volumeLifecycleMode")
    assert tuple(data[field] for field in fields) == expected
    (staged,) = bench.driver.requests(csi.NodeStageVolumeRequest)
    assert (staged.volume_id, staged.volume_capability.mount.fs_type) == ("vol-0ab", "xfs")
    assert (dict(staged.volume_context), dict(staged.publish_context)) == ({"partition": "3"}, {"device": "/dev/xvdba"})
    assert staged.volume_capability.access_mode.mode == csi.VolumeCapability.AccessMode.SINGLE_NODE_WRITER


async def test_the_order_to_attach_names_a_persistent_volume_and_holds_an_inline_one(bench: CSIBench) -> None:
    """csi.md 7.2, 2."""
    orders = bench.orders
    assert orders is not None
    async with bench.running():
        for wanted in (WEB, INLINE):
            bench.answer(attached(), name=ATTACHMENT)
            await bench.mount(wanted)
            bench.node.remove_pod(UID)
            await orders.taken_back.wait()
            bench.detached(ATTACHMENT)
            await bench.node.manager.wait_for_nothing_left(timeout=20)
            orders.taken_back.clear()
    by_name, whole = (each.spec for each in orders.given)
    assert [each.metadata.name for each in orders.given] == [ATTACHMENT, ATTACHMENT]
    assert by_name.source.persistent_volume_name == "pv-data"
    assert by_name.source.inline_volume_spec is None
    inline = whole.source.inline_volume_spec
    assert whole.source.persistent_volume_name is None
    assert inline is not None
    assert inline.csi is not None
    assert (inline.csi.driver, inline.csi.volume_handle) == (EBS, "vol-0ab")
    assert (inline.access_modes, inline.volume_mode) == (("ReadWriteOnce",), "Filesystem")


@KINDS
async def test_a_new_process_finds_the_same_volume_and_uses_it(bench: CSIBench, wanted: Pod, inner: str) -> None:
    async with bench.running():
        await bench.mount(wanted)
    calls = len(bench.driver.calls)
    manager = bench.node.new_manager()
    async with bench.driver.serving(), bench.node.running(sources_heard=False):
        await bench.until(lambda: manager.reconciler_states_has_been_synced() and NAME in manager.actual.volumes)
        held = manager.actual.volumes[NAME]
        assert (held.mounts[UID].presence, held.mounts[UID].reconstructed) == (Presence.UNCERTAIN, True)
        assert held.mounts[UID].spec.name == inner
        await bench.mount(wanted)
        assert set(manager.actual.volumes) == {NAME}
    assert not any(call.method in ("NodeUnpublishVolume", "NodeUnstageVolume") for call in bench.driver.calls[calls:])


@KINDS
async def test_a_new_process_takes_away_the_same_volume(bench: CSIBench, wanted: Pod, inner: str) -> None:
    orders = bench.orders
    assert orders is not None
    async with bench.running():
        await bench.mount(wanted)
    bench.node.new_manager()
    async with bench.running():
        await orders.taken_back.wait()
        bench.detached(ATTACHMENT)
        await bench.node.manager.wait_for_nothing_left(timeout=20)
    assert orders.cancelled == [ATTACHMENT]
    unpublished = bench.driver.requests(csi.NodeUnpublishVolumeRequest)[-1]
    assert unpublished.target_path == f"{ROOT}/pods/uid-web/volumes/kubernetes.io~csi/{inner}/mount"
    assert bench.driver.methods()[-2:] == ["NodeUnpublishVolume", "NodeUnstageVolume"]


async def test_operations_say_that_a_volume_was_moved(bench: CSIBench) -> None:
    told: list[Change] = []
    bench.node.manager.subscribe(told.append)
    async with bench.running():
        await bench.mount()
    finished = [change for change in told if isinstance(change, Finished) and change.driver]
    assert finished
    assert all((each.driver, each.migrated) == (EBS, True) for each in finished)
