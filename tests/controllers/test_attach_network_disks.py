"""Disks that nodes attach by themselves while they mount them, iscsi and fc: who is told to have them."""

from __future__ import annotations

import pytest
from tests.controllers.attach_bench import Cluster, cluster, node, pod

from mooring.kube.objects.kinds import NODE
from mooring.kube.objects.meta import ObjectMeta, ObjectReference
from mooring.kube.objects.pod import Pod, PodSpec
from mooring.kube.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
)
from mooring.kube.objects.volumes import FCVolumeSource, ISCSIVolumeSource, Volume
from mooring.testing.virtual_time import in_virtual_time

DISK = ISCSIVolumeSource(target_portal="10.0.0.1", iqn="iqn.2026.x:y", lun=2)
NAME = "kubernetes.io/iscsi/10.0.0.1:iqn.2026.x:y:2"


async def attached(bench: Cluster, name: str) -> list[str]:
    found = await bench.store.get(NODE, "", name)
    assert all(each.device_path == "" for each in found.status.volumes_attached)
    return [each.name for each in found.status.volumes_attached]


def uses(volume: Volume, on: str) -> Pod:
    return Pod(metadata=ObjectMeta(name="web", namespace="shop"), spec=PodSpec(node_name=on, volumes=(volume,)))


async def claimed_disk(bench: Cluster, *modes: str) -> None:
    meta, spec = ObjectMeta(name="disk", namespace="shop"), PersistentVolumeClaimSpec(access_modes=modes)
    claim = await bench.store.create(PersistentVolumeClaim(metadata=meta, spec=spec))
    owner = ObjectReference(namespace="shop", name="disk", uid=claim.metadata.uid)
    made = PersistentVolumeSpec(access_modes=modes, iscsi=DISK, claim_ref=owner, capacity={"storage": "1Gi"})
    await bench.store.create(PersistentVolume(metadata=ObjectMeta(name="disk"), spec=made))
    await bench.bind("disk")


@pytest.mark.parametrize(
    ("volume", "name"),
    [
        (Volume(name="v", iscsi=DISK), NAME),
        (Volume(name="v", fc=FCVolumeSource(target_wwns=("50AA", "50bb"), lun=0)), "kubernetes.io/fc/[50AA 50bb]:0"),
        (Volume(name="v", fc=FCVolumeSource(wwids=("3600",))), "kubernetes.io/fc/[3600]"),
    ],
)
def test_a_node_is_told_that_it_has_a_disk_that_a_pod_names(volume: Volume, name: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with cluster() as bench:
            await bench.put(node("n1"), uses(volume, "n1"))
            await bench.passes()
            assert await attached(bench, "n1") == [name]
            await bench.pod_goes("web")
            await bench.passes()
            assert await attached(bench, "n1") == []

    run()


@in_virtual_time
async def test_a_disk_without_any_identifier_is_told_to_nobody() -> None:
    async with cluster() as bench:
        await bench.put(node("n1"), uses(Volume(name="v", fc=FCVolumeSource()), "n1"))
        await bench.passes()
        assert await attached(bench, "n1") == []


@in_virtual_time
async def test_a_disk_for_one_node_moves_only_after_the_old_node_has_let_go_of_it() -> None:
    async with cluster() as bench:
        await claimed_disk(bench, "ReadWriteOnce")
        await bench.put(node("n1"), node("n2"), pod("one", "n1", "disk"))
        await bench.passes()
        assert await attached(bench, "n1") == [NAME]
        await bench.store.patch(NODE, "", "n1", {"status": {"volumesInUse": [NAME]}}, subresource="status")
        await bench.pod_goes("one")
        await bench.put(pod("two", "n2", "disk"))
        await bench.passes()
        assert (await attached(bench, "n1"), await attached(bench, "n2")) == ([NAME], [])
        assert bench.warnings()[0][1].startswith('Multi-Attach error for volume "disk"')
        await bench.store.patch(NODE, "", "n1", {"status": {"volumesInUse": []}}, subresource="status")
        await bench.passes()
        assert (await attached(bench, "n1"), await attached(bench, "n2")) == ([], [NAME])


@in_virtual_time
async def test_a_disk_for_many_nodes_is_told_to_each() -> None:
    async with cluster() as bench:
        await claimed_disk(bench, "ReadOnlyMany")
        await bench.put(node("n1"), node("n2"), pod("one", "n1", "disk"), pod("two", "n2", "disk"))
        await bench.passes(120)
        assert (await attached(bench, "n1"), await attached(bench, "n2")) == ([NAME], [NAME])
