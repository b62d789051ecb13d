"""Disks on a network under the whole manager: through restarts, crashes at every step, and missing drivers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from tests.plugins.iscsi_bench import IQN, A, B, IscsiBench

from mooring.daemon.node_watchers import plugin_changed
from mooring.host.programs import ProgramResult
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import FlexVolumeSource, ISCSIVolumeSource, Volume
from mooring.plugins.builtin import BUILTIN
from mooring.plugins.flex_prober import FlexProber
from mooring.plugins.interface import PluginContext
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import pod
from mooring.testing.virtual_time import run_virtual
from mooring.world.names import PodUid


def driver_reply(arguments: Sequence[str]) -> ProgramResult:
    supported = {"init", "mount", "unmount"}
    return ProgramResult(
        status=0, output='{"status": "Success"}' if arguments[1] in supported else '{"status": "Not supported"}'
    )


class KilledError(Exception):
    """The process ended here."""


def disk_pod(name: str = "web", *, lun: int = 0, portal: str = A) -> Pod:
    source = ISCSIVolumeSource(target_portal=portal, portals=(B,), iqn=IQN, lun=lun)
    return pod(name, Volume(name="data", iscsi=source))


async def mount_for(node: MemoryNode, *pods: Pod) -> None:
    async with node.running() as manager:
        for each in pods:
            node.add_pod(each)
        for each in pods:
            await manager.wait_for_attach_and_mount(each, timeout=600)


async def take_down(node: MemoryNode) -> None:
    """A new process that no source tells of any pod."""
    node.new_manager()
    async with node.running() as manager:
        await manager.wait_for_nothing_left(timeout=3600)


def test_two_pods_share_one_mount_of_a_disk() -> None:
    bench = IscsiBench()
    run_virtual(mount_for(MemoryNode(host=bench.host), disk_pod("one"), disk_pod("two")))
    assert sum("--login" in call for call in bench.network.calls()) == 2
    assert len(bench.mounted()) == 3


def test_after_a_restart_everything_is_found_and_taken_down() -> None:
    bench = IscsiBench()
    node = MemoryNode(host=bench.host)
    run_virtual(mount_for(node, disk_pod("one"), disk_pod("two"), disk_pod("three", lun=1)))
    run_virtual(take_down(node))
    assert (bench.mounted(), bench.left(), bench.network.sessions) == ([], [], {})


def test_after_a_restart_a_pod_that_stays_keeps_its_mount() -> None:
    bench = IscsiBench()
    node = MemoryNode(host=bench.host)
    run_virtual(mount_for(node, disk_pod()))
    before = [mount.id for mount in bench.host.mounts()]
    node.new_manager()
    run_virtual(mount_for(node, disk_pod()))
    assert [mount.id for mount in bench.host.mounts()] == before


def test_after_a_restart_a_disk_whose_portal_is_written_without_a_port_keeps_mount_and_name() -> None:
    bench = IscsiBench()
    node = MemoryNode(host=bench.host)
    web = disk_pod(portal="10.0.0.1")
    run_virtual(mount_for(node, web))
    before = [mount.id for mount in bench.host.mounts()]
    node.new_manager()
    run_virtual(mount_for(node, web))
    assert [mount.id for mount in bench.host.mounts()] == before
    assert list(node.manager.actual.volumes) == [f"kubernetes.io/iscsi/10.0.0.1:{IQN}:0"]
    run_virtual(take_down(node))
    assert (bench.mounted(), bench.left(), bench.network.sessions) == ([], [], {})


def calls_of_a_mount() -> int:
    bench = IscsiBench()
    count = 0

    def note(method: str, path: str) -> None:
        nonlocal count
        count += 1

    bench.host.before_call = note
    run_virtual(mount_for(MemoryNode(host=bench.host), disk_pod()))
    return count


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_process_that_ends_at_any_step_leaves_nothing_that_is_not_found(after: bool) -> None:
    for number in range(calls_of_a_mount()):
        bench = IscsiBench()
        node = MemoryNode(host=bench.host)
        network = bench.host.after_call
        kill_at(bench, number, after=after)
        with pytest.raises(BaseExceptionGroup):
            run_virtual(mount_for(node, disk_pod()))
        bench.host.before_call, bench.host.after_call = None, network
        run_virtual(take_down(node))
        assert (bench.mounted(), bench.left(), bench.network.sessions) == ([], [], {}), f"killed at call {number}"


def kill_at(bench: IscsiBench, number: int, *, after: bool) -> None:
    """Let the process end at one of the calls that change the machine."""
    network = bench.host.after_call
    left = number

    def kill(method: str, path: str) -> None:
        nonlocal left
        if after and network is not None:
            network(method, path)
        left -= 1
        if left < 0:
            raise KilledError

    if after:
        bench.host.after_call = kill
    else:
        bench.host.before_call = kill


def test_a_pod_waits_for_its_driver_and_is_served_when_it_comes() -> None:
    async def history() -> tuple[str, str]:
        node = MemoryNode(plugins=lambda _: ())
        context = PluginContext(
            host=node.host,
            paths=node.paths,
            objects=node.objects,
            node=lambda: node.facts,
            data_directory=lambda: "..data",
            tell=node.manager.tell,
        )
        plugins = node.manager.plugins
        for factory in BUILTIN:
            plugins.register(factory(context))
        prober = plugins.prober = FlexProber(context, plugins, "/drivers")
        prober.changed = lambda name: plugin_changed(node.manager, name)
        wanted = pod("web", Volume(name="data", flex_volume=FlexVolumeSource(driver="example.com/d")))
        async with node.running() as manager:
            uid = node.add_pod(wanted)
            await asyncio.sleep(300)
            waiting = manager.desired.problems(uid)["data"].why
            node.host.put_file("/drivers/example.com~d/d", "#!/bin/sh")
            node.host.change_mode("/drivers/example.com~d/d", 0o755)
            node.host.program_result = driver_reply
            await prober.probe()
            await manager.wait_for_attach_and_mount(wanted)
            return waiting, manager.get_mounted_volumes_for_pod(PodUid(uid))["data"].plugin

    waiting, plugin = run_virtual(history())
    assert waiting == "no volume plugin matched: no FlexVolume driver 'example.com/d' is installed"
    assert plugin == "example.com/d"
