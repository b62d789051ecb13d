"""Every transition of what is known of a mount, a stage or an attachment (core.md 3.3, operations.md 3.3 to 3.5)."""

from __future__ import annotations

import itertools

import pytest

from mooring.world.presence import Presence, Result, after_setup, after_teardown

A, U, P = Presence.ABSENT, Presence.UNCERTAIN, Presence.PRESENT
DONE, REFUSED, NOT_YET, UNKNOWN = Result.DONE, Result.REFUSED, Result.NOT_YET, Result.UNKNOWN

AFTER_SETUP = [
    # before, result, set up by us, found on disk
    (A, DONE, P, P),  # D1, P1
    (A, REFUSED, A, A),
    (A, NOT_YET, A, A),
    (A, UNKNOWN, U, U),  # D2, P3; I15
    (U, DONE, P, P),  # P1; A11
    (U, REFUSED, A, U),  # D3, P5; I16
    (U, NOT_YET, U, U),
    (U, UNKNOWN, U, U),
    (P, DONE, P, P),  # P2
    (P, REFUSED, P, P),  # I16: a failed refresh does not unmount what was there
    (P, NOT_YET, P, P),
    (P, UNKNOWN, P, P),
]

AFTER_TEARDOWN = [
    (A, DONE, A),
    (A, REFUSED, U),
    (A, NOT_YET, A),
    (A, UNKNOWN, U),
    (U, DONE, A),  # P6, D5
    (U, REFUSED, U),
    (U, NOT_YET, U),
    (U, UNKNOWN, U),
    (P, DONE, A),
    (P, REFUSED, U),  # P4, D4; I17
    (P, NOT_YET, P),  # refused before anything was touched: operations.md 3.5, "refs check"
    (P, UNKNOWN, U),
]


@pytest.mark.parametrize(("before", "result", "ours", "found"), AFTER_SETUP)
def test_a_setup_changes_what_is_known_as_the_table_says(
    before: Presence, result: Result, ours: Presence, found: Presence
) -> None:
    assert after_setup(before, result, reconstructed=False) is ours
    assert after_setup(before, result, reconstructed=True) is found


@pytest.mark.parametrize(("before", "result", "after"), AFTER_TEARDOWN)
def test_a_teardown_changes_what_is_known_as_the_table_says(before: Presence, result: Result, after: Presence) -> None:
    assert after_teardown(before, result) is after


def test_the_tables_leave_no_case_out() -> None:
    cases = set(itertools.product(Presence, Result))
    assert {row[:2] for row in AFTER_SETUP} == cases
    assert {row[:2] for row in AFTER_TEARDOWN} == cases
