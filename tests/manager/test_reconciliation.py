"""The way of volumes there and back through the running manager (core.md 9.5)."""

from __future__ import annotations

import asyncio

from mooring.kube.objects.pod import Pod
from mooring.manager.volume_manager import VolumeManager
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import claim, claimed, persistent_volume, pod, scripted
from mooring.testing.scripted_plugin import (
    ATTACHABLE,
    DEVICE_MOUNTABLE,
    PLAIN,
    ScriptedPlugin,
    Step,
    refused,
)
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid, VolumeName
from mooring.world.presence import Presence

ONE, TWO, WEB = PodUid("uid-one"), PodUid("uid-two"), PodUid("uid-web")
DISK = scripted("disk")
V = VolumeName("test/scripted/disk")


def node_of(plugin: ScriptedPlugin) -> MemoryNode:
    return MemoryNode(plugins=lambda context: [plugin.on(context)])


def is_clean(manager: VolumeManager) -> bool:
    """I27: nothing is remembered of what is gone."""
    worlds = manager.desired.is_empty() and manager.actual.is_empty()
    return worlds and manager.populator.is_empty() and manager.reconciler.pending.is_empty()


@in_virtual_time
async def test_with_nothing_wanted_no_plugin_is_called() -> None:
    """R01."""
    plugin = ScriptedPlugin(ATTACHABLE)
    async with node_of(plugin).running():
        await asyncio.sleep(3600)
    assert plugin.calls == []


@in_virtual_time
async def test_an_attachable_volume_is_attached_staged_and_set_up_once_each() -> None:
    """R02; operations.md 10.3 scenario 24."""
    plugin = ScriptedPlugin(ATTACHABLE)
    node = node_of(plugin)
    async with node.running() as manager:
        await manager.wait_for_attach_and_mount(_add(node, "web"))
        assert plugin.steps() == [Step.ATTACH, Step.STAGE, Step.SET_UP]
        assert plugin.calls[-1].stage_path == "/stages/disk"
        assert plugin.calls[-1].device_path == "/dev/disk"


def _add(node: MemoryNode, name: str) -> Pod:
    web = pod(name, DISK)
    node.add_pod(web)
    return web


@in_virtual_time
async def test_an_attachable_volume_goes_the_same_way_back_and_leaves_nothing() -> None:
    """R07, I27; operations.md 10.3 scenario 24."""
    plugin = ScriptedPlugin(ATTACHABLE)
    node = node_of(plugin)
    async with node.running() as manager:
        await manager.wait_for_attach_and_mount(_add(node, "web"))
        node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert plugin.steps()[3:] == [Step.TEAR_DOWN, Step.UNSTAGE, Step.DETACH]
        assert not plugin.attached | plugin.staged
        assert not plugin.mounted
        assert is_clean(manager)
        assert node.host.names_in(node.paths.pods_dir) == []


@in_virtual_time
async def test_a_plain_volume_is_set_up_and_taken_down_without_other_steps() -> None:
    """R34."""
    plugin = ScriptedPlugin(PLAIN)
    node = node_of(plugin)
    async with node.running() as manager:
        await manager.wait_for_attach_and_mount(_add(node, "web"))
        node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert plugin.steps() == [Step.SET_UP, Step.TEAR_DOWN]
        assert is_clean(manager)


@in_virtual_time
async def test_nothing_happens_again_once_everything_is_as_wanted() -> None:
    plugin = ScriptedPlugin(ATTACHABLE)
    node = node_of(plugin)
    async with node.running() as manager:
        await manager.wait_for_attach_and_mount(_add(node, "web"))
        await asyncio.sleep(3600)
        assert len(plugin.calls) == 3
        assert manager.reconciler.resync_found_work == 0


@in_virtual_time
async def test_a_volume_wanted_again_while_it_is_unstaged_is_staged_again_with_its_device_path() -> None:
    """R25, I26; operations.md 10.3 scenario 35."""
    plugin = ScriptedPlugin(ATTACHABLE)
    node = node_of(plugin)
    async with node.running() as manager:
        await manager.wait_for_attach_and_mount(_add(node, "web"))
        unstaging = plugin.hang(Step.UNSTAGE)
        node.remove_pod(WEB)
        await unstaging.reached.wait()
        again = _add(node, "web")
        await asyncio.sleep(1)
        assert plugin.count(Step.STAGE) == 1
        unstaging.release()
        await manager.wait_for_attach_and_mount(again)
        assert plugin.steps()[-2:] == [Step.STAGE, Step.SET_UP]
        assert plugin.calls[-2].device_path == "/dev/disk"
        assert plugin.count(Step.DETACH) == 0


@in_virtual_time
async def test_one_pod_leaving_a_shared_volume_takes_only_its_own_mount() -> None:
    """R28, I5."""
    plugin = ScriptedPlugin(DEVICE_MOUNTABLE)
    node = node_of(plugin)
    async with node.running() as manager:
        for name in ("one", "two"):
            await manager.wait_for_attach_and_mount(_add(node, name))
        node.remove_pod(ONE)
        await manager.reconciler.until_idle()
        assert plugin.steps() == [Step.STAGE, Step.SET_UP, Step.SET_UP, Step.TEAR_DOWN]
        assert plugin.mounted == {(TWO, "disk")}


@in_virtual_time
async def test_a_shared_volume_passes_from_one_pod_to_the_next_without_being_unstaged() -> None:
    """R29."""
    plugin = ScriptedPlugin(ATTACHABLE)
    node = node_of(plugin)
    async with node.running() as manager:
        await manager.wait_for_attach_and_mount(_add(node, "one"))
        node.remove_pod(ONE)
        await manager.wait_for_attach_and_mount(_add(node, "two"))
        assert plugin.steps()[3:] == [Step.TEAR_DOWN, Step.SET_UP]


@in_virtual_time
async def test_a_read_write_once_pod_volume_waits_for_the_pod_that_has_it() -> None:
    """R30, I11."""
    plugin = ScriptedPlugin(DEVICE_MOUNTABLE)
    node = node_of(plugin)
    node.put(persistent_volume("c", access_modes=("ReadWriteOncePod",)))
    node.put(claim("c"))
    async with node.running() as manager:
        one, two = pod("one", claimed("data", "c")), pod("two", claimed("data", "c"))
        node.add_pod(one)
        await manager.wait_for_attach_and_mount(one)
        node.add_pod(two)
        await asyncio.sleep(600)
        assert plugin.mounted == {(ONE, "pv-c")}
        assert plugin.count(Step.SET_UP, pod=TWO) == 0
        node.remove_pod(ONE)
        await manager.wait_for_attach_and_mount(two)
        assert plugin.mounted == {(TWO, "pv-c")}


@in_virtual_time
async def test_a_teardown_is_not_held_back_by_a_mount_that_rests() -> None:
    """R31, I25."""
    plugin = ScriptedPlugin(DEVICE_MOUNTABLE)
    plugin.always(Step.SET_UP, refused())
    node = node_of(plugin)
    async with node.running() as manager:
        _add(node, "web")
        await asyncio.sleep(300)
        before = asyncio.get_running_loop().time()
        node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert asyncio.get_running_loop().time() == before
        assert plugin.steps()[-1] is Step.UNSTAGE
        assert is_clean(manager)


@in_virtual_time
async def test_before_the_sources_are_heard_volumes_are_mounted_and_none_is_taken_away() -> None:
    """R32, I1."""
    plugin = ScriptedPlugin(PLAIN)
    node = node_of(plugin)
    async with node.running(sources_heard=False) as manager:
        await manager.wait_for_attach_and_mount(_add(node, "web"))
        node.remove_pod(WEB)
        await asyncio.sleep(600)
        assert plugin.count(Step.TEAR_DOWN) == 0
        manager.sources_heard()
        await manager.reconciler.until_idle()
        assert plugin.count(Step.TEAR_DOWN) == 1


@in_virtual_time
async def test_two_pods_mount_their_plain_volumes_at_the_same_time() -> None:
    """R36; operations.md 10.2 scenario 16."""
    plugin = ScriptedPlugin(PLAIN)
    node = node_of(plugin)
    async with node.running():
        both = [plugin.hang(Step.SET_UP), plugin.hang(Step.SET_UP)]
        for name in ("one", "two"):
            _add(node, name)
        await asyncio.gather(*(hanging.reached.wait() for hanging in both))
        assert plugin.count(Step.SET_UP) == 2


@in_virtual_time
async def test_two_pods_mount_a_shared_volume_one_after_the_other() -> None:
    """R36, I13; operations.md 10.2 scenario 17."""
    plugin = ScriptedPlugin(DEVICE_MOUNTABLE)
    node = node_of(plugin)
    async with node.running() as manager:
        hanging = plugin.hang(Step.SET_UP)
        for name in ("one", "two"):
            _add(node, name)
        await hanging.reached.wait()
        await asyncio.sleep(60)
        assert plugin.count(Step.SET_UP) == 1
        hanging.release()
        await manager.reconciler.until_idle()
        assert plugin.mounted == {(ONE, "disk"), (TWO, "disk")}


@in_virtual_time
async def test_two_pods_leave_a_shared_volume_at_the_same_time() -> None:
    """R37; operations.md 10.2 scenario 18."""
    plugin = ScriptedPlugin(DEVICE_MOUNTABLE)
    node = node_of(plugin)
    async with node.running() as manager:
        for name in ("one", "two"):
            await manager.wait_for_attach_and_mount(_add(node, name))
        both = [plugin.hang(Step.TEAR_DOWN, pod=ONE), plugin.hang(Step.TEAR_DOWN, pod=TWO)]
        node.remove_pod(ONE)
        node.remove_pod(TWO)
        await asyncio.gather(*(hanging.reached.wait() for hanging in both))
        assert plugin.count(Step.UNSTAGE) == 0  # I5
        for hanging in both:
            hanging.release()
        await manager.reconciler.until_idle()
        assert is_clean(manager)


@in_virtual_time
async def test_a_pod_that_cannot_mount_a_shared_volume_does_not_keep_it_from_the_others() -> None:
    plugin = ScriptedPlugin(DEVICE_MOUNTABLE)
    plugin.always(Step.SET_UP, refused(), pod=ONE)
    node = node_of(plugin)
    async with node.running() as manager:
        _add(node, "one")
        await asyncio.sleep(100)
        before = asyncio.get_running_loop().time()
        await manager.wait_for_attach_and_mount(_add(node, "two"))
        assert asyncio.get_running_loop().time() == before
        assert not manager.actual.is_mounted(ONE, V)


@in_virtual_time
async def test_attaching_that_fails_is_tried_again_and_leaves_nothing_when_the_wish_goes() -> None:
    plugin = ScriptedPlugin(ATTACHABLE)
    plugin.always(Step.ATTACH, refused())
    node = node_of(plugin)
    async with node.running() as manager:
        _add(node, "web")
        await asyncio.sleep(1)
        assert plugin.count(Step.ATTACH) == 2
        assert manager.actual.volumes[V].attachment is Presence.ABSENT
        node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert plugin.count(Step.DETACH) == 0
        assert is_clean(manager)
