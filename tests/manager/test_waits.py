"""Waiting for a pod's volumes, and the words of waits that end without them (core.md 1.4, 1.5, V01 to V11, V26)."""

from __future__ import annotations

import asyncio

import pytest

from mooring.manager.waits import NotMounted, StillMounted
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import claim, claimed, persistent_volume, pod, scripted
from mooring.testing.scripted_plugin import (
    ATTACHABLE,
    PLAIN,
    REFRESHING,
    Abilities,
    ScriptedPlugin,
    Step,
    doubtful,
    refused,
)
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid

WEB = PodUid("uid-web")
NO_CLAIM = 'error processing PVC default/c: failed to fetch PVC from API server: persistentvolumeclaims "c" not found'


def bench(abilities: Abilities = PLAIN) -> tuple[ScriptedPlugin, MemoryNode]:
    plugin = ScriptedPlugin(abilities)
    return plugin, MemoryNode(plugins=lambda context: [plugin.on(context)])


def now() -> float:
    return asyncio.get_running_loop().time()


@in_virtual_time
async def test_a_pod_whose_containers_use_no_volume_is_ready_at_once() -> None:
    """V07."""
    _, node = bench()
    async with node.running() as manager:
        await manager.wait_for_attach_and_mount(pod("web", scripted("data"), used=[]), timeout=0)


@in_virtual_time
async def test_a_wait_ends_as_soon_as_the_last_volume_is_mounted() -> None:
    """V01, I20."""
    plugin, node = bench()
    hanging = plugin.hang(Step.SET_UP)
    async with node.running() as manager:
        web = pod("web", scripted("a"), scripted("b"))
        node.add_pod(web)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(manager.wait_for_attach_and_mount(web))
            await asyncio.sleep(7)
            assert not waiting.done()
            hanging.release()
        assert now() == 7.0
        assert set(manager.get_mounted_volumes_for_pod(WEB)) == {"a", "b"}


@in_virtual_time
async def test_a_mount_that_fails_is_waited_for_until_the_timeout_of_two_minutes_and_three_seconds() -> None:
    """V08; core.md 1.4, consequences."""
    plugin, node = bench()
    plugin.always(Step.SET_UP, refused())
    async with node.running() as manager:
        web = pod("web", scripted("a"))
        node.add_pod(web)
        with pytest.raises(NotMounted) as caught:
            await manager.wait_for_attach_and_mount(web)
        assert now() == 123.0
        assert str(caught.value) == (
            "unmounted volumes=[a], unattached volumes=[], failed to process volumes=[]: context deadline exceeded"
        )
        assert isinstance(caught.value.__cause__, TimeoutError)


@in_virtual_time
async def test_a_volume_that_cannot_be_worked_out_ends_the_wait_at_once_with_all_three_lists() -> None:
    """P23, V26."""
    plugin, node = bench()
    plugin.always(Step.SET_UP, refused())
    async with node.running() as manager:
        web = pod("web", claimed("b", "c"), scripted("a"))
        node.add_pod(web)
        with pytest.raises(NotMounted) as caught:
            await manager.wait_for_attach_and_mount(web)
        assert now() == 0.0
        assert str(caught.value) == (
            f"unmounted volumes=[a b], unattached volumes=[], failed to process volumes=[b]: {NO_CLAIM}"
        )


@in_virtual_time
async def test_several_problems_are_joined_once_each_and_sorted() -> None:
    _, node = bench()
    async with node.running() as manager:
        web = pod("web", claimed("a", "d"), claimed("b", "c"), claimed("also-b", "c"))
        node.add_pod(web)
        with pytest.raises(NotMounted) as caught:
            await manager.wait_for_attach_and_mount(web)
        assert caught.value.cause == "; ".join([NO_CLAIM, NO_CLAIM.replace("/c", "/d").replace('"c"', '"d"')])


@in_virtual_time
async def test_a_problem_is_told_to_every_waiter_until_it_is_over() -> None:
    """V26 and I21 as they are here: problems are values, and no waiter takes them from another."""
    _, node = bench()
    async with node.running() as manager:
        web = pod("web", claimed("b", "c"))
        node.add_pod(web)
        for _ in range(2):
            with pytest.raises(NotMounted):
                await manager.wait_for_attach_and_mount(web)
        node.put(persistent_volume("c"))
        node.put(claim("c"))
        await manager.wait_for_attach_and_mount(web)
        assert now() == 0.0


@in_virtual_time
async def test_a_wait_that_does_not_fail_fast_goes_on_until_the_problem_is_over() -> None:
    _, node = bench()
    async with node.running() as manager:
        web = pod("web", claimed("b", "c"))
        node.add_pod(web)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(manager.wait_for_attach_and_mount(web, fail_fast=False))
            await asyncio.sleep(5)
            assert not waiting.done()
            node.put(persistent_volume("c"))
            node.put(claim("c"))
        assert now() == 5.0


@in_virtual_time
async def test_a_problem_that_arises_while_waiting_ends_the_wait() -> None:
    plugin, node = bench()
    plugin.always(Step.SET_UP, refused())
    node.put(persistent_volume("c"))
    ref = node.put(claim("c"))
    async with node.running() as manager:
        web = pod("web", claimed("b", "c"))
        node.add_pod(web)
        asyncio.get_running_loop().call_later(3, node.remove, ref)
        with pytest.raises(NotMounted):
            await manager.wait_for_attach_and_mount(web)
        assert now() == 3.0


@in_virtual_time
async def test_the_lists_tell_apart_what_is_not_attached_and_what_could_not_be_processed() -> None:
    """V04, V05."""
    plugin, node = bench(ATTACHABLE)
    plugin.always(Step.ATTACH, doubtful())
    async with node.running() as manager:
        web = pod("web", scripted("vol2"), scripted("vol02", backing="vol2"), scripted("vol3", driver="test/none"))
        node.add_pod(web)
        with pytest.raises(NotMounted) as caught:
            await manager.wait_for_attach_and_mount(web, timeout=1.0, fail_fast=False)
        assert str(caught.value) == (
            "unmounted volumes=[vol02 vol2 vol3], unattached volumes=[vol02 vol2], "
            "failed to process volumes=[vol3]: context deadline exceeded"
        )


@in_virtual_time
async def test_an_attached_volume_that_cannot_be_staged_is_not_listed_as_unattached() -> None:
    """core.md 8.2, #112719."""
    plugin, node = bench(ATTACHABLE)
    plugin.always(Step.STAGE, refused())
    async with node.running() as manager:
        web = pod("web", scripted("disk"))
        node.add_pod(web)
        with pytest.raises(NotMounted) as caught:
            await manager.wait_for_attach_and_mount(web, timeout=1.0)
        assert (caught.value.unmounted, caught.value.unattached) == (["disk"], [])


@in_virtual_time
async def test_a_volume_found_on_disk_whose_attachment_is_unknown_is_not_listed_as_unattached() -> None:
    plugin, node = bench(ATTACHABLE)
    node.host.make_directories(node.paths.pod_volume_dir(WEB, "test/scripted", "disk"), 0o755)
    plugin.always(Step.ATTACH, refused())
    async with node.running() as manager:
        web = pod("web", scripted("disk"))
        node.add_pod(web)
        with pytest.raises(NotMounted) as caught:
            await manager.wait_for_attach_and_mount(web, timeout=1.0)
        assert caught.value.unattached == []


@in_virtual_time
async def test_before_anything_was_tried_an_attachable_volume_is_listed_as_unattached() -> None:
    _, node = bench(ATTACHABLE)
    web = pod("web", scripted("disk"))
    node.add_pod(web)
    with pytest.raises(NotMounted) as caught:
        await node.manager.wait_for_attach_and_mount(web, timeout=1.0)
    assert caught.value.unattached == ["disk"]


@in_virtual_time
async def test_a_pod_that_nobody_told_of_is_not_processed() -> None:
    _, node = bench()
    async with node.running() as manager:
        with pytest.raises(NotMounted) as caught:
            await manager.wait_for_attach_and_mount(pod("web", scripted("a")), timeout=2.0)
        assert caught.value.unprocessed == ["a"]


@in_virtual_time
async def test_waiting_refreshes_content_and_does_not_wait_for_the_refresh() -> None:
    """I30, core.md 1.4 step 2."""
    plugin, node = bench(REFRESHING)
    async with node.running() as manager:
        web = pod("web", scripted("a"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        refreshing = plugin.hang(Step.SET_UP)
        await manager.wait_for_attach_and_mount(web)
        await refreshing.reached.wait()
        assert plugin.calls[-1].refresh
        await manager.wait_for_attach_and_mount(web, timeout=0)
        refreshing.release()


@in_virtual_time
async def test_a_cancelled_wait_ends_at_once_and_holds_up_nobody() -> None:
    """I29."""
    plugin, node = bench()
    plugin.always(Step.SET_UP, refused(), pod=WEB)
    async with node.running() as manager:
        web, other = pod("web", scripted("a")), pod("other", scripted("a"))
        node.add_pod(web)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(manager.wait_for_attach_and_mount(web))
            await asyncio.sleep(1)
            node.add_pod(other)
            await manager.wait_for_attach_and_mount(other)
            waiting.cancel()
        assert now() == 1.0


@in_virtual_time
async def test_a_pod_that_stays_wanted_is_still_mounted_when_the_wait_for_its_end_times_out() -> None:
    """V09."""
    _, node = bench()
    async with node.running() as manager:
        web = pod("web", scripted("b"), scripted("a"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        with pytest.raises(StillMounted) as caught:
            await manager.wait_for_unmount(web, timeout=2.0)
        assert now() == 2.0
        assert str(caught.value) == (
            "mounted volumes=[test/scripted/uid-web-a test/scripted/uid-web-b]: context deadline exceeded"
        )
        assert isinstance(caught.value.__cause__, TimeoutError)


@in_virtual_time
async def test_the_wait_for_the_end_of_a_pod_includes_what_is_in_doubt() -> None:
    """core.md 8.3-10."""
    plugin, node = bench()
    async with node.running() as manager:
        web = pod("web", scripted("a"))
        node.add_pod(web)
        await manager.wait_for_attach_and_mount(web)
        plugin.script(Step.TEAR_DOWN, doubtful(), doubtful())
        node.remove_pod(WEB)
        await manager.wait_for_unmount(web)
        assert now() == 1.5
        assert not plugin.mounted


@in_virtual_time
async def test_the_wait_for_the_end_of_a_pod_includes_a_mount_that_is_under_way() -> None:
    """core.md 8.2, #75345: in flight is there."""
    plugin, node = bench()
    hanging = plugin.hang(Step.SET_UP)
    async with node.running() as manager:
        web = pod("web", scripted("a"))
        node.add_pod(web)
        await hanging.reached.wait()
        node.remove_pod(WEB)
        assert manager.has_possibly_mounted_volumes_for_pod(WEB)
        assert manager.get_possibly_mounted_volumes_for_pod(WEB) == ["test/scripted/uid-web-a"]
        with pytest.raises(StillMounted) as caught:
            await manager.wait_for_unmount(web, timeout=5.0)
        assert caught.value.volumes == ["test/scripted/uid-web-a"]
        hanging.release()
        await manager.wait_for_unmount(web)
        assert plugin.steps() == [Step.SET_UP, Step.TEAR_DOWN]


@pytest.mark.parametrize("count", [1, 10, 20])
def test_waiting_for_all_pods_to_end_fails_with_one_error_for_each_that_did_not(count: int) -> None:
    """V10."""

    @in_virtual_time
    async def run() -> None:
        _, node = bench()
        async with node.running() as manager:
            pods = [pod(f"web-{number}", scripted("a")) for number in range(count)]
            for each in pods:
                node.add_pod(each)
            await manager.reconciler.until_idle()
            gone = pod("gone", scripted("a"))
            with pytest.raises(ExceptionGroup) as caught:
                await manager.wait_for_all_pods_unmount([*pods, gone], timeout=1.0)
            assert len(caught.value.exceptions) == count
            texts = [str(error) for error in caught.value.exceptions]
            assert all(f"uid-web-{number}-a]" in texts[number] for number in range(count))
            assert now() == 1.0

    run()


@in_virtual_time
async def test_waiting_for_all_of_no_pods_or_of_pods_without_volumes_ends_at_once() -> None:
    """V11."""
    _, node = bench()
    async with node.running() as manager:
        await manager.wait_for_all_pods_unmount([], timeout=0)
        await manager.wait_for_all_pods_unmount([pod("web")], timeout=0)
