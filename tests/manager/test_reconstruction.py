"""What earlier processes left on disk, after a restart of the manager on the same machine (core.md 6 and 9.6)."""

from __future__ import annotations

import asyncio

import pytest

from mooring.manager.pods import PodStates
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import claim, claimed, empty_dir, persistent_volume, pod, scripted
from mooring.testing.scripted_plugin import (
    ATTACHABLE,
    DEVICE_MOUNTABLE,
    PLAIN,
    Abilities,
    ScriptedPlugin,
    Step,
    refused,
)
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Change, Reconstructed
from mooring.world.names import PodUid, VolumeName
from mooring.world.presence import Presence

ONE, TWO, WEB = PodUid("uid-one"), PodUid("uid-two"), PodUid("uid-web")
DISK = VolumeName("test/scripted/disk")


def node_of(plugin: ScriptedPlugin, *, states: PodStates | None = None) -> MemoryNode:
    return MemoryNode(plugins=lambda context: [plugin.on(context)], states=states)


async def earlier(plugin: ScriptedPlugin, *names: str, states: PodStates | None = None) -> MemoryNode:
    """A node on which a manager has mounted the volume `disk` for these pods, and was then killed."""
    node = node_of(plugin, states=states)
    async with node.running() as manager:
        for name in names:
            web = pod(name, scripted("disk"))
            node.add_pod(web)
            await manager.wait_for_attach_and_mount(web)
    plugin.calls.clear()
    node.new_manager()
    return node


@in_virtual_time
async def test_two_pod_directories_of_one_volume_become_doubt_about_both() -> None:
    """C01; operations.md 10.3 scenario 37."""
    node = await earlier(ScriptedPlugin(DEVICE_MOUNTABLE), "one", "two")
    told: list[Change] = []
    node.manager.subscribe(told.append)
    async with node.running(sources_heard=False) as manager:
        await asyncio.sleep(1)
        volume = manager.actual.volumes[DISK]
        assert {uid: mount.presence for uid, mount in volume.mounts.items()} == {
            ONE: Presence.UNCERTAIN,
            TWO: Presence.UNCERTAIN,
        }
        assert all(mount.reconstructed for mount in volume.mounts.values())
        assert volume.stage is Presence.UNCERTAIN
        assert volume.stage_reconstructed
        assert [change.volume for change in told if isinstance(change, Reconstructed)] == [DISK, DISK]


@in_virtual_time
async def test_nothing_is_known_to_be_mounted_until_it_has_been_looked_at() -> None:
    """I18."""
    node = await earlier(ScriptedPlugin(PLAIN), "web")
    async with node.running(sources_heard=False) as manager:
        await asyncio.sleep(1)
        assert manager.get_mounted_volumes_for_pod(WEB) == {}
        assert manager.has_possibly_mounted_volumes_for_pod(WEB)
        assert manager.reconciler_states_has_been_synced()


@in_virtual_time
async def test_a_directory_of_an_unknown_plugin_is_remembered_and_left_alone() -> None:
    """C02."""
    node = node_of(ScriptedPlugin(PLAIN))
    path = node.paths.pod_volume_dir(WEB, "vendor.io/gone", "data")
    node.host.make_directories(path, 0o755)
    node.host.create_file(f"{path}/precious", 0o644)
    async with node.running() as manager:
        await asyncio.sleep(600)
        assert [(each.found.pod, each.found.plugin, each.found.inner_name) for each in manager.recovery.leftovers] == [
            (WEB, "vendor.io/gone", "data")
        ]
        assert not manager.actual.volumes
        assert node.host.look(f"{path}/precious") is not None


@in_virtual_time
async def test_a_volume_whose_name_cannot_be_made_sense_of_is_a_leftover_too() -> None:
    class Nameless(ScriptedPlugin):
        def volume_name(self, spec: object) -> str:
            return ""

    node = node_of(Nameless(DEVICE_MOUNTABLE))
    node.host.make_directories(node.paths.pod_volume_dir(WEB, "test/scripted", "data"), 0o755)
    async with node.running(sources_heard=False) as manager:
        await asyncio.sleep(1)
        assert "gave no name" in manager.recovery.leftovers[0].why


@in_virtual_time
async def test_a_wanted_volume_found_on_disk_is_staged_and_set_up_once_and_never_torn_down() -> None:
    """C05, A11."""
    plugin = ScriptedPlugin(DEVICE_MOUNTABLE)
    node = await earlier(plugin, "web")
    async with node.running() as manager:
        web = pod("web", scripted("disk"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        assert plugin.steps() == [Step.STAGE, Step.SET_UP]
        assert plugin.calls[-1].reconstructed
        assert not manager.actual.volumes[DISK].mounts[WEB].reconstructed


@in_virtual_time
async def test_an_attachment_found_on_disk_is_attached_again_before_use() -> None:
    """A machine may have been rebooted in between: doubt is settled by attaching again."""
    plugin = ScriptedPlugin(ATTACHABLE)
    node = await earlier(plugin, "web")
    plugin.attached.clear()
    plugin.staged.clear()
    async with node.running() as manager:
        web = pod("web", scripted("disk"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        assert plugin.steps() == [Step.ATTACH, Step.STAGE, Step.SET_UP]
        assert manager.get_volumes_in_use() == [DISK]


@in_virtual_time
async def test_a_refused_set_up_of_what_was_found_on_disk_stays_in_doubt_and_is_torn_down_with_the_pod() -> None:
    """C06, C08, C09, I16; operations.md 10.3 scenario 36."""
    plugin = ScriptedPlugin(DEVICE_MOUNTABLE)
    node = await earlier(plugin, "web")
    plugin.always(Step.SET_UP, refused())
    async with node.running() as manager:
        node.add_pod(pod("web", scripted("disk")))
        await asyncio.sleep(60)
        assert manager.actual.volumes[DISK].mounts[WEB].presence is Presence.UNCERTAIN
        assert all(call.reconstructed for call in plugin.calls if call.step is Step.SET_UP)
        assert plugin.count(Step.TEAR_DOWN) == 0
        node.remove_pod(WEB)
        await manager.wait_for_nothing_left(timeout=60)
        assert plugin.count(Step.TEAR_DOWN) == 1
        assert not plugin.mounted


@in_virtual_time
async def test_a_refused_stage_of_what_was_found_on_disk_stays_in_doubt() -> None:
    """C07, I16."""
    plugin = ScriptedPlugin(DEVICE_MOUNTABLE)
    node = await earlier(plugin, "web")
    plugin.always(Step.STAGE, refused())
    async with node.running() as manager:
        node.add_pod(pod("web", scripted("disk")))
        await asyncio.sleep(60)
        assert manager.actual.volumes[DISK].stage is Presence.UNCERTAIN


@in_virtual_time
async def test_without_a_pods_directory_the_manager_runs() -> None:
    """C13."""
    plugin = ScriptedPlugin(PLAIN)
    node = node_of(plugin)
    async with node.running() as manager:
        web = pod("web", scripted("disk"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        assert manager.recovery.leftovers == []


@in_virtual_time
async def test_files_between_the_pod_directories_are_ignored() -> None:
    node = node_of(ScriptedPlugin(PLAIN))
    node.host.make_directories(node.paths.pods_dir, 0o750)
    node.host.create_file(f"{node.paths.pods_dir}/notes.txt", 0o644)
    node.host.make_directories(node.paths.pod_volumes_dir(WEB), 0o750)
    node.host.create_file(f"{node.paths.pod_volumes_dir(WEB)}/notes.txt", 0o644)
    async with node.running(sources_heard=False) as manager:
        await asyncio.sleep(1)
        assert list(manager.actual.directories) == [WEB]
        assert not manager.actual.volumes


@pytest.mark.parametrize("abilities", [PLAIN, DEVICE_MOUNTABLE, ATTACHABLE])
def test_a_pod_deleted_while_the_manager_was_down_goes_once_the_sources_are_heard(abilities: Abilities) -> None:
    """C14, I1, I28."""

    @in_virtual_time
    async def run() -> None:
        plugin = ScriptedPlugin(abilities)
        node = await earlier(plugin, "web")
        async with node.running(sources_heard=False) as manager:
            await asyncio.sleep(600)
            assert plugin.calls == []
            assert plugin.mounted == {(WEB, "disk")}
            manager.sources_heard()
            await manager.wait_for_nothing_left(timeout=60)
            assert not plugin.mounted
            assert not plugin.staged | plugin.attached
            assert node.host.names_in(node.paths.pods_dir) == []
            assert manager.reconciler.pending.is_empty()

    run()


class Containers:
    """A pod state provider whose pods are terminating, with containers alive until they are said to be gone."""

    def __init__(self) -> None:
        self.gone = False

    def containers_terminating(self, uid: PodUid) -> bool:
        return True

    def runtime_removed(self, uid: PodUid) -> bool:
        return self.gone


@in_virtual_time
async def test_a_pod_that_was_terminating_at_the_restart_keeps_its_volumes_until_its_containers_stop() -> None:
    """C15, I3."""
    plugin, containers = ScriptedPlugin(PLAIN), Containers()
    node = node_of(plugin, states=containers)
    web = pod("web", scripted("disk"))
    node.host.make_directories(node.paths.pod_volume_dir(WEB, "test/scripted", "disk"), 0o755)
    async with node.running(sources_heard=False) as manager:
        node.add_pod(web)
        manager.sources_heard()
        await asyncio.sleep(600)
        assert plugin.count(Step.TEAR_DOWN) == 0
        containers.gone = True
        manager.pod_state_changed(WEB)
        await manager.wait_for_unmount(web)
        assert plugin.count(Step.TEAR_DOWN) == 1


@in_virtual_time
async def test_an_empty_volume_directory_is_doubt_that_is_torn_down() -> None:
    """C16."""
    plugin = ScriptedPlugin(PLAIN)
    node = node_of(plugin)
    node.host.make_directories(node.paths.pod_volume_dir(WEB, "test/scripted", "disk"), 0o755)
    async with node.running() as manager:
        await manager.wait_for_nothing_left(timeout=60)
        assert plugin.steps() == [Step.TEAR_DOWN]
        assert node.host.names_in(node.paths.pods_dir) == []


@in_virtual_time
async def test_the_name_of_a_volume_is_the_same_before_and_after_a_restart() -> None:
    """I24."""
    for abilities in (PLAIN, DEVICE_MOUNTABLE):
        plugin = ScriptedPlugin(abilities)
        node = node_of(plugin)
        async with node.running() as manager:
            web = pod("web", scripted("disk"))
            node.add_pod(web)
            await manager.wait_for_attach_and_mount(web)
            before = set(manager.actual.volumes)
        node.new_manager()
        async with node.running(sources_heard=False) as manager:
            await asyncio.sleep(1)
            assert set(manager.actual.volumes) == before


@in_virtual_time
async def test_a_restart_neither_remounts_nor_empties_a_memory_volume() -> None:
    """I28."""
    node = MemoryNode()
    web = pod("web", empty_dir("cache", memory=True), empty_dir("disk"))
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        path = manager.get_mounted_volumes_for_pod(WEB)["cache"].path
        node.host.create_file(f"{path}/kept", 0o600)
    before = node.host.mounts()
    node.new_manager()
    async with node.running(sources_heard=False) as manager:
        node.add_pod(web)
        manager.sources_heard()
        await manager.wait_for_attach_and_mount(web)
        await asyncio.sleep(600)
        assert node.host.mounts() == before
        assert node.host.look(f"{path}/kept") is not None


@in_virtual_time
async def test_after_a_reboot_a_memory_volume_is_mounted_again() -> None:
    node = MemoryNode()
    web = pod("web", empty_dir("cache", memory=True))
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        path = manager.get_mounted_volumes_for_pod(WEB)["cache"].path
    node.host.reboot()
    node.new_manager()
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        assert node.host.mount_at(path) is not None


@in_virtual_time
async def test_the_volumes_of_a_known_pod_stay_while_what_it_wants_is_unknown() -> None:
    """core.md 8.3-1: after a restart the claim cannot be looked up, and the pod still runs."""
    plugin = ScriptedPlugin(PLAIN)
    node = node_of(plugin)
    web = pod("web", claimed("data", "c"), scripted("cache"))
    node.put(persistent_volume("c"))
    node.put(claim("c"))
    async with node.running() as manager:
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
    lost = node.objects.remove(node.put(claim("c")))
    node.new_manager()
    async with node.running(sources_heard=False) as manager:
        node.add_pod(web)
        manager.sources_heard()
        await asyncio.sleep(600)
        assert plugin.count(Step.TEAR_DOWN) == 0
        assert manager.gates.pods_in_doubt == {WEB}
        assert lost not in node.objects
        node.put(claim("c"))
        await manager.wait_for_attach_and_mount(web)
        assert manager.gates.pods_in_doubt == frozenset()
        node.remove_pod(WEB)
        await manager.wait_for_nothing_left(timeout=60)
        assert not plugin.mounted
