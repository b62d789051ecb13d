"""Large trees are shared among processes; what they leave behind is what one walk would have left."""

from __future__ import annotations

import asyncio
import errno
import os
import select
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from mooring.errors import Doubtful
from mooring.host import features, ownership
from mooring.host.features import KernelFeatures, Tier
from mooring.host.linux import LinuxHost
from mooring.host.ownership_calls import Ownership, OwnershipReport, OwnershipWalk
from mooring.host.ownership_worker import pack, unpack

TIERS = [features.probe().limited_to(tier) for tier in Tier]
IDS = [tier.name.lower() for tier in Tier]
WANTED = Ownership(gid=os.getegid(), file_mask=0o060, directory_mask=0o2070)


def make_tree(root: Path, *, directories: int, files: int) -> int:
    """Make a tree of two levels, and return how many entries it has."""
    root.mkdir(mode=0o700)
    for number in range(directories):
        inner = root / f"d{number}"
        inner.mkdir(mode=0o700)
        for name in range(files):
            (inner / f"f{name}").touch(mode=0o600)
    return 1 + directories * (1 + files)


def modes(root: Path) -> set[int]:
    """All modes below and including a directory."""
    found = {stat.S_IMODE(os.lstat(root).st_mode)}
    for above, directories, files in os.walk(root):
        found |= {stat.S_IMODE(os.lstat(f"{above}/{name}").st_mode) for name in (*directories, *files)}
    return found


class Patient(OwnershipWalk):
    """A walk that goes slowly until processes have taken it over, however small the tree is."""

    def __init__(self) -> None:
        super().__init__(clock=time.monotonic)

    def count(self, visited: int, changed: int, failed: int) -> None:
        super().count(visited, changed, failed)
        if not self.processes:
            time.sleep(0.01)


def share(root: Path, *, walk: OwnershipWalk | None = None, kernel: KernelFeatures = TIERS[0]) -> OwnershipReport:
    """Walk a tree that counts as large from its first entry on, with two processes."""
    chosen = walk if walk is not None else Patient()
    report = ownership.own_tree(str(root), WANTED, kernel, chosen, large=1, workers=2)
    assert len(chosen.processes) == 2
    return report


def children_of(process: int) -> list[int]:
    found: list[int] = []
    for thread in os.listdir(f"/proc/{process}/task"):
        found += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text().split())
    return found


class Stopping(Patient):
    def share(self, processes: Sequence[int]) -> None:
        super().share(processes)
        self.stop()


class Killing(Patient):
    """Loses a process as soon as it is shared."""

    def share(self, processes: Sequence[int]) -> None:
        super().share(processes)
        os.kill(processes[0], signal.SIGKILL)


@pytest.mark.parametrize("kernel", TIERS, ids=IDS)
def test_a_shared_tree_gets_what_a_walk_alone_would_give_it(kernel: KernelFeatures, tmp_path: Path) -> None:
    entries = make_tree(tmp_path / "v", directories=30, files=80)
    report = share(tmp_path / "v", kernel=kernel)
    assert (report.visited, report.changed, report.failed) == (entries, entries, 0)
    assert modes(tmp_path / "v") == {0o660, 0o2770}


def test_a_second_walk_changes_nothing(tmp_path: Path) -> None:
    entries = make_tree(tmp_path / "v", directories=20, files=100)
    share(tmp_path / "v")
    report = share(tmp_path / "v")
    assert (report.visited, report.changed) == (entries, 0)


def test_one_directory_with_very_many_files_is_shared_by_names(tmp_path: Path) -> None:
    entries = make_tree(tmp_path / "v", directories=1, files=6_000)
    report = share(tmp_path / "v")
    assert (report.visited, report.changed) == (entries, entries)
    assert modes(tmp_path / "v") == {0o660, 0o2770}


def test_a_tree_of_three_thousand_levels_is_walked_to_its_ground(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir(mode=0o700)
    here = os.open(tmp_path / "v", os.O_RDONLY)
    for _ in range(3000):
        for name in ("deep", "beside"):
            os.mkdir(name, 0o700, dir_fd=here)
        below = os.open("deep", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    report = share(tmp_path / "v")
    deepest = stat.S_IMODE(os.fstat(here).st_mode)
    os.close(here)
    LinuxHost().remove_tree(str(tmp_path / "v"))
    assert (report.visited, report.changed, report.failed) == (6001, 6001, 0)
    assert deepest == 0o2770


def test_a_stopped_walk_ends_soon_and_leaves_the_root_as_it_was(tmp_path: Path) -> None:
    make_tree(tmp_path / "v", directories=30, files=80)
    with pytest.raises(OSError, match="stopped") as caught:
        share(tmp_path / "v", walk=Stopping())
    assert caught.value.errno == errno.ECANCELED
    assert stat.S_IMODE(os.lstat(tmp_path / "v").st_mode) == 0o700
    assert children_of(os.getpid()) == []


def test_a_killed_process_ends_the_walk_and_the_next_one_does_the_rest(tmp_path: Path) -> None:
    entries = make_tree(tmp_path / "v", directories=30, files=80)
    walk = Killing()
    with pytest.raises(OSError, match=r"ended before its time \(killed by SIGKILL\)"):
        share(tmp_path / "v", walk=walk)
    assert stat.S_IMODE(os.lstat(tmp_path / "v").st_mode) == 0o700
    report = share(tmp_path / "v")
    assert report.visited == entries
    assert 0 < report.changed < entries
    assert modes(tmp_path / "v") == {0o660, 0o2770}


_WALKING = """
import sys, time
from mooring.host import features, ownership
from mooring.host.ownership_calls import Ownership, OwnershipWalk

class Telling(OwnershipWalk):
    def share(self, processes):
        super().share(processes)
        print(*processes, flush=True)
        sys.stdin.read()

    def count(self, visited, changed, failed):
        if not self.processes:
            time.sleep(0.01)

wanted = Ownership(gid=int(sys.argv[2]), file_mask=0o060, directory_mask=0o2070)
ownership.own_tree(sys.argv[1], wanted, features.probe(), Telling(clock=time.monotonic), large=1, workers=2)
"""


def test_killing_the_one_who_walks_ends_its_processes(tmp_path: Path) -> None:
    make_tree(tmp_path / "v", directories=30, files=80)
    command = [sys.executable, "-c", _WALKING, str(tmp_path / "v"), str(os.getegid())]
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
    ) as walker:
        assert walker.stdout is not None
        workers = [os.pidfd_open(int(process)) for process in walker.stdout.readline().split()]
        walker.kill()
    assert len(workers) == 2
    for worker in workers:
        assert select.select([worker], [], [], 10)[0], "a worker outlives the one who started it"
        os.close(worker)
    share(tmp_path / "v")
    assert modes(tmp_path / "v") == {0o660, 0o2770}


def test_a_shared_walk_leaves_no_descriptor_and_no_process(tmp_path: Path) -> None:
    make_tree(tmp_path / "v", directories=20, files=100)
    before = os.listdir("/proc/self/fd")
    share(tmp_path / "v")
    assert os.listdir("/proc/self/fd") == before
    assert children_of(os.getpid()) == []


def test_a_tree_is_walked_alone_where_no_process_can_be_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = make_tree(tmp_path / "v", directories=20, files=100)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
    walk = OwnershipWalk(clock=time.monotonic)
    report = ownership.own_tree(str(tmp_path / "v"), WANTED, TIERS[0], walk, large=1, workers=2)
    assert (report.changed, walk.processes) == (entries, ())


def test_messages_come_back_as_they_were_sent() -> None:
    odd = os.fsdecode(b"\xff\n")
    assert unpack(pack("part", 7, "/a b", [odd], ["f", "g"])) == ("part", 7, "/a b", [odd], ["f", "g"])
    assert unpack(pack("idle", 0, "", [], [])) == ("idle", 0, "", [], [])


def test_a_walk_that_does_not_get_on_is_given_up(tmp_path: Path) -> None:
    (tmp_path / "v").mkdir()
    awake = threading.Event()

    class Stuck(OwnershipWalk):
        """As on a dead server: it begins, and then nothing more happens."""

        def begin(self, gid: int) -> None:
            super().begin(gid)
            awake.wait()

    walk = Stuck(clock=time.monotonic)
    try:
        with pytest.raises(Doubtful, match=r"has not got on for 0\.05 s, at entry 0"):
            asyncio.run(LinuxHost(deadline=0.05).own_tree(str(tmp_path / "v"), WANTED, walk))
    finally:
        awake.set()
    assert walk.stopped


def test_a_failure_below_leaves_the_root_as_it_was(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may change everything")
    make_tree(tmp_path / "v", directories=1, files=1)
    wanted = Ownership(gid=0, file_mask=0o060, directory_mask=0o2070)
    report = LinuxHost().set_ownership(str(tmp_path / "v"), wanted)
    assert report.failed == 2
    assert stat.S_IMODE(os.lstat(tmp_path / "v").st_mode) == 0o700
