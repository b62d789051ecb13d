"""Pods that come and go while operations are under way, and what must not grow or be left over."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest

from mooring.kube.objects.pod import Pod
from mooring.settings import Settings
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.sample_objects import claim, claimed, persistent_volume, pod, scripted
from mooring.testing.scripted_plugin import (
    DEVICE_MOUNTABLE,
    PLAIN,
    Abilities,
    Answer,
    ScriptedPlugin,
    Step,
    doubtful,
    refused,
)
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid, VolumeName

T = TypeVar("T")
WEB, OTHER = PodUid("uid-web"), PodUid("uid-other")
DISK = VolumeName("test/scripted/disk")


def bench(abilities: Abilities = PLAIN, *, limit: int = 64) -> tuple[ScriptedPlugin, MemoryNode]:
    plugin = ScriptedPlugin(abilities)
    settings = Settings(root=ROOT, node_name="memory-node", running_operations=limit)
    return plugin, MemoryNode(plugins=lambda context: [plugin.on(context)], settings=settings)


def web(name: str = "web") -> Pod:
    return pod(name, scripted("disk"))


def is_clean(node: MemoryNode) -> bool:
    """I27."""
    manager = node.manager
    worlds = manager.desired.is_empty() and manager.actual.is_empty()
    return worlds and manager.populator.is_empty() and manager.reconciler.pending.is_empty()


@in_virtual_time
async def test_a_pod_that_goes_while_it_is_mounted_is_unmounted_when_the_mount_has_ended() -> None:
    """operations.md 3.6: a deleted pod does not cancel a running mount."""
    plugin, node = bench()
    hanging = plugin.hang(Step.SET_UP)
    async with node.running() as manager:
        node.add_pod(web())
        await hanging.reached.wait()
        node.remove_pod(WEB)
        await asyncio.sleep(10)
        assert plugin.count(Step.TEAR_DOWN) == 0
        hanging.release()
        await manager.wait_for_nothing_left(timeout=60)
        assert plugin.steps() == [Step.SET_UP, Step.TEAR_DOWN]
        assert is_clean(node)


@in_virtual_time
async def test_a_pod_that_goes_and_returns_while_it_is_mounted_is_mounted_once() -> None:
    plugin, node = bench()
    hanging = plugin.hang(Step.SET_UP)
    async with node.running() as manager:
        node.add_pod(web())
        await hanging.reached.wait()
        node.remove_pod(WEB)
        node.add_pod(web())
        hanging.release()
        await manager.wait_for_attach_and_mount(web())
        assert plugin.steps() == [Step.SET_UP]


@in_virtual_time
async def test_a_pod_that_returns_while_it_is_unmounted_is_mounted_again() -> None:
    plugin, node = bench()
    async with node.running() as manager:
        node.add_pod(web())
        await manager.wait_for_attach_and_mount(web())
        hanging = plugin.hang(Step.TEAR_DOWN)
        node.remove_pod(WEB)
        await hanging.reached.wait()
        node.add_pod(web())
        hanging.release()
        await manager.reconciler.until_idle()
        assert plugin.steps() == [Step.SET_UP, Step.TEAR_DOWN, Step.SET_UP]
        assert plugin.mounted == {(WEB, "disk")}


@in_virtual_time
async def test_a_wish_that_goes_before_its_turn_costs_no_call_and_leaves_nothing() -> None:
    plugin, node = bench(limit=1)
    hanging = plugin.hang(Step.SET_UP)
    async with node.running() as manager:
        node.add_pod(web("other"))
        node.add_pod(web())
        await hanging.reached.wait()
        node.remove_pod(WEB)
        node.remove_pod(OTHER)
        hanging.release()
        await manager.wait_for_nothing_left(timeout=60)
        assert plugin.count(Step.SET_UP, pod=WEB) == 0
        assert is_clean(node)


@pytest.mark.parametrize("answer", [refused(), doubtful(), doubtful(happened=True)])
def test_a_mount_that_fails_after_its_pod_went_leaves_no_pause_and_no_failure(answer: Answer) -> None:
    """I27, #121792: also while other pods keep the volume."""

    @in_virtual_time
    async def run() -> None:
        plugin, node = bench(DEVICE_MOUNTABLE)
        async with node.running() as manager:
            node.add_pod(web("other"))
            await manager.wait_for_attach_and_mount(web("other"))
            hanging = plugin.hang(Step.SET_UP, pod=WEB)
            plugin.script(Step.SET_UP, answer, pod=WEB)
            node.add_pod(web())
            await hanging.reached.wait()
            node.remove_pod(WEB)
            hanging.release()
            await manager.reconciler.until_idle()
            assert manager.actual.volumes[DISK].failures == {}
            assert manager.reconciler.pending.is_empty()
            assert plugin.mounted == {(OTHER, "disk")}

    run()


@in_virtual_time
async def test_a_failing_mount_whose_pod_goes_leaves_no_pause_and_no_failure() -> None:
    """I27, #121792."""
    plugin, node = bench(DEVICE_MOUNTABLE)
    plugin.always(Step.SET_UP, refused(), pod=WEB)
    async with node.running() as manager:
        node.add_pod(web("other"))
        node.add_pod(web())
        await asyncio.sleep(60)
        node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert manager.actual.volumes[DISK].failures == {}
        assert manager.reconciler.pending.is_empty()


@in_virtual_time
async def test_a_stage_in_doubt_stays_in_doubt_when_the_wish_goes_before_the_next_try() -> None:
    """I15: not trying tells nothing."""
    plugin, node = bench(DEVICE_MOUNTABLE)
    plugin.script(Step.STAGE, doubtful(happened=True))
    async with node.running() as manager:
        node.add_pod(web())
        await manager.reconciler.until_idle()
        manager.reconciler.resume(DISK)
        asyncio.get_running_loop().call_soon(node.remove_pod, WEB)
        await manager.wait_for_nothing_left(timeout=60)
        assert not plugin.staged


@in_virtual_time
async def test_a_new_pod_of_the_same_name_replaces_the_old_one() -> None:
    plugin, node = bench()
    async with node.running() as manager:
        node.add_pod(web())
        await manager.wait_for_attach_and_mount(web())
        successor = pod("web", scripted("disk"), uid="uid-new")
        node.add_pod(successor)
        await manager.wait_for_attach_and_mount(successor)
        await manager.reconciler.until_idle()
        assert plugin.mounted == {(PodUid("uid-new"), "disk")}
        assert [each.metadata.uid for each in manager.pods] == ["uid-new"]


@in_virtual_time
async def test_a_pod_whose_claim_moves_to_another_volume_leaves_nothing_of_the_first() -> None:
    """I27."""
    plugin, node = bench()
    node.put(persistent_volume("c"))
    node.put(persistent_volume("c", name="pv-new"))
    node.put(claim("c"))
    async with node.running() as manager:
        user = pod("web", claimed("data", "c"))
        node.add_pod(user)
        await manager.wait_for_attach_and_mount(user)
        node.put(claim("c", volume="pv-new"))
        await manager.wait_for_attach_and_mount(user)
        await manager.reconciler.until_idle()
        assert plugin.mounted == {(WEB, "pv-new")}
        node.remove_pod(WEB)
        await manager.wait_for_nothing_left(timeout=60)
        assert is_clean(node)


@in_virtual_time
async def test_volumes_of_two_types_may_have_one_inner_name_in_a_pod() -> None:
    """A volume called as the PersistentVolume behind another one: both are wanted, and neither waits for the other."""
    plain = ScriptedPlugin(PLAIN, name="test/plain")
    both = pod("web", scripted("disk", driver="test/plain"), claimed("data", "c"))
    shared = ScriptedPlugin(DEVICE_MOUNTABLE)
    node = MemoryNode(plugins=lambda context: [plain.on(context), shared.on(context)])
    node.put(persistent_volume("c", name="disk"))
    node.put(claim("c", volume="disk"))
    async with node.running() as manager:
        node.add_pod(both)
        await manager.wait_for_attach_and_mount(both)
        assert plain.mounted == shared.mounted == {(WEB, "disk")}


@in_virtual_time
async def test_a_volume_that_changes_its_type_under_its_name_follows_the_first_one() -> None:
    plain = ScriptedPlugin(PLAIN, name="test/plain")
    other = ScriptedPlugin(PLAIN, name="test/other")
    node = MemoryNode(plugins=lambda context: [plain.on(context), other.on(context)])
    before, after = pod("web", scripted("disk", driver="test/plain")), pod("web", scripted("disk", driver="test/other"))
    async with node.running() as manager:
        node.add_pod(before)
        await manager.wait_for_attach_and_mount(before)
        hanging = plain.hang(Step.TEAR_DOWN)
        node.add_pod(after)
        await hanging.reached.wait()
        assert other.calls == []
        hanging.release()
        await manager.wait_for_attach_and_mount(after)
        assert not plain.mounted
        assert other.mounted == {(WEB, "disk")}


@in_virtual_time
async def test_the_calls_for_one_pod_do_not_grow_with_the_number_of_pods() -> None:
    plugin, node = bench()
    calls = 0

    def count(method: str, path: str) -> None:
        nonlocal calls
        calls += 1

    costs = []
    async with node.running() as manager:
        node.add_pod(web("first"))  # a start has calls of its own
        await manager.wait_for_attach_and_mount(web("first"))
        node.host.before_call = count
        for number in range(200):
            before = calls + len(plugin.calls) + plugin.questions
            node.add_pod(web(f"p{number}"))
            await manager.reconciler.until_idle()
            costs.append(calls + len(plugin.calls) + plugin.questions - before)
    assert len(set(costs)) == 1


@in_virtual_time
async def test_after_many_pods_have_come_and_gone_nothing_is_remembered() -> None:
    """I27."""
    plugin, node = bench(DEVICE_MOUNTABLE)
    plugin.script(Step.STAGE, doubtful(), refused())
    plugin.script(Step.SET_UP, refused(), doubtful(happened=True))
    plugin.script(Step.TEAR_DOWN, refused(), doubtful())
    plugin.script(Step.UNSTAGE, doubtful())
    async with node.running() as manager:
        for number in range(20):
            node.add_pod(web(f"p{number}"))
        await asyncio.sleep(300)
        for number in range(20):
            node.remove_pod(PodUid(f"uid-p{number}"))
        await manager.wait_for_nothing_left(timeout=600)
        assert is_clean(node)
        assert not plugin.staged
        assert node.host.names_in(node.paths.pods_dir) == []
