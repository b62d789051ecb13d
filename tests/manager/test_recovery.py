"""Records, directories and doubt together: what a crash left is found, finished or undone, and never guessed at."""

from __future__ import annotations

import asyncio
import errno

from mooring.host.records import encode
from mooring.plugins.interface import PluginContext, VolumePlugin
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import claim, claimed, persistent_volume, pod
from mooring.testing.scripted_plugin import ATTACHABLE, PLAIN, Hang, ScriptedPlugin, Step, refused
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Change, ForceCleaned
from mooring.world.names import PodUid, VolumeName
from mooring.world.presence import Presence

WEB = PodUid("uid-web")
DISK = VolumeName("test/scripted/disk-7")
POD = pod("web", claimed("data", "data"))


class Forgetful(ScriptedPlugin):
    """A plugin that can tell nothing from a directory's name: only a record knows what a volume was."""

    def reconstruct(self, volume_name: str, *, block: bool = False) -> object:  # type: ignore[override]
        raise ValueError("the name tells nothing")


def disk_node(plugin: ScriptedPlugin) -> MemoryNode:
    node = MemoryNode(plugins=lambda context: [plugin.on(context)])
    give_disk(node)
    return node


def give_disk(node: MemoryNode) -> None:
    node.put(claim("data"))
    node.put(persistent_volume("data", backing="disk-7"))


def records(node: MemoryNode) -> int:
    return len(node.host.names_in(node.paths.intents_dir)) if node.host.look(node.paths.intents_dir) else 0


async def killed_while(node: MemoryNode, plugin: ScriptedPlugin, step: Step) -> None:
    """Let a manager be killed while a plugin is at a step for the pod."""
    hang = Hang()
    plugin.script(step, hang)
    async with node.running():
        node.add_pod(POD)
        await hang.reached.wait()
    plugin.calls.clear()
    node.new_manager()
    give_disk(node)


# -- intent records ------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_records_are_there_while_a_volume_is_and_gone_with_it() -> None:
    plugin = ScriptedPlugin(ATTACHABLE)
    node = disk_node(plugin)
    async with node.running() as manager:
        node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
        assert records(node) == 2
        node.remove_pod(WEB)
        await manager.wait_for_unmount(POD)
        await manager.reconciler.until_idle()
    assert (records(node), len(manager.intents)) == (0, 0)


@in_virtual_time
async def test_a_volume_within_its_pods_directory_needs_no_record() -> None:
    plugin = ScriptedPlugin(PLAIN)
    node = disk_node(plugin)
    async with node.running() as manager:
        node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
    assert records(node) == 0


@in_virtual_time
async def test_nothing_is_begun_while_its_record_cannot_be_written() -> None:
    plugin = ScriptedPlugin(ATTACHABLE)
    node = disk_node(plugin)

    def full(method: str, path: str) -> None:
        if method == "write_durably":
            raise OSError(errno.ENOSPC, "No space left on device", path)

    async with node.running() as manager:
        await asyncio.sleep(0)
        node.host.before_call = full
        node.add_pod(POD)
        await asyncio.sleep(5)
        assert plugin.calls == []
        failure = manager.actual.volumes[DISK].failures[None]
        assert failure.waiting
        assert "No space left" in failure.why
        node.host.before_call = None
        await manager.wait_for_attach_and_mount(POD)


@in_virtual_time
async def test_a_refused_attach_leaves_no_record() -> None:
    plugin = ScriptedPlugin(ATTACHABLE)
    plugin.script(Step.ATTACH, refused())
    node = disk_node(plugin)
    async with node.running():
        node.add_pod(POD)
        await asyncio.sleep(0.1)
        assert records(node) == 0


# -- after a crash -------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_what_was_attached_and_staged_for_a_pod_that_is_gone_is_undone() -> None:
    """C18: no directory of a pod tells of it, and the plugin itself keeps nothing."""
    for step in (Step.ATTACH, Step.STAGE, Step.SET_UP):
        plugin = Forgetful(ATTACHABLE)
        node = disk_node(plugin)
        await killed_while(node, plugin, step)
        plugin.attached.add("disk-7")  # it did happen, whatever was heard of it
        async with node.running() as manager:
            await manager.wait_for_nothing_left(timeout=60)
        assert (plugin.attached, plugin.staged, plugin.mounted) == (set(), set(), set())
        assert records(node) == 0


@in_virtual_time
async def test_what_was_half_done_for_a_pod_that_is_still_wanted_is_finished() -> None:
    for step in (Step.ATTACH, Step.STAGE, Step.SET_UP):
        plugin = Forgetful(ATTACHABLE)
        node = disk_node(plugin)
        await killed_while(node, plugin, step)
        async with node.running() as manager:
            node.add_pod(POD)
            await manager.wait_for_attach_and_mount(POD)
        assert plugin.mounted == {(WEB, "disk-7")}
        assert not any(call.step in (Step.TEAR_DOWN, Step.UNSTAGE, Step.DETACH) for call in plugin.calls)


@in_virtual_time
async def test_a_record_knows_more_than_a_directory_and_is_believed() -> None:
    plugin = ScriptedPlugin(ATTACHABLE)
    node = disk_node(plugin)
    async with node.running() as manager:
        node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
    node.new_manager()
    async with node.running(sources_heard=False) as manager:
        await asyncio.sleep(1)
        (held,) = manager.actual.volumes.values()
        assert held.name == DISK
        assert held.mounts[WEB].spec.claim == "default/data"


@in_virtual_time
async def test_after_a_boot_mounts_are_not_taken_for_what_was_found() -> None:
    plugin = ScriptedPlugin(ATTACHABLE)
    node = disk_node(plugin)
    async with node.running() as manager:
        node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
    node.host.reboot()
    node.new_manager()
    async with node.running(sources_heard=False) as manager:
        await asyncio.sleep(1)
        (held,) = manager.actual.volumes.values()
        assert (held.stage, held.stage_reconstructed) == (Presence.UNCERTAIN, False)
        assert not held.mounts[WEB].reconstructed


# -- what cannot be explained --------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_damaged_record_is_a_finding_and_stays() -> None:
    node = disk_node(ScriptedPlugin(ATTACHABLE))
    node.host.put_file(f"{node.paths.intents_dir}/bad.record", encode({"volume": "x"})[:-4])
    async with node.running() as manager:
        await asyncio.sleep(600)
        (finding,) = manager.recovery.findings()
        assert finding.kind == "record"
        assert finding.where.endswith("/bad.record")
    assert records(node) == 1


@in_virtual_time
async def test_a_volume_whose_plugin_is_gone_counts_as_in_use_until_the_plugin_is_back() -> None:
    plugin = ScriptedPlugin(ATTACHABLE)
    present = True

    def plugins(context: PluginContext) -> list[VolumePlugin]:
        return [plugin.on(context)] if present else []

    node = MemoryNode(plugins=plugins)
    give_disk(node)
    async with node.running() as manager:
        node.add_pod(POD)
        await manager.wait_for_attach_and_mount(POD)
    present = False
    node.new_manager()
    async with node.running() as manager:
        await asyncio.sleep(600)
        assert manager.get_volumes_in_use() == [DISK]
        assert [finding.kind for finding in manager.recovery.findings()] == ["leftover", "leftover"]
    assert records(node) == 2
    present = True
    node.new_manager()
    async with node.running() as manager:
        await manager.wait_for_nothing_left(timeout=60)
    assert (plugin.attached, records(node)) == (set(), 0)


@in_virtual_time
async def test_an_empty_leftover_of_a_pod_that_is_gone_is_cleaned_and_counted() -> None:
    node = MemoryNode(plugins=lambda context: [])
    path = node.paths.pod_volume_dir(WEB, "vendor.io/gone", "data")
    node.host.make_directories(path, 0o755)
    told: list[Change] = []
    node.manager.subscribe(told.append)
    async with node.running() as manager:
        await manager.wait_for_nothing_left(timeout=300)
        assert manager.recovery.leftovers == []
    assert node.host.look(node.paths.pod_dir(WEB)) is None
    assert [change for change in told if isinstance(change, ForceCleaned)] == [ForceCleaned(path=path)]


@in_virtual_time
async def test_a_leftover_with_something_in_it_or_on_it_stays_and_is_told() -> None:
    node = MemoryNode(plugins=lambda context: [])
    full = node.paths.pod_volume_dir(WEB, "vendor.io/gone", "full")
    mounted = node.paths.pod_volume_dir(WEB, "vendor.io/gone", "mounted")
    for path in (full, mounted):
        node.host.make_directories(path, 0o755)
    node.host.create_file(f"{full}/precious", 0o644)
    node.host.mount_tmpfs(mounted)
    told: list[Change] = []
    node.manager.subscribe(told.append)
    async with node.running() as manager:
        await asyncio.sleep(300)
        assert sorted(left.path for left in manager.recovery.leftovers) == [full, mounted]
    assert node.host.look(f"{full}/precious") is not None
    assert node.host.mount_at(mounted) is not None
    assert all(change.why for change in told if isinstance(change, ForceCleaned))


@in_virtual_time
async def test_a_leftover_of_a_pod_that_may_still_come_is_not_touched() -> None:
    node = MemoryNode(plugins=lambda context: [])
    path = node.paths.pod_volume_dir(WEB, "vendor.io/gone", "data")
    node.host.make_directories(path, 0o755)
    async with node.running(sources_heard=False):
        await asyncio.sleep(300)
    assert node.host.look(path) is not None
