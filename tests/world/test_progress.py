"""How far a walk is, in words."""

from __future__ import annotations

from dataclasses import replace

from mooring.world.progress import Progress

HALF = Progress(group=2000, visited=120_000, changed=5, failed=0, seconds=1.5, expected=288_000)


def test_progress_is_told_with_rate_and_what_is_left() -> None:
    words = "its files are being given to group 2000: 120,000 of about 288,000 done, 80,000/s, about 2 s left"
    assert str(HALF) == words


def test_long_waits_are_told_in_minutes() -> None:
    assert str(replace(HALF, seconds=600)).endswith("200/s, about 14 min left")


def test_without_an_estimate_nothing_is_said_of_what_is_left() -> None:
    assert str(replace(HALF, expected=None)) == "its files are being given to group 2000: 120,000 done, 80,000/s"


def test_an_estimate_that_was_too_low_is_dropped() -> None:
    assert replace(HALF, visited=300_000).seconds_left is None
    assert "about" not in str(replace(HALF, visited=300_000))


def test_a_walk_that_has_just_begun_tells_no_rate() -> None:
    assert replace(HALF, visited=0, seconds=0).rate is None


def test_a_walk_without_a_rate_tells_only_how_far_it_is() -> None:
    assert str(replace(HALF, seconds=0)) == "its files are being given to group 2000: 120,000 of about 288,000 done"
