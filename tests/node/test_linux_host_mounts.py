"""`LinuxHost` mounts as every host does, on each tier of kernel features."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator

import pytest

from mooring.host import features
from mooring.host.features import Tier
from mooring.host.interface import Host
from mooring.host.linux import LinuxHost
from mooring.host.mount_table import MountWatcher
from mooring.host.ownership_calls import Ownership
from mooring.testing.conformance.host import HostConformance
from mooring.testing.conformance.host_mounts import HostMountsConformance, mount_at, tmpfs
from mooring.testing.conformance.host_storage import HostHugePagesConformance, HostStorageConformance
from mooring.testing.conformance.host_trees import HostTreesConformance

pytestmark = pytest.mark.node


@pytest.fixture(params=list(Tier), ids=lambda tier: tier.name.lower())
def host(request: pytest.FixtureRequest, node_root: str) -> Iterator[LinuxHost]:
    host = LinuxHost(features=features.probe().limited_to(request.param))
    yield host
    host.close()


class TestLinuxHost(HostConformance, HostTreesConformance, HostMountsConformance):
    @pytest.fixture
    def place(self, node_root: str) -> str:
        return node_root

    @pytest.fixture
    def group(self) -> int:
        return 1234

    @pytest.fixture
    def owner(self) -> int:
        return 5678


def test_a_mount_with_an_open_file_is_busy(host: Host, node_root: str) -> None:
    path = tmpfs(host, f"{node_root}/m")
    with open(f"{path}/file", "wb"), pytest.raises(OSError, match="busy"):
        host.unmount(path)
    host.unmount(path)
    assert host.mount_at(path) is None


def test_a_read_only_bind_keeps_the_flags_of_its_source(host: Host, node_root: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "nosuid,nodev,noexec,noatime", "flags", node_root], check=True)
    for name in ("source", "target"):
        host.make_directory(f"{node_root}/{name}", 0o755)
    host.bind(f"{node_root}/source", f"{node_root}/target", read_only=True)
    options = mount_at(host, f"{node_root}/target").options
    assert options[:5] == ("ro", "nosuid", "nodev", "noexec", "noatime")


def test_all_tiers_see_equal_facts(node_root: str) -> None:
    probed = features.probe()
    hosts = [LinuxHost(features=probed.limited_to(tier)) for tier in Tier]
    tmpfs(hosts[0], f"{node_root}/m", size=1 << 20)
    hosts[0].make_directory(f"{node_root}/b", 0o755)
    hosts[0].bind(f"{node_root}/m", f"{node_root}/b", read_only=True)

    def facts(host: Host, path: str) -> tuple[object, ...]:
        mount = mount_at(host, path)
        return mount.path, mount.root, mount.device, mount.fs_type, mount.source, mount.options, mount.propagation

    for path in ("/", "/proc", f"{node_root}/m", f"{node_root}/b"):
        assert len({facts(host, path) for host in hosts}) == 1
    assert len({tuple(mount.path for mount in host.mounts()) for host in hosts}) == 1
    for host in hosts:
        host.close()


def test_a_tmpfs_has_the_options_that_mount_8_gives_it(host: Host, node_root: str) -> None:
    host.make_directories(f"{node_root}/theirs", 0o755)
    noswap = ",noswap" if features.probe().tmpfs_without_swap else ""
    options = f"size=1048576{noswap}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", f"{node_root}/theirs"], check=True)
    ours = mount_at(host, tmpfs(host, f"{node_root}/ours", size=1 << 20))
    theirs = mount_at(host, f"{node_root}/theirs")
    assert (ours.options, ours.fs_type, ours.source) == (theirs.options, theirs.fs_type, theirs.source)


def test_ownership_reports_what_it_may_not_change(host: Host, node_root: str) -> None:
    host.make_directories(f"{node_root}/source", 0o755)
    host.make_directories(f"{node_root}/target", 0o755)
    host.create_file(f"{node_root}/source/file", 0o600)
    host.bind(f"{node_root}/source", f"{node_root}/target", read_only=True)
    report = host.set_ownership(f"{node_root}/target", Ownership(gid=7, file_mask=0o060, directory_mask=0o070))
    assert (report.visited, report.changed, report.failed) == (2, 0, 1)  # the root is then left alone
    assert report.errors[0] == f"{node_root}/target/file: Read-only file system"


def test_ids_are_not_used_again_where_the_kernel_offers_that(node_root: str) -> None:
    host = LinuxHost()
    if host.features.tier is not Tier.IDENTIFIED:
        pytest.skip("this kernel uses ids again")
    first = mount_at(host, tmpfs(host, f"{node_root}/m"))
    host.unmount(f"{node_root}/m")
    assert mount_at(host, tmpfs(host, f"{node_root}/m")).id != first.id


async def test_each_change_of_the_mount_table_wakes_the_watcher(host: Host, node_root: str) -> None:
    woken = asyncio.Event()
    watcher = MountWatcher(woken.set)
    loop = asyncio.get_running_loop()
    loop.add_reader(watcher.fileno(), watcher.ready)
    try:
        for change in (lambda: tmpfs(host, f"{node_root}/m"), lambda: host.unmount(f"{node_root}/m")) * 3:
            woken.clear()
            change()
            async with asyncio.timeout(10):
                await woken.wait()
    finally:
        loop.remove_reader(watcher.fileno())
        watcher.close()


async def test_the_watcher_sleeps_while_nothing_changes(node_root: str) -> None:
    woken = 0

    def count() -> None:
        nonlocal woken
        woken += 1

    host = LinuxHost()
    watcher = MountWatcher(count)
    loop = asyncio.get_running_loop()
    loop.add_reader(watcher.fileno(), watcher.ready)
    tmpfs(host, f"{node_root}/m")
    for _ in range(200):
        await asyncio.sleep(0)
    loop.remove_reader(watcher.fileno())
    watcher.close()
    assert woken == 1


def test_thousands_of_mounts_are_all_listed_once(host: Host, node_root: str) -> None:
    paths = [tmpfs(host, f"{node_root}/{number}") for number in range(2100)]
    listed = [mount.path for mount in host.mounts() if mount.path.startswith(f"{node_root}/")]
    assert sorted(listed) == sorted(paths)


class TestLinuxStorage(HostStorageConformance, HostHugePagesConformance):
    @pytest.fixture
    def place(self, node_root: str) -> str:
        return node_root
