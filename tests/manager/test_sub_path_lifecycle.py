"""Sub-paths while a manager runs: made on demand, gone before their volume, whatever happens at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from mooring.errors import Refused
from mooring.host.interface import Risk
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec, VolumeMount
from mooring.kube.objects.volumes import ConfigMapVolumeSource, HostPathVolumeSource, Volume
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import empty_dir
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid

T = TypeVar("T")
UID = PodUid("uid-web")


def web(*mounts: VolumeMount, volume: Volume | None = None) -> Pod:
    return Pod(
        metadata=ObjectMeta(name="web", namespace="default", uid=UID),
        spec=PodSpec(
            volumes=(volume if volume is not None else empty_dir("data"),),
            containers=(Container(name="main", volume_mounts=mounts),),
        ),
    )


A = VolumeMount(name="data", mount_path="/a", sub_path="a")
WHOLE = VolumeMount(name="data", mount_path="/data")


@in_virtual_time
async def test_sub_paths_are_made_when_asked_for_and_gone_with_the_pod() -> None:
    node = MemoryNode()
    pod = web(WHOLE, A)
    async with node.running() as manager:
        node.add_pod(pod)
        await manager.wait_for_attach_and_mount(pod)
        assert node.host.look(node.paths.pod_subpaths_dir(UID)) is None
        [view] = await manager.get_container_mounts(pod)
        target = node.paths.pod_subpath(UID, "data", "main", 1)
        assert [mount.host_path for mount in view.mounts] == [
            node.paths.pod_volume_dir(UID, "kubernetes.io/empty-dir", "data"),
            target,
        ]
        assert node.host.mount_at(target) is not None
        node.remove_pod(UID)
        await manager.reconciler.until_idle()
        assert node.host.look(node.paths.pod_dir(UID)) is None
        assert len(node.host.mounts()) == 1


@in_virtual_time
async def test_a_pod_that_is_not_mounted_has_no_views() -> None:
    node = MemoryNode()
    async with node.running() as manager:
        with pytest.raises(Refused, match="cannot show volume 'data' to container 'main': it is not mounted"):
            await manager.get_container_mounts(web(WHOLE))


@in_virtual_time
async def test_an_escape_is_refused_without_a_word_of_the_machine() -> None:
    node = MemoryNode()
    pod = web(A)
    async with node.running() as manager:
        node.add_pod(pod)
        await manager.wait_for_attach_and_mount(pod)
        node.host.make_link("/", f"{node.paths.pod_volume_dir(UID, 'kubernetes.io/empty-dir', 'data')}/a")
        with pytest.raises(Refused) as caught:
            await manager.get_container_mounts(pod)
        assert str(caught.value) == (
            "cannot prepare the sub-path of volume 'data' for container 'main': it leads out of the volume."
        )


@in_virtual_time
async def test_a_busy_sub_path_keeps_its_volume_until_it_is_let_go() -> None:
    node = MemoryNode()
    pod = web(A, volume=empty_dir("data", memory=True))
    async with node.running() as manager:
        node.add_pod(pod)
        await manager.wait_for_attach_and_mount(pod)
        [view] = await manager.get_container_mounts(pod)
        target = str(view.mounts[0].host_path)
        node.host.hold(target)
        node.remove_pod(UID)
        await asyncio.sleep(600)
        [held] = manager.actual.volumes.values()
        assert held.failures[UID].what == "error cleaning subPath mounts of volume 'data'"
        assert node.host.mount_at(held.mounts[UID].path) is not None
        node.host.release(target)
        await asyncio.sleep(130)
        assert node.host.look(node.paths.pod_dir(UID)) is None


@in_virtual_time
async def test_a_sub_path_of_a_config_map_follows_when_it_is_asked_for_again() -> None:
    node = MemoryNode()
    pod = web(
        VolumeMount(name="data", mount_path="/key", sub_path="key"),
        volume=Volume(name="data", config_map=ConfigMapVolumeSource(name="c")),
    )

    def config(value: str) -> ConfigMap:
        return ConfigMap(metadata=ObjectMeta(name="c", namespace="default"), data={"key": value})

    async with node.running() as manager:
        node.put(config("1"))
        node.add_pod(pod)
        await manager.wait_for_attach_and_mount(pod)
        [view] = await manager.get_container_mounts(pod)
        target = str(view.mounts[0].host_path)
        node.put(config("2"))
        await manager.reconciler.until_idle()
        assert node.host.read_file(target) == b"1"
        await manager.get_container_mounts(pod)
        assert node.host.read_file(target) == b"2"


@in_virtual_time
async def test_sub_paths_of_a_host_path_are_found_and_unmounted_after_a_restart_without_the_pod() -> None:
    node = MemoryNode()
    node.host.make_directories("/srv/a", 0o755)
    pod = web(A, volume=Volume(name="data", host_path=HostPathVolumeSource(path="/srv")))
    async with node.running() as manager:
        node.add_pod(pod)
        await manager.wait_for_attach_and_mount(pod)
        await manager.get_container_mounts(pod)
    node.new_manager()
    async with node.running() as manager:
        await asyncio.sleep(10)
        assert node.host.look(node.paths.pod_dir(UID)) is None
        assert len(node.host.mounts()) == 1
        assert node.host.names_in("/srv") == ["a"]


class _Gate:
    """Lets a machine's calls with certain words wait until they are let through."""

    def __init__(self, words: str) -> None:
        self._words = words
        self.reached, self.released = asyncio.Event(), asyncio.Event()

    async def _call(self, call: Callable[[], T], what: str) -> T:
        if self._words in what:
            self.reached.set()
            await self.released.wait()
        return call()

    def __call__(self, call: Callable[[], T], risk: Risk, what: str, /) -> Awaitable[T]:
        return self._call(call, what)


@in_virtual_time
async def test_a_pod_removed_while_its_sub_paths_are_made_leaves_none() -> None:
    node = MemoryNode()
    pod = web(A)
    async with node.running() as manager:
        node.add_pod(pod)
        await manager.wait_for_attach_and_mount(pod)
        gate = node.host.scheduler = _Gate("prepare the mounts")
        asking = asyncio.ensure_future(manager.get_container_mounts(pod))
        await gate.reached.wait()
        node.remove_pod(UID)
        await asyncio.sleep(10)
        assert node.host.look(node.paths.pod_volume_dir(UID, "kubernetes.io/empty-dir", "data")) is not None
        gate.released.set()
        await asking
        await manager.reconciler.until_idle()
        assert node.host.look(node.paths.pod_dir(UID)) is None
        assert len(node.host.mounts()) == 1


@in_virtual_time
async def test_no_sub_path_is_made_once_its_volume_is_being_taken_away() -> None:
    node = MemoryNode()
    pod = web(A)
    async with node.running() as manager:
        node.add_pod(pod)
        await manager.wait_for_attach_and_mount(pod)
        await manager.get_container_mounts(pod)
        gate = node.host.scheduler = _Gate("remove the sub-paths")
        node.remove_pod(UID)
        await gate.reached.wait()
        asking = asyncio.ensure_future(manager.get_container_mounts(pod))
        gate.released.set()
        with pytest.raises(Refused, match="it is not mounted"):
            await asking
        await manager.reconciler.until_idle()
        assert node.host.look(node.paths.pod_dir(UID)) is None
