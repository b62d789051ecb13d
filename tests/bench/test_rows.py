"""What the tables of `make bench` are made of."""

from __future__ import annotations

import pytest
from bench.rows import Goal, Row, Samples, lines
from bench.scenarios import KUBELET, MOORING, C

from bench import calls, kubelet, report

ROW = Row(says="work", scenario="w", figure="up", unit="ms", explains="It works.", accepted=Goal(times=3, most=0.01))
SUMMARY = """% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000600           6       100           openat
 30.00    0.000300           3       100        40 newfstatat
 10.00    0.000100           1        10           clone3
------ ----------- ----------- --------- --------- ----------------
100.00    0.001000           4       210        40 total
"""


def _samples(**sides: float) -> Samples:
    samples = Samples()
    for side, value in sides.items():
        samples.add("w", {"ours": MOORING, "theirs": KUBELET, "floor": C}[side], {"up": value})
    return samples


def test_a_row_is_missing_where_mooring_was_not_measured() -> None:
    assert lines([ROW], _samples(theirs=1.0)) == []


def test_a_row_compares_medians() -> None:
    samples = _samples(ours=0.5, theirs=2.0, floor=0.25)
    samples.add("w", MOORING, {"up": 1.0})
    samples.add("w", MOORING, {"up": 0.25})
    (line,) = lines([ROW], samples)
    assert (line.times, line.of_floor) == (4.0, 2.0)
    assert (line.ours.low, line.ours.high) == (0.25, 1.0)


@pytest.mark.parametrize(("ours", "met"), [(0.5, True), (0.9, False), (0.009, True)])
def test_a_goal_is_met_in_one_way_or_another(ours: float, met: bool) -> None:
    assert Goal(times=3, most=0.01).met(ours, 2.0, None) is met


def test_nothing_is_said_of_a_goal_that_nothing_was_measured_for() -> None:
    assert Goal(times=3).met(0.5, None, None) is None


def test_a_missed_row_says_so() -> None:
    (line,) = lines([ROW], _samples(ours=0.5, theirs=1.0))
    assert report.verdict(line) == "**missed**"


def test_calls_are_read_with_and_without_errors() -> None:
    assert calls.parse(SUMMARY) == {"openat": 100, "newfstatat": 100, "clone3": 10}


def test_half_of_a_kubelets_volumes_show_a_change_within_half_a_period_and_its_loops() -> None:
    assert kubelet.refresh_delay(0.5) == pytest.approx(37.5 + 0.6)
    assert kubelet.refresh_delay(1.0) == pytest.approx(90.0 + 0.6)
