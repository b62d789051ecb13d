"""A simulation that finds no planted bug would find no other either."""

from __future__ import annotations

import pytest

from mooring.testing.simulation.planted_bugs import PLANTED, planted
from mooring.testing.simulation.reporting import run_until_failure, scripts_of
from mooring.testing.simulation.runner import History, run_script
from mooring.testing.simulation.script import from_json, to_json
from mooring.testing.simulation.shrink import shrink

MOST_HISTORIES = 900


def first_failure(plant: str) -> History | None:
    with planted(plant):
        histories = list(run_until_failure(scripts_of(0, MOST_HISTORIES)))
    return histories[-1] if histories[-1].violation is not None else None


@pytest.mark.parametrize("name", sorted(PLANTED))
def test_a_planted_bug_is_found_within_a_few_hundred_histories(name: str) -> None:
    assert first_failure(name) is not None


@pytest.mark.parametrize(
    ("name", "invariants"),
    [
        ("unheard-unmount", {"I1"}),
        ("foreign-data-deleted", {"I9"}),
        ("data-deleted-at-restart", {"I9"}),
        ("half-written-content", {"I18"}),
        ("refresh-lost", {"I22", "I28"}),
        ("wake-up-lost", {"wake-up"}),
        ("record-late", {"record"}),
        ("record-removed-early", {"record"}),
        ("record-kept", {"I27"}),
        ("containers-overlooked", {"I3"}),
        ("detached-first", {"I6"}),
        ("device-path-lost", {"I26"}),
        ("not-exclusive", {"I11"}),
        ("served-at-once", {"I13"}),
    ],
)
def test_a_planted_bug_violates_the_invariant_it_is_about(name: str, invariants: set[str]) -> None:
    found = first_failure(name)
    assert found is not None
    assert found.violation is not None
    assert found.violation.invariant in invariants


def test_a_bug_is_gone_when_it_is_not_planted_any_more() -> None:
    found = first_failure("unheard-unmount")
    assert found is not None
    assert run_script(found.script).violation is None


def test_a_shrunk_script_is_short_and_violates_the_same_invariant_when_it_is_read_again() -> None:
    found = first_failure("data-deleted-at-restart")
    assert found is not None
    assert found.violation is not None
    with planted("data-deleted-at-restart"):
        short = shrink(found).history.script
        again = run_script(from_json(to_json(short)))
    assert len(short.steps) <= 6
    assert again.violation is not None
    assert again.violation.invariant == found.violation.invariant


def test_a_bug_about_disks_and_crashes_shrinks_to_a_few_steps() -> None:
    found = first_failure("device-path-lost")
    assert found is not None
    with planted("device-path-lost"):
        short = shrink(found).history
    assert len(short.script.steps) <= 9
    assert short.violation is not None


def test_no_step_of_a_shrunk_script_can_be_left_out() -> None:
    found = first_failure("unheard-unmount")
    assert found is not None
    with planted("unheard-unmount"):
        short = shrink(found).history
        for number in range(len(short.script.steps)):
            steps = (*short.script.steps[:number], *short.script.steps[number + 1 :])
            fewer = run_script(from_json(to_json(type(short.script)(seed=short.script.seed, steps=steps))))
            same = fewer.violation is not None and fewer.violation.invariant == "I1"
            assert not same, number
