"""What the full resync looks at: everything but what is known to have nothing to do."""

from __future__ import annotations

import asyncio

from msgspec.structs import replace

from mooring.manager.volume_manager import VolumeManager
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import pod, scripted
from mooring.testing.scripted_plugin import ATTACHABLE, PLAIN, ScriptedPlugin, Step
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.actual import ActualVolume
from mooring.world.names import PodUid
from mooring.world.presence import Presence

WEB = PodUid("uid-web")
POD = pod("web", scripted("disk"))


def node_of(plugin: ScriptedPlugin) -> MemoryNode:
    return MemoryNode(plugins=lambda context: [plugin.on(context)])


def subject_keys(manager: VolumeManager) -> set[str]:
    return set(manager._subject.keys())


def held(manager: VolumeManager) -> ActualVolume:
    (volume,) = manager.actual.volumes.values()
    return volume


@in_virtual_time
async def test_a_volume_that_is_as_wanted_is_not_looked_at_again() -> None:
    node = node_of(ScriptedPlugin(ATTACHABLE))
    async with node.running() as manager:
        node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
        await manager.reconciler.until_idle()
        assert subject_keys(manager) == set()


@in_virtual_time
async def test_a_change_that_nobody_told_of_is_found_by_the_resync() -> None:
    plugin = ScriptedPlugin(PLAIN)
    node = node_of(plugin)
    async with node.running() as manager:
        node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
        await manager.reconciler.until_idle()
        volume = held(manager)
        doubtful = replace(volume.mounts[WEB], presence=Presence.UNCERTAIN)
        manager.actual.volumes[volume.name] = replace(volume, mounts={WEB: doubtful})  # nobody is touched by this
        await asyncio.sleep(manager.settings.resync_interval + 1.0)
        assert plugin.steps() == [Step.SET_UP, Step.SET_UP]
        assert manager.reconciler.resync_found_work == 1


@in_virtual_time
async def test_a_gate_that_moves_lets_everything_be_looked_at_again() -> None:
    node = node_of(ScriptedPlugin(PLAIN))
    async with node.running() as manager:
        node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
        await manager.reconciler.until_idle()
        manager.containers_changed(PodUid("uid-other"), "a container")
        assert subject_keys(manager) == {held(manager).name}


@in_virtual_time
async def test_nothing_is_remembered_of_volumes_that_have_gone() -> None:
    node = node_of(ScriptedPlugin(PLAIN))
    async with node.running() as manager:
        node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
        node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert manager._subject._settled == {}
