"""Giving real trees on a real ext4 to a group, while others swap, delete and mount; and mounts that need no walk."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from mooring.host import features, idmaps, ownership
from mooring.host.features import Tier
from mooring.host.linux import LinuxHost
from mooring.host.ownership_calls import GroupSwap, Ownership, OwnershipReport, OwnershipWalk
from mooring.host.programs import find_program
from mooring.testing.conformance.host_group_swaps import SWAP, HostGroupSwapsConformance

pytestmark = pytest.mark.node

WANTED = Ownership(gid=2000, file_mask=0o660, directory_mask=0o2770)
TIERS = [features.probe().limited_to(tier) for tier in Tier]
IDS = [tier.name.lower() for tier in Tier]


class Patient(OwnershipWalk):
    """A walk that goes slowly until processes have taken it over, however small the tree is."""

    def __init__(self) -> None:
        super().__init__(clock=time.monotonic)

    def count(self, visited: int, changed: int, failed: int) -> None:
        super().count(visited, changed, failed)
        if not self.processes:
            time.sleep(0.01)


@pytest.fixture
def disk(node_root: str) -> Iterator[str]:
    """A directory on an ext4 of its own."""
    if find_program("mkfs.ext4") is None:
        pytest.skip("needs the program mkfs.ext4")
    image, place = f"{node_root}/image", f"{node_root}/disk"
    with open(image, "wb") as file:
        file.truncate(64 * 2**20)
    os.mkdir(place)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-N", "40000", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, place], check=True)  # detached with its mount
    yield place
    subprocess.run(["umount", "--recursive", place], check=True)


def fill(root: str, *, directories: int = 40, files: int = 50) -> int:
    for number in range(directories):
        os.mkdir(f"{root}/d{number}", 0o700)
        for name in range(files):
            os.close(os.open(f"{root}/d{number}/f{name}", os.O_CREAT | os.O_WRONLY, 0o600))
    return directories * (1 + files)


def share(root: str, kernel: features.KernelFeatures = TIERS[0]) -> OwnershipReport:
    walk = Patient()
    report = ownership.own_tree(root, WANTED, kernel, walk, large=1, workers=2)
    assert walk.processes
    return report


def facts(path: str) -> tuple[int, int]:
    found = os.lstat(path)
    return found.st_gid, stat.S_IMODE(found.st_mode)


@contextmanager
def meanwhile(*work: object) -> Iterator[None]:
    """Run a function again and again beside the block."""
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            for each in work:
                assert callable(each)
                each()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.mark.parametrize("kernel", TIERS, ids=IDS)
def test_directories_swapped_for_links_lead_nobody_out_of_the_tree(kernel: features.KernelFeatures, disk: str) -> None:
    os.mkdir(f"{disk}/v")
    os.mkdir(f"{disk}/outside", 0o700)
    fill(f"{disk}/outside", directories=2, files=5)
    fill(f"{disk}/v")
    os.symlink("../outside", f"{disk}/link")
    numbers = iter(range(10**9))

    def swap() -> None:
        name = f"{disk}/v/d{next(numbers) % 40}"
        os.rename(name, f"{disk}/away")
        os.rename(f"{disk}/link", name)
        os.rename(name, f"{disk}/link")
        os.rename(f"{disk}/away", name)

    with meanwhile(swap), suppress(OSError):  # a directory that was moved away ends a walk; it is done again
        share(f"{disk}/v", kernel)
    inside = [f"{disk}/outside", *(entry.path for entry in os.scandir(f"{disk}/outside"))]
    assert {facts(path) for path in inside} == {(0, 0o700)}
    share(f"{disk}/v", kernel)
    assert facts(f"{disk}/v/d0/f0") == (2000, 0o660)


def test_files_that_vanish_during_the_walk_are_no_failure(disk: str) -> None:
    os.mkdir(f"{disk}/v")
    fill(f"{disk}/v")
    numbers = iter(range(10**9))

    def delete() -> None:
        number = next(numbers)
        path = f"{disk}/v/d{number % 40}/f{number // 40 % 50}"
        with suppress(FileNotFoundError):
            os.unlink(path)

    with meanwhile(delete):
        report = share(f"{disk}/v")
    assert report.failed == 0
    assert facts(f"{disk}/v") == (2000, 0o2775)


@pytest.mark.parametrize("kernel", TIERS, ids=IDS)
def test_what_is_mounted_inside_stays_as_it_is(kernel: features.KernelFeatures, disk: str) -> None:
    os.mkdir(f"{disk}/v")
    fill(f"{disk}/v")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=700", "inner", f"{disk}/v/d0"], check=True)
    os.close(os.open(f"{disk}/secret", os.O_CREAT | os.O_WRONLY, 0o600))
    subprocess.run(["mount", "--bind", f"{disk}/secret", f"{disk}/v/d1/f0"], check=True)
    report = share(f"{disk}/v", kernel)
    assert report.failed == 0
    assert (facts(f"{disk}/v/d0"), facts(f"{disk}/secret")) == ((0, 0o700), (0, 0o600))
    assert facts(f"{disk}/v/d1/f1") == (2000, 0o660)


def test_a_setuid_file_with_names_in_many_directories_keeps_its_bits(disk: str) -> None:
    os.mkdir(f"{disk}/v")
    fill(f"{disk}/v", files=5)
    os.close(os.open(f"{disk}/v/tool", os.O_CREAT | os.O_WRONLY, 0o755))
    os.chmod(f"{disk}/v/tool", 0o6755)
    for number in range(40):
        for name in range(50):
            os.link(f"{disk}/v/tool", f"{disk}/v/d{number}/tool{name}")
    report = share(f"{disk}/v")
    assert report.changed == 1 + 40 * 6 + 1
    assert facts(f"{disk}/v/tool") == (2000, 0o6775)


async def test_a_whole_file_system_tells_about_how_many_files_it_holds(disk: str) -> None:
    entries = 1 + fill(disk)
    walk = OwnershipWalk(clock=time.monotonic)
    report = await LinuxHost().own_tree(disk, WANTED, walk)
    assert report.visited == entries + 1  # lost+found
    assert walk.expected is not None
    assert entries <= walk.expected <= entries + 20  # ext4 keeps a few for itself


async def test_a_directory_of_a_file_system_tells_nothing(disk: str) -> None:
    os.mkdir(f"{disk}/v")
    walk = OwnershipWalk(clock=time.monotonic)
    await LinuxHost().own_tree(f"{disk}/v", WANTED, walk)
    assert walk.expected is None


class TestGroupSwaps(HostGroupSwapsConformance):
    @pytest.fixture(params=[Tier.IDENTIFIED, Tier.DETACHED], ids=["identified", "detached"])
    def host(self, request: pytest.FixtureRequest, node_root: str) -> Iterator[LinuxHost]:
        host = LinuxHost(features=features.probe().limited_to(request.param))
        yield host
        host.close()

    @pytest.fixture
    def place(self, disk: str) -> str:
        return disk


def test_what_a_pod_makes_in_a_swapped_mount_belongs_to_the_group_on_the_disk(disk: str) -> None:
    for name in ("source", "target"):
        os.mkdir(f"{disk}/{name}")
    os.chown(f"{disk}/source", -1, SWAP.on_disk)
    os.chmod(f"{disk}/source", 0o775)
    LinuxHost().bind_swapped(f"{disk}/source", f"{disk}/target", SWAP)
    subprocess.run(["touch", "new"], check=True, cwd=f"{disk}/target", user=1000, group=SWAP.shown, extra_groups=[])
    assert facts(f"{disk}/target/new")[0] == SWAP.shown
    assert facts(f"{disk}/source/new")[0] == SWAP.on_disk


def test_a_kernel_without_idmapped_mounts_says_so(disk: str) -> None:
    host = LinuxHost(features=features.probe().limited_to(Tier.CLASSIC))
    with pytest.raises(OSError, match="no idmapped mounts") as caught:
        host.bind_swapped(disk, disk, SWAP)
    assert caught.value.errno == errno.EOPNOTSUPP


def test_a_file_system_without_idmapped_mounts_says_so(node_root: str) -> None:
    os.mkdir(f"{node_root}/target")
    with pytest.raises(OSError, match="Invalid argument") as caught:
        LinuxHost().bind_swapped("/proc", f"{node_root}/target", SWAP)
    assert caught.value.errno == errno.EINVAL


def test_a_map_swaps_two_groups_and_leaves_all_others() -> None:
    lines = list(idmaps.map_lines(GroupSwap(on_disk=5, shown=0)))
    assert lines == ["0 5 1", "1 1 4", "5 0 1", "6 6 4294967289"]
