"""News of mounts from the real kernel, by fanotify and by a poll, and what a full mount table looks like."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from mooring.host import features, syscalls
from mooring.host.features import Tier
from mooring.host.linux import LinuxHost
from mooring.host.mount_events import MountEvents, MountNews
from mooring.host.mount_limits import MountTableFull, most_mounts
from mooring.testing.conformance.host_mount_watch import HostMountWatchConformance

pytestmark = pytest.mark.node


@dataclass(frozen=True, slots=True)
class Watched:
    """A machine, and the news that it has of its mounts."""

    host: LinuxHost
    events: MountEvents
    announced: asyncio.Event

    async def news(self) -> MountNews:
        async with asyncio.timeout(10):
            await self.announced.wait()
        self.announced.clear()
        return self.events.take()


@asynccontextmanager
async def watched(*, fanotify: bool) -> AsyncIterator[Watched]:
    probed = features.probe()
    if fanotify and not probed.mount_events:
        pytest.skip("this kernel has no events of mounts")
    host = LinuxHost(features=replace(probed, mount_events=fanotify))
    announced = asyncio.Event()
    events = host.watch_mounts(announced.set)
    try:
        yield Watched(host, events, announced)
    finally:
        events.close()
        host.close()


def run(*command: str) -> None:
    """As another process than this one."""
    subprocess.run(command, check=True)


def directory(path: str) -> str:
    os.mkdir(path)
    return path


async def test_mounts_of_other_processes_are_named_when_they_come_and_go(node_root: str) -> None:
    path = directory(f"{node_root}/m")
    async with watched(fanotify=True) as machine:
        run("mount", "-t", "tmpfs", "x", path)
        identity = machine.host.mount_id_at(path)
        assert identity is not None
        assert (await machine.news()).attached == (identity,)
        run("umount", path)
        assert (await machine.news()).detached == (identity,)


async def test_a_mount_that_is_moved_comes_and_goes(node_root: str) -> None:
    path, elsewhere = directory(f"{node_root}/m"), directory(f"{node_root}/n")
    run("mount", "-t", "tmpfs", "x", path)
    async with watched(fanotify=True) as machine:
        identity = machine.host.mount_id_at(path)
        run("mount", "--move", path, elsewhere)
        news = await machine.news()
        assert news.attached == news.detached == (identity,)


async def test_mounts_of_this_process_are_not_told(node_root: str) -> None:
    path = directory(f"{node_root}/m")
    async with watched(fanotify=True) as machine:
        machine.host.mount_tmpfs(path)
        news = await machine.news()
        assert (news.attached, news.detached, news.everything) == ((), (), False)


async def test_changed_flags_are_a_reason_to_look_at_everything(node_root: str) -> None:
    path = directory(f"{node_root}/m")
    run("mount", "-t", "tmpfs", "x", path)
    async with watched(fanotify=True) as machine:
        run("mount", "-o", "remount,bind,ro", path)
        assert await machine.news() == MountNews(everything=True)


async def test_flags_that_change_among_other_things_are_not_forgotten(node_root: str) -> None:
    path = directory(f"{node_root}/m")
    async with watched(fanotify=True) as machine:
        run("mount", "-t", "tmpfs", "x", path)
        run("mount", "-o", "remount,bind,ro", path)
        assert (await machine.news()).flags_unseen


async def test_more_events_than_the_kernel_keeps_are_a_reason_to_look_at_everything(node_root: str) -> None:
    path = directory(f"{node_root}/m")
    async with watched(fanotify=True) as machine:
        for _ in range(9000):  # two events each, and 16,384 are kept
            machine.host.mount_tmpfs(path)
            machine.host.unmount(path)
        assert (await machine.news()).everything


async def test_a_poll_only_tells_that_something_changed(node_root: str) -> None:
    path = directory(f"{node_root}/m")
    async with watched(fanotify=False) as machine:
        for command in (
            ("mount", "-t", "tmpfs", "x", path),
            ("mount", "-o", "remount,bind,ro", path),
            ("umount", path),
        ):
            run(*command)
            assert await machine.news() == MountNews(everything=True)


@pytest.mark.parametrize("fanotify", [True, False])
async def test_nothing_is_announced_while_nothing_changes(node_root: str, fanotify: bool) -> None:
    path = directory(f"{node_root}/m")
    async with watched(fanotify=fanotify) as machine:
        run("mount", "-t", "tmpfs", "x", path)
        await machine.news()
        for _ in range(200):
            await asyncio.sleep(0)
        assert not machine.announced.is_set()


class TestLinuxMountsById(HostMountWatchConformance):
    @pytest.fixture(params=list(Tier))
    def host(self, request: pytest.FixtureRequest, node_root: str) -> Iterator[LinuxHost]:
        host = LinuxHost(features=features.probe().limited_to(request.param))
        yield host
        host.close()

    @pytest.fixture
    def place(self, node_root: str) -> str:
        return node_root


def test_a_mount_table_that_is_full_is_named_as_such(node_root: str) -> None:
    source = directory(f"{node_root}/full")
    host = LinuxHost()
    host.mount_tmpfs(source)
    try:
        with pytest.raises(MountTableFull, match="the mount table of this namespace is full") as caught:
            double_until_refused(host, source)
        assert f"fs.mount-max={most_mounts()}" in str(caught.value)
        assert caught.value.filename.startswith(source)
    finally:
        syscalls.umount2(source, syscalls.MNT_DETACH)
        host.close()


def double_until_refused(host: LinuxHost, source: str) -> None:
    """Each recursive bind of a tree onto one of its own directories doubles the number of its mounts."""
    for number in range(32):
        host.bind(source, directory(f"{source}/{number}"), recursive=True)
