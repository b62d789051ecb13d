"""Calls that time out, are refused or fail half way: what is known afterwards, and what is done about it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mooring.manager.volume_manager import VolumeManager
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import pod, scripted
from mooring.testing.scripted_plugin import (
    ATTACHABLE,
    DEVICE_MOUNTABLE,
    PLAIN,
    Abilities,
    Answer,
    ScriptedPlugin,
    Step,
    doubtful,
    not_yet,
    refused,
)
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid, VolumeName
from mooring.world.presence import Presence

WEB = PodUid("uid-web")
DISK = VolumeName("test/scripted/disk")
REFRESHING_DISK = Abilities(stages=True, refreshes=True)


class Bench:
    def __init__(self, abilities: Abilities = DEVICE_MOUNTABLE) -> None:
        self.plugin = ScriptedPlugin(abilities)
        self.node = MemoryNode(plugins=lambda context: [self.plugin.on(context)])
        self.pod = pod("web", scripted("disk"))

    @property
    def manager(self) -> VolumeManager:
        return self.node.manager

    @asynccontextmanager
    async def with_pod(self) -> AsyncIterator[VolumeManager]:
        """The node running, with the pod added and looked at once."""
        async with self.node.running() as manager:
            self.node.add_pod(self.pod)
            await manager.reconciler.until_idle()
            yield manager

    async def remove(self) -> None:
        """Take the pod away, and wait until all that follows has ended."""
        self.node.remove_pod(WEB)
        await self.manager.wait_for_nothing_left(timeout=3600)

    @property
    def stage(self) -> Presence:
        return self.manager.actual.volumes[DISK].stage

    @property
    def mount(self) -> Presence:
        found = self.manager.actual.mount(WEB, DISK)
        return found.presence if found is not None else Presence.ABSENT


@pytest.mark.parametrize("happened", [True, False])
def test_a_stage_that_timed_out_is_unstaged_exactly_once_when_the_pod_goes(happened: bool) -> None:
    """R16, I15; operations.md 10.3 scenario 26."""

    @in_virtual_time
    async def run() -> None:
        bench = Bench()
        bench.plugin.always(Step.STAGE, doubtful(happened=happened))
        async with bench.with_pod() as manager:
            assert bench.stage is Presence.UNCERTAIN
            await bench.remove()
            assert bench.plugin.count(Step.UNSTAGE) == 1
            assert not bench.plugin.staged
            assert manager.reconciler.pending.is_empty()

    run()


@in_virtual_time
async def test_a_stage_that_was_refused_is_never_unstaged() -> None:
    """R17; operations.md 10.3 scenario 27."""
    bench = Bench()
    bench.plugin.always(Step.STAGE, refused())
    async with bench.with_pod():
        assert bench.stage is Presence.ABSENT
        await bench.remove()
        assert bench.plugin.count(Step.UNSTAGE) == 0


@in_virtual_time
async def test_a_stage_that_timed_out_and_was_then_refused_is_never_unstaged() -> None:
    """R18; operations.md 10.3 scenario 28."""
    bench = Bench()
    bench.plugin.script(Step.STAGE, doubtful(), refused(), refused())
    async with bench.with_pod():
        await asyncio.sleep(0.6)
        assert bench.stage is Presence.ABSENT
        await bench.remove()
        assert bench.plugin.count(Step.UNSTAGE) == 0


@in_virtual_time
async def test_a_stage_that_waits_for_something_changes_nothing() -> None:
    """operations.md 3.3, column Transient."""
    bench = Bench()
    bench.plugin.script(Step.STAGE, doubtful(), not_yet())
    async with bench.with_pod():
        await asyncio.sleep(0.6)
        assert bench.stage is Presence.UNCERTAIN


@pytest.mark.parametrize("answer", [doubtful(), refused(), not_yet()])
def test_a_refresh_that_fails_leaves_mount_and_stage_as_they_are(answer: Answer) -> None:
    """R19, R23, I16, I30; operations.md 10.3 scenarios 29, 33."""

    @in_virtual_time
    async def run() -> None:
        bench = Bench(REFRESHING_DISK)
        async with bench.with_pod() as manager:
            bench.plugin.script(Step.SET_UP, answer)
            manager.populator.refresh_pod(WEB)
            await manager.reconciler.until_idle()
            assert (bench.mount, bench.stage) == (Presence.PRESENT, Presence.PRESENT)
            await manager.wait_for_attach_and_mount(bench.pod, timeout=0)
            await bench.remove()
            assert bench.plugin.count(Step.TEAR_DOWN) == 1
            assert bench.plugin.count(Step.UNSTAGE) == 1

    run()


@pytest.mark.parametrize("happened", [True, False])
def test_a_set_up_that_timed_out_is_torn_down_and_unstaged_once_each(happened: bool) -> None:
    """R20, I15, I18; operations.md 10.3 scenarios 30, 39."""

    @in_virtual_time
    async def run() -> None:
        bench = Bench()
        bench.plugin.always(Step.SET_UP, doubtful(happened=happened))
        async with bench.with_pod() as manager:
            assert bench.mount is Presence.UNCERTAIN
            assert manager.get_mounted_volumes_for_pod(WEB) == {}
            assert manager.has_possibly_mounted_volumes_for_pod(WEB)
            await bench.remove()
            assert bench.plugin.count(Step.TEAR_DOWN) == 1
            assert bench.plugin.count(Step.UNSTAGE) == 1
            assert not bench.plugin.mounted

    run()


@in_virtual_time
async def test_a_set_up_that_was_refused_is_only_unstaged() -> None:
    """R21; operations.md 10.3 scenario 31."""
    bench = Bench()
    bench.plugin.always(Step.SET_UP, refused())
    async with bench.with_pod():
        assert bench.mount is Presence.ABSENT
        await bench.remove()
        assert bench.plugin.count(Step.TEAR_DOWN) == 0
        assert bench.plugin.count(Step.UNSTAGE) == 1


@in_virtual_time
async def test_a_set_up_that_timed_out_and_was_then_refused_is_only_unstaged() -> None:
    """R22; operations.md 10.3 scenario 32."""
    bench = Bench()
    bench.plugin.script(Step.SET_UP, doubtful(), refused(), refused())
    async with bench.with_pod():
        await asyncio.sleep(0.6)
        assert bench.mount is Presence.ABSENT
        await bench.remove()
        assert bench.plugin.count(Step.TEAR_DOWN) == 0
        assert bench.plugin.count(Step.UNSTAGE) == 1


@pytest.mark.parametrize("answer", [doubtful(), doubtful(happened=True), refused()])
def test_a_teardown_that_fails_leaves_doubt_and_is_tried_again(answer: Answer) -> None:
    """R26, I17, I19."""

    @in_virtual_time
    async def run() -> None:
        bench = Bench(PLAIN)
        async with bench.node.running() as manager:
            bench.node.add_pod(bench.pod)
            await manager.wait_for_attach_and_mount(bench.pod)
            bench.plugin.script(Step.TEAR_DOWN, answer)
            bench.node.remove_pod(WEB)
            await manager.reconciler.until_idle()
            name = VolumeName("test/scripted/uid-web-disk")
            assert manager.actual.volumes[name].mounts[WEB].presence is Presence.UNCERTAIN
            await manager.wait_for_nothing_left(timeout=60)
            assert asyncio.get_running_loop().time() == 0.5
            assert bench.plugin.count(Step.TEAR_DOWN) == 2

    run()


@in_virtual_time
async def test_a_pod_that_comes_back_after_a_failed_teardown_is_set_up_again() -> None:
    """I17."""
    bench = Bench()
    async with bench.with_pod() as manager:
        bench.plugin.script(Step.TEAR_DOWN, doubtful(happened=True))
        bench.node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        bench.node.add_pod(bench.pod)
        await manager.wait_for_attach_and_mount(bench.pod)
        assert bench.plugin.steps()[-1] is Step.SET_UP
        assert bench.plugin.mounted == {(WEB, "disk")}


@in_virtual_time
async def test_after_a_failed_unstage_a_new_pod_is_staged_again_before_it_is_set_up() -> None:
    """R27, I17."""
    bench = Bench()
    async with bench.with_pod() as manager:
        bench.plugin.script(Step.UNSTAGE, doubtful(happened=True))
        bench.node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        other = pod("other", scripted("disk"))
        bench.node.add_pod(other)
        await manager.wait_for_attach_and_mount(other)
        assert bench.plugin.steps()[-3:] == [Step.UNSTAGE, Step.STAGE, Step.SET_UP]


@in_virtual_time
async def test_a_device_that_is_still_in_use_is_unstaged_again_and_not_forgotten() -> None:
    """R35, I4."""
    bench = Bench()
    async with bench.with_pod() as manager:
        bench.plugin.script(Step.UNSTAGE, refused("the device is in use"), refused("the device is in use"))
        bench.node.remove_pod(WEB)
        await manager.reconciler.until_idle()
        assert bench.stage is Presence.UNCERTAIN
        await manager.wait_for_nothing_left(timeout=60)
        assert bench.plugin.count(Step.UNSTAGE) == 3


@pytest.mark.parametrize("happened", [True, False])
def test_an_attachment_that_timed_out_is_attached_again_before_it_is_staged(happened: bool) -> None:
    """I17 for attachments: doubt is no ground to stage on."""

    @in_virtual_time
    async def run() -> None:
        bench = Bench(ATTACHABLE)
        bench.plugin.script(Step.ATTACH, doubtful(happened=happened))
        async with bench.with_pod() as manager:
            assert manager.actual.volumes[DISK].attachment is Presence.UNCERTAIN
            await manager.wait_for_attach_and_mount(bench.pod)
            assert bench.plugin.steps() == [Step.ATTACH, Step.ATTACH, Step.STAGE, Step.SET_UP]
            assert bench.plugin.calls[2].device_path == "/dev/disk"

    run()


@in_virtual_time
async def test_an_attachment_that_timed_out_is_detached_when_the_pod_goes() -> None:
    bench = Bench(ATTACHABLE)
    bench.plugin.always(Step.ATTACH, doubtful(happened=True))
    async with bench.with_pod():
        await bench.remove()
        assert bench.plugin.steps()[-1] is Step.DETACH
        assert not bench.plugin.attached


@in_virtual_time
async def test_a_failed_detachment_is_tried_again_until_nothing_is_left() -> None:
    """I19: the wait for an empty node includes what no pod has any more."""
    bench = Bench(ATTACHABLE)
    async with bench.with_pod() as manager:
        bench.plugin.script(Step.DETACH, refused(), doubtful())
        await bench.remove()
        assert bench.plugin.count(Step.DETACH) == 3
        assert manager.actual.is_empty()


@in_virtual_time
async def test_a_shared_volume_is_torn_down_from_the_spec_its_own_pod_was_mounted_with() -> None:
    """Two volumes with one backing are one volume: each pod's mount lies under its own inner name."""
    bench = Bench()
    async with bench.with_pod() as manager:
        other = pod("other", scripted("alias", backing="disk"))
        uid = PodUid("uid-other")
        bench.plugin.always(Step.SET_UP, doubtful(happened=True), pod=uid)
        bench.node.add_pod(other)
        await manager.reconciler.until_idle()
        bench.node.remove_pod(uid)
        await manager.reconciler.until_idle()
        assert [call.volume for call in bench.plugin.calls if call.step is Step.TEAR_DOWN] == ["alias"]


@in_virtual_time
async def test_an_unmount_that_rests_is_not_started_earlier_because_another_pod_changes() -> None:
    bench = Bench()
    async with bench.with_pod() as manager:
        bench.plugin.always(Step.TEAR_DOWN, refused())
        bench.node.remove_pod(WEB)
        await asyncio.sleep(40)
        before = bench.plugin.count(Step.TEAR_DOWN)
        for number in range(5):
            bench.node.add_pod(pod(f"other-{number}", scripted("disk")))
            await manager.reconciler.until_idle()
        assert bench.plugin.count(Step.TEAR_DOWN) == before
        assert manager.actual.volumes[DISK].failures[WEB].attempts == before
