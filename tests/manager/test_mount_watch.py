"""A whole manager on a machine in memory whose mounts somebody else changes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mooring.errors import NotYet
from mooring.host.paths import Paths
from mooring.manager.mount_verdicts import ForeignChange
from mooring.manager.volume_manager import VolumeManager
from mooring.testing.memory_host import MemoryHost
from mooring.testing.memory_node import ROOT, MemoryNode
from mooring.testing.sample_objects import claim, claimed, empty_dir, local_volume, pod
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Change, Noticed
from mooring.world.names import PodUid, VolumeName
from mooring.world.presence import Presence

UID = PodUid("uid-web")
WEB = pod("web", empty_dir("data", memory=True))
MEMORY_PATH = Paths(ROOT).pod_volume_dir(UID, "kubernetes.io/empty-dir", "data")
LOCAL_PATH = Paths(ROOT).pod_volume_dir(UID, "kubernetes.io/local-volume", "pv-disk")
STAGE = f"{ROOT}/plugins/kubernetes.io/local-volume/mounts/pv-disk"
LOCAL = VolumeName("kubernetes.io/local-volume/pv-disk")
_LOOKED = 2.0  # seconds in which everything that changed was looked at


class Bench:
    """A node whose one pod has its volume, and what was told about it."""

    def __init__(self, *, names_mounts: bool = True) -> None:
        self.node = MemoryNode()
        self.host: MemoryHost = self.node.host
        self.host.names_mounts = names_mounts
        self.told: list[Noticed] = []

    @asynccontextmanager
    async def running(self) -> AsyncIterator[VolumeManager]:
        async with self.node.running() as manager:
            manager.subscribe(self._listen)
            yield manager

    def _listen(self, change: Change) -> None:
        if isinstance(change, Noticed):
            self.told.append(change)

    @asynccontextmanager
    async def with_memory(self) -> AsyncIterator[VolumeManager]:
        async with self.running() as manager:
            self.node.add_pod(WEB)
            await manager.wait_for_attach_and_mount(WEB)
            yield manager

    @asynccontextmanager
    async def with_disk(self) -> AsyncIterator[VolumeManager]:
        self.host.make_directories("/dev", 0o755)
        self.host.make_device("/dev/sdb", 1 << 20)
        async with self.running() as manager:
            self.node.put(local_volume("disk", "/dev/sdb"))
            self.node.put(claim("disk"))
            web = pod("web", claimed("data", "disk"))
            self.node.add_pod(web)
            await manager.wait_for_attach_and_mount(web)
            yield manager

    @property
    def reasons(self) -> list[str]:
        return [each.reason for each in self.told]


def findings(manager: VolumeManager) -> list[str]:
    return [finding.where for finding in manager.mount_watch.findings()]


@pytest.mark.parametrize("names_mounts", [True, False], ids=["named", "not named"])
def test_what_was_unmounted_is_mounted_again(names_mounts: bool) -> None:
    @in_virtual_time
    async def run() -> None:
        bench = Bench(names_mounts=names_mounts)
        async with bench.with_memory() as manager:
            bench.host.somebody.unmounts(MEMORY_PATH)
            await asyncio.sleep(_LOOKED)
            assert bench.host.mount_at(MEMORY_PATH) is not None
            assert bench.reasons == ["VolumeUnmountedExternally"]
            assert manager.mount_watch.counts[ForeignChange.UNMOUNTED] == 1
            assert findings(manager) == []

    run()


@in_virtual_time
async def test_several_losses_of_one_moment_are_looked_at_together() -> None:
    bench = Bench()
    async with bench.with_disk():
        bench.host.somebody.unmounts(LOCAL_PATH)
        bench.host.somebody.unmounts(STAGE)
        await asyncio.sleep(_LOOKED)
        assert bench.host.mount_at(LOCAL_PATH) is not None
        assert bench.host.mount_at(STAGE) is not None
        assert bench.reasons == ["VolumeUnmountedExternally"] * 2


@in_virtual_time
async def test_a_lost_stage_is_mounted_again_although_all_pods_have_the_volume() -> None:
    bench = Bench()
    async with bench.with_disk() as manager:
        bench.host.somebody.unmounts(STAGE)
        await asyncio.sleep(_LOOKED)
        assert bench.host.mount_at(STAGE) is not None
        assert manager.actual.volumes[LOCAL].stage is Presence.PRESENT


@in_virtual_time
async def test_a_pod_never_gets_the_empty_directory_below_a_lost_stage() -> None:
    bench = Bench()
    async with bench.with_disk() as manager:
        bench.host.somebody.unmounts(STAGE)
        with pytest.raises(NotYet, match="unmounted or hidden by somebody else"):
            manager.expected.refuse_lost_stage(STAGE, "cannot mount")
        second = pod("second", claimed("data", "disk"))
        bench.node.add_pod(second)
        await manager.wait_for_attach_and_mount(second)
        path = bench.node.paths.pod_volume_dir(PodUid("uid-second"), "kubernetes.io/local-volume", "pv-disk")
        mounted = bench.host.mount_at(path)
        assert mounted is not None
        assert mounted.source == "/dev/sdb"


@in_virtual_time
async def test_a_foreign_mount_on_top_blocks_the_teardown_until_it_is_gone() -> None:
    bench = Bench()
    async with bench.with_memory() as manager:
        bench.host.somebody.mounts_tmpfs(MEMORY_PATH)
        await asyncio.sleep(_LOOKED)
        assert findings(manager) == [MEMORY_PATH]
        bench.node.remove_pod(UID)
        await asyncio.sleep(_LOOKED)
        [held] = manager.actual.volumes.values()
        assert "somebody else mounted that" in held.failures[UID].why
        assert len(bench.host.mounts()) == 3
        bench.host.somebody.unmounts(MEMORY_PATH)
        await manager.wait_for_uid_unmount(UID, timeout=_LOOKED)
        assert len(bench.host.mounts()) == 1
        assert findings(manager) == []


@in_virtual_time
async def test_a_double_mount_is_taken_away_and_the_volume_keeps_its_content() -> None:
    bench = Bench()
    async with bench.with_memory() as manager:
        bench.host.create_file(f"{MEMORY_PATH}/kept", 0o644)
        bench.host.somebody.binds(MEMORY_PATH, MEMORY_PATH)
        await asyncio.sleep(_LOOKED)
        assert len(bench.host.mounts()) == 2
        assert bench.host.names_in(MEMORY_PATH) == ["kept"]
        assert findings(manager) == []
        assert bench.reasons == ["VolumeMountedTwice"]


@in_virtual_time
async def test_a_volume_that_was_remounted_read_only_is_made_writable_a_few_times_and_then_it_is_a_finding() -> None:
    bench = Bench()
    async with bench.with_memory() as manager:
        for _ in range(5):
            bench.host.somebody.remounts_read_only(MEMORY_PATH)
            await asyncio.sleep(_LOOKED)
            mounted = bench.host.mount_at(MEMORY_PATH)
            assert mounted is not None
            assert mounted.options[0] == "rw"
            assert findings(manager) == []
        bench.host.somebody.remounts_read_only(MEMORY_PATH)
        await asyncio.sleep(_LOOKED)
        assert findings(manager) == [MEMORY_PATH]


@in_virtual_time
async def test_a_disk_that_fails_is_found_by_the_slow_look_although_no_event_tells() -> None:
    bench = Bench()
    async with bench.with_disk() as manager:
        await asyncio.sleep(_LOOKED)
        bench.host.somebody.watchers.clear()
        bench.host.somebody.remounts_read_only(STAGE, file_system=True)
        await asyncio.sleep(manager.settings.resync_interval + _LOOKED)
        assert findings(manager) == [STAGE, LOCAL_PATH]
        assert set(bench.reasons) == {"VolumeFileSystemReadOnly"}


@in_virtual_time
async def test_what_nobody_wants_any_more_raises_no_event_when_it_is_unmounted() -> None:
    bench = Bench()
    async with bench.with_memory() as manager:
        manager.containers_changed(UID, "the container main")
        bench.node.remove_pod(UID)
        bench.host.somebody.unmounts(MEMORY_PATH)
        await asyncio.sleep(_LOOKED)
        assert bench.told == []


@in_virtual_time
async def test_a_volume_that_is_being_worked_on_is_looked_at_afterwards() -> None:
    bench = Bench()
    async with bench.with_memory() as manager:
        with manager.expected.preparing(UID):
            bench.host.somebody.unmounts(MEMORY_PATH)
            await asyncio.sleep(_LOOKED)
            assert bench.told == []
        await asyncio.sleep(_LOOKED)
        assert bench.reasons == ["VolumeUnmountedExternally"]


@in_virtual_time
async def test_a_full_mount_table_is_named_as_such_and_told_in_advance() -> None:
    bench = Bench()
    bench.host.limit_mounts(2)
    async with bench.with_memory() as manager:
        second = pod("second", empty_dir("data", memory=True))
        bench.node.add_pod(second)
        await asyncio.sleep(_LOOKED)
        [failed] = [volume for volume in manager.actual.volumes.values() if volume.failures]
        [failure] = failed.failures.values()
        assert "the mount table of this namespace is full (fs.mount-max=" in failure.why
        assert "sysctl fs.mount-max" in failure.next_step
        bench.host.somebody.remounts_read_only(MEMORY_PATH)
        await asyncio.sleep(_LOOKED)
        assert [finding.kind for finding in manager.mount_watch.findings()] == ["mount-table"]


@in_virtual_time
async def test_what_mooring_itself_does_is_never_taken_for_somebody_else_s_work() -> None:
    bench = Bench(names_mounts=False)
    bench.host.make_directories("/elsewhere", 0o755)
    async with bench.with_memory() as manager:
        for number in range(20):
            other = pod(f"other-{number}", empty_dir("data", memory=True), empty_dir("disk"))
            uid = bench.node.add_pod(other)
            await manager.wait_for_attach_and_mount(other)
            bench.host.somebody.mounts_tmpfs("/elsewhere")  # now all mounts are looked at
            await asyncio.sleep(0.05)
            bench.node.remove_pod(uid)
            await manager.wait_for_uid_unmount(uid)
        await asyncio.sleep(_LOOKED)
        assert bench.told == []
        assert manager.mount_watch.counts == dict.fromkeys(ForeignChange, 0)
