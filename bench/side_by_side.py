"""`make bench`: mooring, the kubelet's volume manager and the floor, one after the other in each of several rounds.

Prints the table; a whole run writes docs/performance.md and its plots as well.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from bench import arena, calls, report
from bench.programs import PEER, c_program
from bench.rows import Samples, lines
from bench.scenarios import CFloor, Scenario, against_the_kubelet
from bench.table import ROWS
from mooring.errors import MooringError, Refused

CALLS = "calls"


def main() -> int:
    arguments = _arguments()
    try:
        arena.enter()
        if not PEER.exists():
            raise Refused("cannot measure the kubelet", why=f"{PEER} is missing", next_step="make bench builds it")
        _compare(arguments)
    except MooringError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench.side_by_side", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="how often each side is measured [5]")
    parser.add_argument(
        "--only", action="append", metavar="SCENARIO", help="scenarios whose names begin so; repeatable"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every single figure there")
    return parser.parse_args()


def _compare(arguments: argparse.Namespace) -> None:
    samples = Samples()
    only = tuple(arguments.only or ())
    with c_program("floor") as floor, c_program("ownership") as walker:
        c = CFloor(floor, walker) if floor is not None and walker is not None else None
        chosen = [each for each in against_the_kubelet(c) if each.name.startswith(only or "")]
        measure(chosen, samples, arguments.rounds)
        counted = calls.count(floor) if not only or CALLS in only else {}
    table = lines(ROWS, samples)
    print(report.table(table))
    print(report.noise(samples))
    if counted:
        print(report.calls_table(counted))
    if arguments.json is not None:
        rounds = [{"scenario": of, "side": side, "rounds": all_} for (of, side), all_ in samples.rounds.items()]
        arguments.json.write_text(json.dumps(rounds, indent=1) + "\n")
    if not only:
        report.write(table, samples, counted, arguments.rounds)


def measure(scenarios: list[Scenario], samples: Samples, rounds: int) -> None:
    """All scenarios in each round, so that every figure sees all the machine's moods; tells how far it is."""
    began = time.monotonic()
    for number in range(rounds):
        for scenario in scenarios:
            for side, figures in scenario.round(number):
                samples.add(scenario.name, side, figures)
            minutes = (time.monotonic() - began) / 60
            print(f"  round {number + 1} of {rounds}, {scenario.name}: {minutes:.1f} min", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
