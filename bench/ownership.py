"""`python -m bench.ownership`: giving 300,000 files to a group, against one thread of C doing the same.

Sides take turns on one tree, each with a group of its own, so that every entry must change; then each walks once
more over what it has made right. Without a C compiler one process of mooring's own stands in for it.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import arena
from mooring.host import features, ownership
from mooring.host.ownership_calls import Ownership, OwnershipWalk

DIRECTORIES, FILES = 1000, 300
ROUNDS = 3
MOORING = "mooring"
NAIVE, SKIPPING, ALONE = "C, every entry", "C, skipping what is right", "mooring, one process"
Walk = Callable[[str, int], None]


@dataclass(slots=True)
class Times:
    """Seconds of all rounds."""

    change: list[float] = field(default_factory=list)
    nothing: list[float] = field(default_factory=list)


def make_tree(root: str) -> None:
    os.mkdir(root, 0o755)
    for number in range(DIRECTORIES):
        directory = f"{root}/directory-{number:04}"
        os.mkdir(directory, 0o755)
        for name in range(FILES):
            os.close(os.open(f"{directory}/file-{name:04}", os.O_CREAT | os.O_WRONLY, 0o644))


def take_back(root: str) -> None:
    """Give the tree its old modes, so that there is as much to change as the first time."""
    for directory in os.scandir(root):
        for file in os.scandir(directory):
            os.chmod(file, 0o644)
        os.chmod(directory, 0o755)
    os.chmod(root, 0o755)
    os.sync()


def mooring(workers: int | None) -> Walk:
    kernel = features.probe()

    def walk(root: str, gid: int) -> None:
        wanted = Ownership(gid=gid, file_mask=0o660, directory_mask=0o2770)
        chosen = OwnershipWalk(clock=time.monotonic)
        report = ownership.own_tree(root, wanted, kernel, chosen, workers=workers)
        assert report.visited == 1 + DIRECTORIES * (1 + FILES)

    return walk


@contextmanager
def sides() -> Iterator[dict[str, Walk]]:
    """Whoever takes part: mooring, and C where it can be compiled."""
    compiler = shutil.which("cc")
    if compiler is None:
        print("no C compiler: mooring is compared with one process of its own alone", file=sys.stderr)
        yield {MOORING: mooring(None), ALONE: mooring(0)}
        return
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as work:
        program = f"{work}/own"
        source = Path(__file__).with_suffix(".c")
        subprocess.run([compiler, "-O2", "-o", program, str(source)], check=True)

        def in_c(mode: str) -> Walk:
            return lambda root, gid: _run([program, root, str(gid), mode])

        yield {MOORING: mooring(None), NAIVE: in_c("all"), SKIPPING: in_c("skip"), ALONE: mooring(0)}


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def timed(walk: Walk, root: str, gid: int) -> float:
    began = time.perf_counter()
    walk(root, gid)
    return time.perf_counter() - began


def measure(walks: dict[str, Walk], root: str) -> dict[str, Times]:
    found = {name: Times() for name in walks}
    gid = 10_000
    for number in range(ROUNDS):
        for name in walks if number % 2 == 0 else reversed(walks):
            gid += 1
            take_back(root)
            found[name].change.append(timed(walks[name], root, gid))
            found[name].nothing.append(timed(walks[name], root, gid))
        print(f"  ownership: round {number + 1} of {ROUNDS}", file=sys.stderr)
    return found


def table(found: Mapping[str, Times]) -> str:
    """Medians, and how many times mooring's own each of the others takes."""
    entries = 1 + DIRECTORIES * (1 + FILES)
    lines = [
        f"| {entries:,} entries on ext4 | all must change | times mooring | nothing to change | times mooring |",
        "|---|---|---|---|---|",
    ]
    change, nothing = (statistics.median(times) for times in (found[MOORING].change, found[MOORING].nothing))
    for name, times in found.items():
        first, second = statistics.median(times.change), statistics.median(times.nothing)
        lines.append(f"| {name} | {first:.2f} s | {first / change:.2f} | {second:.2f} s | {second / nothing:.2f} |")
    return "\n".join(lines)


def main() -> None:
    arena.enter()
    with sides() as walks, arena.fresh_file_system(inodes=400_000) as place:
        make_tree(f"{place}/tree")
        print(table(measure(walks, f"{place}/tree")))


if __name__ == "__main__":
    main()
