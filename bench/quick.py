"""`make bench-quick`: mooring against the floor; prints a table and writes docs/performance.md with its plots."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from bench import arena, report

ROUNDS = 3
PODS = 1000
FEW_PODS = 100


@dataclass(frozen=True, slots=True)
class Sample:
    """All rounds of one scenario on one side."""

    figures: Sequence[dict[str, float]]

    def median(self, name: str) -> float:
        return statistics.median(figures[name] for figures in self.figures)


def measure(scenario: str, side: str, root: str, pods: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.measure", scenario, side, root, str(pods)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    answer: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return answer


def alternate(scenario: str, pods: int, rounds: int = ROUNDS) -> dict[str, Sample]:
    """Both sides, one after the other in each round, each on a fresh file system."""
    found: dict[str, list[dict[str, float]]] = {"floor": [], "mooring": []}
    for number in range(rounds):
        for side in found if number % 2 == 0 else reversed(found):
            with arena.fresh_file_system() as root:
                found[side].append(measure(scenario, side, root, pods))
        print(f"  {scenario} with {pods} pods: round {number + 1} of {rounds}", file=sys.stderr)
    return {side: Sample(figures) for side, figures in found.items()}


def restarts() -> dict[str, Sample]:
    """Both sides over the same mounted pods."""
    with arena.fresh_file_system() as root:
        measure("prepare", "mooring", root, PODS)
        floor = measure("restart", "floor", root, PODS)
        mooring = measure("restart", "mooring", root, PODS)
    print(f"  restart with {PODS} pods", file=sys.stderr)
    return {"floor": Sample([floor]), "mooring": Sample([mooring])}


def main() -> None:
    arena.enter()
    single = alternate("single", 40, rounds=1)
    few = alternate("bulk", FEW_PODS)
    many = alternate("bulk", PODS)
    refresh = alternate("refresh", 250)
    restart = restarts()
    rows = [
        report.ratio("one pod of 4 volumes: known → ready", single, "ready", "ms"),
        report.ratio("one pod of 4 volumes: removed → unmounted", single, "gone", "ms"),
        report.ratio(f"{FEW_PODS} pods × 4 volumes at once", few, "up", "s"),
        report.ratio(f"{PODS} pods × 4 volumes at once", many, "up", "s"),
        report.ratio("the same, processor time", many, "up_cpu", "s"),
        report.ratio(f"{PODS} pods removed, directories included", many, "down", "s"),
        report.ratio("restart over 4,000 mounted volumes → all known to be right", restart, "seconds", "s"),
        report.ratio("a ConfigMap edit → in all 500 volumes that show it", refresh, "seconds", "ms"),
        report.ratio("idle at 4,000 volumes, processor time per minute", restart, "idle_cpu_per_minute", "ms"),
    ]
    per_volume = [
        report.Point(
            4 * FEW_PODS, few["mooring"].median("up") / (4 * FEW_PODS), few["floor"].median("up") / (4 * FEW_PODS)
        ),
        report.Point(4 * PODS, many["mooring"].median("up") / (4 * PODS), many["floor"].median("up") / (4 * PODS)),
    ]
    memory = many["mooring"].median("bytes_per_volume")
    machine = f"{os.cpu_count()} processors, Linux {platform.release()}, Python {platform.python_version()}"
    text = report.table(rows, per_volume, memory)
    print(text)
    report.write(rows, per_volume, memory, machine)


if __name__ == "__main__":
    main()
