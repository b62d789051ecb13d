"""How full volumes are."""

from __future__ import annotations

import asyncio

from mooring.host.interface import NewFile
from mooring.kube.objects.volumes import EmptyDirVolumeSource, HostPathVolumeSource, Volume
from mooring.observe.usage import UsageMeter
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import empty_dir, pod
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid

UID = PodUid("uid-web")


def meter_of(node: MemoryNode) -> UsageMeter:
    return UsageMeter(node.host, node.manager.actual, clock=asyncio.get_running_loop().time, lifetime=60.0)


@in_virtual_time
async def test_a_volume_in_memory_tells_for_itself_and_one_on_disk_is_counted() -> None:
    node = MemoryNode()
    web = pod(
        "web",
        empty_dir("disk"),
        Volume(name="memory", empty_dir=EmptyDirVolumeSource(medium="Memory", size_limit="1Mi")),
    )
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web, timeout=5)
        for name in ("disk", "memory"):
            path = node.paths.pod_volume_dir(UID, "kubernetes.io/empty-dir", name)
            node.host.write_files(path, [NewFile(path="work", data=b"x" * 5000, mode=0o644)])
        found = await meter_of(node).measure()
        disk = found[UID, manager.desired.names_for_pod(UID)["disk"]]
        memory = found[UID, manager.desired.names_for_pod(UID)["memory"]]
        assert (disk.used, disk.inodes_used, disk.complete) == (8192, 2, True)
        assert (memory.capacity, memory.used, memory.available) == (2**20, 8192, 2**20 - 8192)


@in_virtual_time
async def test_paths_of_the_machine_are_not_measured() -> None:
    node = MemoryNode()
    web = pod("web", Volume(name="etc", host_path=HostPathVolumeSource(path="/etc")))
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web, timeout=5)
        assert await meter_of(node).measure() == {}


@in_virtual_time
async def test_figures_are_remembered_for_their_lifetime_and_forgotten_with_the_volume() -> None:
    node = MemoryNode()
    web = pod("web", empty_dir("disk"))
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web, timeout=5)
        meter = meter_of(node)
        name = manager.desired.names_for_pod(UID)["disk"]
        before = (await meter.measure())[UID, name]
        path = node.paths.pod_volume_dir(UID, "kubernetes.io/empty-dir", "disk")
        node.host.write_files(path, [NewFile(path="work", data=b"x", mode=0o644)])
        assert (await meter.measure())[UID, name] == before
        await asyncio.sleep(60)
        assert (await meter.measure())[UID, name].inodes_used == before.inodes_used + 1
        node.remove_pod(UID)
        await manager.wait_for_unmount(web, timeout=5)
        assert meter.known() == {}


@in_virtual_time
async def test_a_file_system_that_does_not_answer_costs_only_its_own_figures() -> None:
    node = MemoryNode()
    web = pod("web", empty_dir("dead"), empty_dir("well"))
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web, timeout=5)
        names = manager.desired.names_for_pod(UID)
        dead = node.paths.pod_volume_dir(UID, "kubernetes.io/empty-dir", "dead")
        node.host.remove_tree(dead)
        assert set(await meter_of(node).measure()) == {(UID, names["well"])}
