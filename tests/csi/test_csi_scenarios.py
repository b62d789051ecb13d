"""Scenarios of raw devices, and of who owns the files of a file system (csi.md 9.5, 10 and 19)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.csi.csi_bench import UID, CSIBench, attached, volume

from mooring.kube.objects.meta import ObjectMeta, SecretReference
from mooring.kube.objects.pod import PodSecurityContext, Secret
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_node import ROOT
from mooring.testing.sample_objects import claimed, pod

DEVICES = f"{ROOT}/plugins/kubernetes.io/csi/volumeDevices"
TARGET = f"{ROOT}/pods/uid-web/volumes/kubernetes.io~csi/pv-data/mount"
RAW = pod("web", claimed("data", "data"), devices=["data"])
SECRET = SecretReference(namespace="vault", name="key")


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[CSIBench]:
    bench = CSIBench(str(tmp_path / "csi.sock"))
    bench.node.put(volume(mode="Block"))
    bench.node.host.make_directories("/dev", 0o755)
    bench.node.host.make_device("/dev/vol-1", 2**20)
    yield bench
    await bench.drivers.close()


async def test_a_driver_is_told_what_was_said_when_the_device_was_attached(bench: CSIBench) -> None:
    """Scenarios 58 and 91."""
    bench.answer(attached({"lun": "7"}))
    async with bench.running():
        await bench.mount(RAW)
    assert dict(bench.driver.requests(csi.NodeStageVolumeRequest)[0].publish_context) == {"lun": "7"}
    assert dict(bench.driver.requests(csi.NodePublishVolumeRequest)[0].publish_context) == {"lun": "7"}


async def test_a_device_that_needs_no_attaching_has_no_attachment_read(bench: CSIBench) -> None:
    """Scenario 93."""
    bench.describe(attach_required=False)
    bench.answer(attached({"lun": "7"}))
    async with bench.running():
        await bench.mount(RAW)
    assert dict(bench.driver.requests(csi.NodePublishVolumeRequest)[0].publish_context) == {}


async def test_a_driver_that_asks_is_told_of_the_pod(bench: CSIBench) -> None:
    """Scenarios 72 and 94."""
    bench.describe(attach_required=False, pod_info_on_mount=True)
    async with bench.running():
        await bench.mount(RAW)
    told = bench.driver.requests(csi.NodePublishVolumeRequest)[0].volume_context
    assert (told["csi.storage.k8s.io/pod.name"], told["csi.storage.k8s.io/ephemeral"]) == ("web", "false")


async def test_a_missing_secret_is_waited_for_before_the_driver_is_asked(bench: CSIBench) -> None:
    """Scenario 96."""
    bench.describe(attach_required=False)
    bench.node.put(volume(mode="Block", node_stage_secret_ref=SECRET))
    async with bench.running():
        bench.node.add_pod(RAW)
        await bench.fails_with('secret "key" not found')
        assert bench.driver.methods() == []
        bench.node.put(Secret(metadata=ObjectMeta(name="key", namespace="vault"), data={"password": b"hunter2"}))
        await bench.mount(RAW)
    assert dict(bench.driver.requests(csi.NodeStageVolumeRequest)[0].secrets) == {"password": "hunter2"}


async def test_a_device_whose_publication_is_gone_is_unpublished_all_the_same(bench: CSIBench) -> None:
    """Scenario 97."""
    bench.describe(attach_required=False)
    published, host = f"{DEVICES}/publish/pv-data/uid-web", bench.node.host
    async with bench.running():
        await bench.mount(RAW)
        host.unmount(published)
        host.remove_file(published)
        await bench.unmount()
    assert bench.driver.requests(csi.NodeUnpublishVolumeRequest)[0].target_path == published
    assert bench.driver.methods()[-1] == "NodeUnstageVolume"


# -- who owns the files of a file system -------------------------------------------------------------------------------
@pytest.mark.parametrize(("policy", "gid"), [("None", 0), ("File", 4000), ("ReadWriteOnceWithFSType", 4000)])
async def test_each_mount_follows_the_policy_that_holds_then(bench: CSIBench, policy: str, gid: int) -> None:
    """Scenarios 82 and 83."""
    other = "File" if policy == "None" else "None"
    bench.node.put(volume())
    wanted = pod("web", claimed("data", "data"), security=PodSecurityContext(fs_group=4000))
    bench.describe(attach_required=False, fs_group_policy=other)
    async with bench.running():
        await bench.mount(wanted)
        await bench.unmount(UID)
        bench.describe(attach_required=False, fs_group_policy=policy)
        await bench.mount(wanted)
        facts = bench.node.host.look(TARGET)
    assert facts is not None
    assert facts.gid == gid
