"""What is measured is shown, and what is shown is measured."""

from __future__ import annotations

from bench.scenarios import CFloor, against_the_floor, against_the_kubelet
from bench.table import ROWS

SHOWN = {row.scenario for row in ROWS} | {row.over[0] for row in ROWS if row.over is not None}
C = CFloor("floor", "ownership")


def test_every_row_has_its_scenario() -> None:
    assert {each.name for each in against_the_kubelet(C)} >= SHOWN


def test_every_scenario_of_the_quick_run_is_shown_in_a_row() -> None:
    assert {each.name for each in against_the_floor(C)} <= SHOWN
