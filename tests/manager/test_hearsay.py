"""Attachable volumes after a start without a server: what it said before counts, except where others may have come."""

from __future__ import annotations

import pytest

from mooring.manager.volume_manager import VolumeManager
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import claim, claimed, persistent_volume, pod
from mooring.testing.scripted_plugin import ATTACHABLE, ScriptedPlugin
from mooring.testing.virtual_time import in_virtual_time
from mooring.world import planner
from mooring.world.names import PodUid, VolumeName
from mooring.world.planner import Reason, Wait

WEB = pod("web", claimed("data", "disk"))
DISK = VolumeName("test/scripted/pv-disk")


def told_before(manager: VolumeManager) -> None:
    """What a node knows from its last view: the volume is attached to it, and the server knows that it uses it."""
    manager.pod_changed(WEB)
    manager.attachments_told({DISK: "/dev/sda"})
    manager.mark_volumes_as_reported_in_use([DISK])


async def node_with_a_mounted_disk(mode: str) -> MemoryNode:
    """A node that has the volume, and whose process ended."""
    plugin = ScriptedPlugin(ATTACHABLE)
    node = MemoryNode(plugins=lambda context: [plugin.on(context)], attached_by_others=True)
    node.put(persistent_volume("disk", access_modes=(mode,)))
    node.put(claim("disk"))
    async with node.running() as manager:
        told_before(manager)
        manager.status_heard()
        await manager.wait_for_attach_and_mount(WEB, timeout=20)
    node.new_manager()
    return node


@in_virtual_time
async def test_a_process_that_starts_again_has_what_it_had_without_a_server() -> None:
    node = await node_with_a_mounted_disk("ReadWriteOnce")
    async with node.running() as manager:
        told_before(manager)
        await manager.wait_for_attach_and_mount(WEB, timeout=20)


@pytest.mark.parametrize("forgotten", [False, True], ids=["found on disk", "nothing found"])
def test_after_a_boot_a_volume_for_one_node_waits_until_a_server_has_answered(forgotten: bool) -> None:
    @in_virtual_time
    async def run() -> None:
        node = await node_with_a_mounted_disk("ReadWriteOnce")
        if forgotten:
            node.host.remove_tree(node.paths.intents_dir)
            node.host.remove_tree(node.paths.pods_dir)
        node.host.reboot()
        for _ in range(2):  # also when the process is started once more in the same run of the machine
            node.new_manager()
            async with node.running() as manager:
                told_before(manager)
                await manager.reconciler.until_idle()
                assert manager.get_mounted_volumes_for_pod(PodUid("uid-web")) == {}
                desired, actual = manager.desired.volumes[DISK], manager.actual.volumes.get(DISK)
                assert Wait(None, Reason.PERHAPS_ELSEWHERE) in planner.plan(desired, actual, manager.gates).waits
        node.new_manager()
        async with node.running() as manager:
            told_before(manager)
            manager.status_heard()
            await manager.wait_for_attach_and_mount(WEB, timeout=20)

    run()


@in_virtual_time
async def test_after_a_boot_a_volume_for_many_nodes_is_used_on_hearsay() -> None:
    node = await node_with_a_mounted_disk("ReadWriteMany")
    node.host.reboot()
    node.new_manager()
    async with node.running() as manager:
        told_before(manager)
        await manager.wait_for_attach_and_mount(WEB, timeout=20)
