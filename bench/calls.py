"""System calls and processes for each volume, counted by strace from outside.

Each side sets up, and takes down, a few pods and then more of them; the difference is what one volume costs, without
whatever a start needs.
"""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import arena
from bench.programs import PEER, run

FEW, MORE = 25, 125
VOLUMES = 4 * (MORE - FEW)
FORKS = ("fork", "vfork", "clone", "clone3")
SHOWN = 12

Command = Callable[[str, int], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Calls:
    """How many of each system call one volume costs."""

    each: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.each.values())

    @property
    def forks(self) -> float:
        """New processes and threads."""
        return sum(self.each.get(name, 0.0) for name in FORKS)

    @property
    def programs(self) -> float:
        return self.each.get("execve", 0.0)

    def without(self, other: Calls) -> Calls:
        return Calls({name: each - other.each.get(name, 0.0) for name, each in self.each.items()})


@dataclass(frozen=True, slots=True)
class UpAndDown:
    up: Calls
    down: Calls


def count(floor: str | None) -> dict[str, UpAndDown]:
    """The calls of every side that can be run here; none without strace."""
    if shutil.which("strace") is None:
        print("  calls: strace is not installed, nothing is counted", file=sys.stderr)
        return {}
    sides: dict[str, tuple[Command, Command]] = {
        "mooring": (_measured("prepare"), _measured("bulk")),
    }
    if PEER.exists():
        sides["kubelet"] = (_peer("--keep"), _peer())
    if floor is not None:
        sides["floor"] = (_floor(floor, "prepare"), _floor(floor, "bulk"))
    found = {}
    for side, (up, both) in sides.items():
        once = _per_volume(up)
        found[side] = UpAndDown(once, _per_volume(both).without(once))
        print(f"  calls: {side} counted", file=sys.stderr)
    return found


def _measured(scenario: str) -> Command:
    # The process that work is shared with is there in all runs, and its start in no figure.
    measure = [sys.executable, "-m", "bench.measure", scenario, "mooring"]
    return lambda root, pods: ["env", "MOORING_SHARE_WORK=always", *measure, root, str(pods)]


def _peer(*flags: str) -> Command:
    return lambda root, pods: [str(PEER), "bench", "bulk", "--root", root, "--pods", str(pods), *flags]


def _floor(program: str, scenario: str) -> Command:
    return lambda root, pods: [program, scenario, root, str(pods)]


def _per_volume(command: Command) -> Calls:
    few, more = _counted(command, FEW), _counted(command, MORE)
    return Calls({name: (more[name] - few[name]) / VOLUMES for name in more})


def _counted(command: Command, pods: int) -> Counter[str]:
    with arena.fresh_file_system() as root:
        table = f"{root}/calls"
        run(["strace", "-f", "-qq", "-c", "-o", table, *command(root, pods)])
        return parse(Path(table).read_text())


def parse(table: str) -> Counter[str]:
    """The calls in a summary by `strace -c`: share, seconds, µs per call, calls, errors if any, name."""
    found: Counter[str] = Counter()
    for line in table.splitlines():
        words = line.split()
        if len(words) >= 5 and words[3].isdigit() and words[-1] != "total":
            found[words[-1]] += int(words[3])
    return found
