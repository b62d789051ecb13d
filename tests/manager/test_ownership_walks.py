"""Volumes that are given to a pod's group under a whole manager: how far it is, who hears of it, and when it ends."""

from __future__ import annotations

import asyncio

import pytest
from msgspec.structs import replace

from mooring.host.interface import NewFile
from mooring.kube.objects.pod import Pod, PodSecurityContext
from mooring.manager.waits import NotMounted
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import claim, claimed, local_volume, pod
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Change, Noticed, Owned
from mooring.world.names import PodUid, VolumeName
from mooring.world.pod_facts import FS_GROUP_ANNOTATION

DATA = VolumeName("kubernetes.io/local-volume/pv-c")
ONE = PodUid("uid-one")
FILES = 99


def node_with_files() -> MemoryNode:
    """A node with a directory of a hundred entries as a volume, and a claim `c` bound to it."""
    node = MemoryNode()
    node.host.make_directories("/srv/data", 0o755)
    node.host.write_files("/srv/data", [NewFile(path=f"f{n}", data=b"", mode=0o600) for n in range(FILES)])
    node.put(local_volume("c", "/srv/data"))
    node.put(claim("c"))
    return node


def grouped(name: str, *, group: int = 2000, policy: str | None = None, asks: str | None = None) -> Pod:
    security = PodSecurityContext(fs_group=group, fs_group_change_policy=policy)
    made = pod(name, claimed("data", "c"), security=security)
    if asks is None:
        return made
    return replace(made, metadata=replace(made.metadata, annotations={FS_GROUP_ANNOTATION: asks}))


def told(node: MemoryNode) -> list[Change]:
    changes: list[Change] = []
    node.manager.subscribe(changes.append)
    return changes


def group_of(node: MemoryNode, path: str) -> int:
    facts = node.host.look(path)
    assert facts is not None
    return facts.gid


@in_virtual_time
async def test_progress_is_there_while_files_are_walked_and_gone_afterwards() -> None:
    node = node_with_files()
    node.host.seconds_per_owned_entry = 1.0
    async with node.running() as manager:
        node.add_pod(grouped("one"))
        await asyncio.sleep(50.5)
        progress = manager.walks.progress(DATA, ONE)
        assert progress is not None
        assert (progress.group, progress.visited, progress.expected) == (2000, 51, None)
        assert manager.walks.under_way() == 1
        assert manager.walks.totals().changed == 51
        await manager.wait_for_attach_and_mount(grouped("one"))
        assert manager.walks.progress(DATA, ONE) is None
        assert manager.walks.totals().visited == FILES + 1


@in_virtual_time
async def test_a_slow_walk_is_told_after_half_a_minute_and_then_every_minute() -> None:
    node = node_with_files()
    node.host.seconds_per_owned_entry = 1.0
    async with node.running() as manager:
        changes = told(node)
        node.add_pod(grouped("one"))
        await manager.wait_for_attach_and_mount(grouped("one"))
        notices = [change for change in changes if isinstance(change, Noticed)]
        path = "uid-one/volumes/kubernetes.io~local-volume/pv-c"
        assert [notice.message for notice in notices] == [
            f"Setting volume ownership for {path} is taking longer than expected, consider using OnRootMismatch",
            f"Setting volume ownership for {path}, processed 90 files.",
        ]
        assert {(notice.reason, notice.warning) for notice in notices} == {("VolumePermissionChangeInProgress", True)}


@in_virtual_time
async def test_a_fast_walk_is_told_of_once_when_it_has_ended() -> None:
    node = node_with_files()
    async with node.running() as manager:
        changes = told(node)
        node.add_pod(grouped("one"))
        await manager.wait_for_attach_and_mount(grouped("one"))
        await asyncio.sleep(600)
        assert [change for change in changes if isinstance(change, Noticed)] == []
        (owned,) = (change for change in changes if isinstance(change, Owned))
        assert (owned.complete, owned.progress.visited, owned.progress.changed) == (True, FILES + 1, FILES + 1)


@in_virtual_time
async def test_a_walk_ends_soon_when_its_pod_goes() -> None:
    node = node_with_files()
    node.host.seconds_per_owned_entry = 1.0
    async with node.running() as manager:
        changes = told(node)
        uid = node.add_pod(grouped("one"))
        await asyncio.sleep(10.5)
        node.remove_pod(uid)
        await manager.wait_for_nothing_left(timeout=5)
        (owned,) = (change for change in changes if isinstance(change, Owned))
        assert (owned.complete, owned.progress.visited) == (False, 11)
        assert group_of(node, "/srv/data") == 0


@in_virtual_time
async def test_the_count_of_an_earlier_walk_is_the_estimate_of_the_next() -> None:
    node = node_with_files()
    async with node.running() as manager:
        uid = node.add_pod(grouped("one"))
        await manager.wait_for_attach_and_mount(grouped("one"))
        node.remove_pod(uid)
        await manager.wait_for_nothing_left(timeout=5)
        node.host.seconds_per_owned_entry = 1.0
        node.add_pod(grouped("one", group=3000))
        await asyncio.sleep(10.5)
        progress = manager.walks.progress(DATA, ONE)
        assert progress is not None
        assert (progress.expected, progress.visited) == (FILES + 1, 11)


@in_virtual_time
async def test_a_trusted_root_that_is_right_spares_the_walk_under_always() -> None:
    node = node_with_files()
    async with node.running() as manager:
        changes = told(node)
        for name, asks in (("one", None), ("two", "trust-root"), ("three", None)):
            each = grouped(name, policy="Always", asks=asks)
            uid = node.add_pod(each)
            await manager.wait_for_attach_and_mount(each)
            node.remove_pod(uid)
            await manager.wait_for_nothing_left(timeout=5)
        walked = [change.pod.metadata.name for change in changes if isinstance(change, Owned)]
        assert walked == ["one", "three"]


@in_virtual_time
async def test_a_trusted_root_that_is_wrong_is_walked() -> None:
    node = node_with_files()
    async with node.running() as manager:
        each = grouped("one", policy="Always", asks="trust-root")
        node.add_pod(each)
        await manager.wait_for_attach_and_mount(each)
        assert group_of(node, "/srv/data/f0") == 2000


@in_virtual_time
async def test_an_unknown_wish_is_refused_with_the_known_ones() -> None:
    node = node_with_files()
    async with node.running() as manager:
        each = grouped("one", asks="trust")
        node.add_pod(each)
        with pytest.raises(NotMounted):
            await manager.wait_for_attach_and_mount(each, timeout=1)
        failure = manager.actual.volumes[DATA].failures[ONE]
        assert failure.why == "its value 'trust' is not known"
        assert failure.next_step == "Write 'trust-root' or 'idmapped', or take it away"
        assert group_of(node, "/srv/data/f0") == 0


@in_virtual_time
async def test_an_idmapped_volume_shows_the_group_and_changes_no_file() -> None:
    node = node_with_files()
    before = node.host.snapshot("/srv").entries
    async with node.running() as manager:
        each = grouped("one", asks="idmapped")
        uid = node.add_pod(each)
        await manager.wait_for_attach_and_mount(each)
        path = manager.get_mounted_volumes_for_pod(uid)["data"].path
        assert (group_of(node, path), group_of(node, f"{path}/f0")) == (2000, 2000)
        assert node.host.snapshot("/srv").entries == before
        node.remove_pod(uid)
        await manager.wait_for_nothing_left(timeout=5)


@in_virtual_time
async def test_an_idmapped_volume_is_refused_where_the_file_system_has_none() -> None:
    node = node_with_files()
    node.host.swaps_groups = False
    async with node.running() as manager:
        each = grouped("one", asks="idmapped")
        uid = node.add_pod(each)
        with pytest.raises(NotMounted):
            await manager.wait_for_attach_and_mount(each, timeout=1)
        assert manager.actual.volumes[DATA].failures[ONE].why == "its file system has no idmapped mounts"
        assert group_of(node, "/srv/data/f0") == 0
        node.remove_pod(uid)
        await manager.wait_for_nothing_left(timeout=5)


@in_virtual_time
async def test_a_second_pod_with_another_group_is_warned() -> None:
    node = node_with_files()
    async with node.running() as manager:
        changes = told(node)
        for each in (grouped("one"), grouped("two", group=7)):
            node.add_pod(each)
            await manager.wait_for_attach_and_mount(each)
        (notice,) = (change for change in changes if isinstance(change, Noticed))
        assert (notice.reason, notice.warning, notice.pod.metadata.name) == ("AlreadyMountedVolume", True, "two")
        assert "fsGroup is 7" in notice.message
        assert "belongs to group 2000" in notice.message
