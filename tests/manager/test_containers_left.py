"""Volumes of pods whose containers may still be there: in place until these have gone."""

from __future__ import annotations

import asyncio

from mooring.manager.pods import KnownPods
from mooring.manager.volume_manager import VolumeManager
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import pod, scripted
from mooring.testing.scripted_plugin import PLAIN, ScriptedPlugin, Step
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid

WEB = PodUid("uid-web")
DISK = scripted("disk")
A_WHILE = 3600.0


def tell(manager: VolumeManager, left: str | None) -> None:
    """What whoever keeps runs does."""
    assert isinstance(manager.states, KnownPods)
    if left is None:
        manager.states.with_containers.discard(WEB)
    else:
        manager.states.with_containers.add(WEB)
    manager.containers_changed(WEB, left)


@in_virtual_time
async def test_the_volumes_of_a_deleted_pod_stay_until_its_containers_have_gone() -> None:
    plugin = ScriptedPlugin(PLAIN)
    node = MemoryNode(plugins=lambda context: [plugin.on(context)])
    async with node.running() as manager:
        web = pod("web", DISK)
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        tell(manager, "podman runs them")
        manager.pod_removed(WEB)
        await asyncio.sleep(A_WHILE)
        assert plugin.steps() == [Step.SET_UP]
        tell(manager, None)
        await manager.wait_for_unmount(web)
        assert plugin.steps() == [Step.SET_UP, Step.TEAR_DOWN]
        await manager.wait_for_nothing_left(timeout=A_WHILE)


@in_virtual_time
async def test_a_volume_that_a_running_pod_no_longer_names_stays_as_well() -> None:
    plugin = ScriptedPlugin(PLAIN)
    node = MemoryNode(plugins=lambda context: [plugin.on(context)])
    async with node.running() as manager:
        web = pod("web", DISK)
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        tell(manager, "podman runs them")
        manager.pod_changed(pod("web"))
        await asyncio.sleep(A_WHILE)
        assert plugin.steps() == [Step.SET_UP]
        tell(manager, None)
        await manager.wait_for_unmount(web)


@in_virtual_time
async def test_after_a_restart_containers_hold_what_is_found_of_a_pod_that_nobody_knows() -> None:
    plugin = ScriptedPlugin(PLAIN)
    node = MemoryNode(plugins=lambda context: [plugin.on(context)])
    async with node.running() as manager:
        web = pod("web", DISK)
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
    manager = node.new_manager()
    tell(manager, "podman runs them")
    async with node.running():
        await asyncio.sleep(A_WHILE)
        assert plugin.steps() == [Step.SET_UP]
        assert manager.has_possibly_mounted_volumes_for_pod(WEB)
        tell(manager, None)
        await manager.wait_for_uid_unmount(WEB)
        await manager.wait_for_nothing_left(timeout=A_WHILE)
