"""Volumes that others attach: the device is the one that they tell."""

from __future__ import annotations

from tests.manager.test_network_disks import driver_reply

from mooring.kube.objects.volumes import FlexVolumeSource, Volume
from mooring.plugins.flex_driver import Capabilities, FlexDriver
from mooring.plugins.flex_volume import FlexVolumePlugin
from mooring.testing.memory_host import MemoryHost
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import pod
from mooring.testing.virtual_time import in_virtual_time

DRIVER, PROGRAM = "example.com/nbd", "/drivers/nbd"
WEB = pod("web", Volume(name="data", flex_volume=FlexVolumeSource(driver=DRIVER)))


@in_virtual_time
async def test_a_flex_volume_is_awaited_on_the_device_that_whoever_attaches_has_told() -> None:
    host = MemoryHost()
    host.make_directories("/dev", 0o755)
    host.make_device("/dev/nbd7", 64 * 2**20)
    host.program_result = driver_reply
    node = MemoryNode(
        host=host,
        plugins=lambda context: [FlexVolumePlugin(context, FlexDriver(host, DRIVER, PROGRAM), Capabilities())],
        attached_by_others=True,
    )
    async with node.running() as manager:
        manager.status_heard()
        node.add_pod(WEB)
        (name,) = manager.get_volumes_in_use()
        manager.attachments_told({name: "/dev/nbd7"})
        manager.mark_volumes_as_reported_in_use([name])
        await manager.wait_for_attach_and_mount(WEB, timeout=20)
        node.remove_pod(manager.pods.put(WEB))
        await manager.wait_for_nothing_left(timeout=20)
    asked = [call[1:3] for call in host.programs_run if call[0] == PROGRAM]
    assert ("waitforattach", "/dev/nbd7") in asked
    assert not {"attach", "detach"} & {command for command, *_ in asked}
