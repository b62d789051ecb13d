"""`make bench-quick`: mooring against the floor alone; prints a table, and writes nothing.

The floor is the loop in C where a compiler is found, as in `make bench`; that in Python stands in for it elsewhere.
"""

from __future__ import annotations

from dataclasses import replace

from bench import arena, report
from bench.programs import c_program
from bench.rows import Samples, lines
from bench.scenarios import PYTHON, C, CFloor, against_the_floor
from bench.side_by_side import measure
from bench.table import ROWS

ROUNDS = 3


def main() -> None:
    arena.enter()
    samples = Samples()
    with c_program("floor") as floor, c_program("ownership") as walker:
        c = CFloor(floor, walker) if floor is not None and walker is not None else None
        measure(against_the_floor(c), samples, ROUNDS)
    rows = [row if row.floor != C or c is not None else replace(row, floor=PYTHON) for row in ROWS]
    print(report.table(lines(rows, samples)))
    print(report.noise(samples))


if __name__ == "__main__":
    main()
