"""`python -m torture`: kill the daemon again and again, at random and at every named point, and compare."""

from __future__ import annotations

import argparse
import secrets
import sys
import time

from mooring.testing.fault_points import POINTS
from torture import arena
from torture.instance import Stuck
from torture.rounds import Torture, Violation


def main() -> int:
    """Run the rounds; exit status 1 names the seed and the round that went wrong."""
    parser = argparse.ArgumentParser(prog="torture", description=__doc__)
    parser.add_argument("--rounds", type=int, default=50, help="rounds with random faults [50]")
    parser.add_argument("--points", action="store_true", help="one more round for every named point")
    parser.add_argument("--seed", type=int, default=None, help="what chance begins with [another one each time]")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    arena.enter()
    began = time.monotonic()
    with arena.standing() as place:
        torture = Torture(place, seed)
        schedule: list[str | None] = [None] * options.rounds + (list(POINTS) if options.points else [])
        torture.chance.shuffle(schedule)
        try:
            torture.begin()
            for number, point in enumerate(schedule, 1):
                done = torture.round(point)
                print(f"round {number} of {len(schedule)}: {done}, {len(torture.wishes.pods)} pods", flush=True)
            torture.finish()
        except (Stuck, Violation) as error:
            print(f"torture: seed {seed}: {type(error).__name__}: {error}", file=sys.stderr)
            return 1
        finally:
            torture.end()
    took = time.monotonic() - began
    figures = f"{len(schedule)} rounds, {torture.deaths} deaths"
    print(f"torture: {figures}, nothing lost, nothing left ({took:.0f} s, seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
