"""The table of pending operations: conflicts, pauses and what ends them (operations.md 1 and 10.1)."""

from __future__ import annotations

import pytest

from mooring.engine.pending import Backoff, Pause, PendingOperations, Slot

WHOLE = Slot("v")
PART = Slot("v", "p")
OTHER_PART = Slot("v", "q")
OTHER_KEY = Slot("w")
FOR_PART = Slot("v", owner="p")


def table() -> PendingOperations:
    return PendingOperations(Backoff())


def fail(pending: PendingOperations, slot: Slot, kind: str, *, at: float) -> None:
    pending.start(slot, kind)
    pending.finish(slot, kind, failed=True, now=at)


@pytest.mark.parametrize(
    ("running", "new", "busy"),
    [
        (WHOLE, WHOLE, True),
        (WHOLE, PART, True),
        (PART, WHOLE, True),
        (PART, PART, True),
        (PART, OTHER_PART, False),
        (WHOLE, OTHER_KEY, False),
        (PART, Slot("w", "p"), False),
        (FOR_PART, OTHER_PART, True),
        (OTHER_PART, FOR_PART, True),
        (FOR_PART, Slot("v", owner="q"), True),
    ],
)
def test_the_whole_of_a_key_conflicts_with_its_parts_and_parts_do_not_conflict_with_each_other(
    running: Slot, new: Slot, busy: bool
) -> None:
    """Conflict table of operations.md 1.2; scenarios 2, 3, 5, 6, 8; R36, R37, R38."""
    pending = table()
    pending.start(running, "mount")
    assert pending.is_busy(new) is busy


def test_an_empty_table_is_busy_with_nothing() -> None:
    """operations.md 10.1 scenario 1."""
    assert not table().is_busy(WHOLE)


def test_a_slot_is_free_again_once_its_operation_has_ended() -> None:
    """operations.md 10.1 scenario 4."""
    pending = table()
    pending.start(WHOLE, "mount")
    pending.finish(WHOLE, "mount", failed=False, now=0.0)
    assert not pending.is_busy(WHOLE)


def test_a_busy_slot_cannot_be_taken_twice() -> None:
    """operations.md 10.1 scenario 5."""
    pending = table()
    pending.start(PART, "mount")
    with pytest.raises(RuntimeError, match="already under way"):
        pending.start(PART, "mount")


def test_a_running_part_keeps_the_whole_busy_although_other_parts_only_rest() -> None:
    """operations.md 10.1 scenario 12."""
    pending = table()
    fail(pending, PART, "mount", at=0.0)
    pending.start(OTHER_PART, "mount")
    assert pending.is_busy(WHOLE)


def test_ending_one_part_leaves_the_other_part_running() -> None:
    """operations.md 10.1 scenario 11."""
    pending = table()
    pending.start(PART, "mount")
    pending.start(OTHER_PART, "unmount")
    pending.finish(PART, "mount", failed=True, now=0.0)
    assert pending.running("v") == {"q": "unmount"}
    assert pending.running_count == 1


def test_the_pauses_double_from_half_a_second_to_two_minutes_and_two_seconds() -> None:
    """operations.md 1.6: the exact sequence."""
    backoff = Backoff()
    assert [backoff.after(n) for n in range(1, 12)] == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122, 122]


def test_pauses_stay_at_their_maximum_after_very_many_failures() -> None:
    assert Backoff().after(100_000) == 122.0


def test_a_failure_makes_its_kind_rest_and_no_other() -> None:
    """operations.md 10.1 scenario 10; I25."""
    pending = table()
    fail(pending, WHOLE, "mount", at=10.0)
    assert pending.pause(WHOLE, "mount") == Pause(failures=1, until=10.5)
    assert pending.pause(WHOLE, "unmount") is None


def test_a_second_failure_rests_twice_as_long() -> None:
    pending = table()
    fail(pending, PART, "mount", at=0.0)
    fail(pending, PART, "mount", at=1.0)
    assert pending.pause(PART, "mount") == Pause(failures=2, until=2.0)


def test_a_failure_of_one_part_does_not_make_another_part_rest() -> None:
    pending = table()
    fail(pending, PART, "mount", at=0.0)
    assert pending.pause(OTHER_PART, "mount") is None
    assert pending.pause(WHOLE, "mount") is None


def test_an_operation_on_the_whole_for_one_part_makes_only_that_part_rest() -> None:
    """One pod that cannot mount a shared volume does not hold back the other pods of it."""
    pending = table()
    fail(pending, FOR_PART, "mount", at=0.0)
    assert pending.pause(FOR_PART, "mount") is not None
    assert pending.pause(Slot("v", owner="q"), "mount") is None


def test_a_success_ends_the_pause_of_its_kind() -> None:
    """operations.md 1.6 (a); 10.1 scenario 11."""
    pending = table()
    fail(pending, PART, "mount", at=0.0)
    pending.start(PART, "mount")
    pending.finish(PART, "mount", failed=False, now=1.0)
    assert pending.pause(PART, "mount") is None
    assert pending.is_empty()


def test_a_success_keeps_the_pauses_of_other_kinds_and_parts() -> None:
    """operations.md 10.1 scenario 13: only the exact record goes."""
    pending = table()
    fail(pending, PART, "mount", at=0.0)
    fail(pending, OTHER_PART, "umount", at=0.0)
    pending.start(OTHER_PART, "umount")
    pending.finish(OTHER_PART, "umount", failed=False, now=1.0)
    assert pending.pause(PART, "mount") is not None


def test_a_different_kind_starts_its_own_count_of_failures() -> None:
    """operations.md 11 Q1, fixed."""
    pending = table()
    for at in range(4):
        fail(pending, WHOLE, "mount", at=float(at))
    fail(pending, WHOLE, "unmount", at=10.0)
    assert pending.pause(WHOLE, "unmount") == Pause(failures=1, until=10.5)


def test_resuming_ends_all_pauses_of_a_key_and_keeps_the_failures() -> None:
    pending = table()
    fail(pending, PART, "mount", at=100.0)
    fail(pending, OTHER_PART, "mount", at=100.0)
    fail(pending, OTHER_KEY, "mount", at=100.0)
    pending.resume("v")
    assert pending.pause(PART, "mount") == Pause(failures=1, until=0.0)
    assert pending.pause(OTHER_PART, "mount") == Pause(failures=1, until=0.0)
    assert pending.pause(OTHER_KEY, "mount") == Pause(failures=1, until=100.5)


def test_resuming_a_key_that_does_not_rest_changes_nothing() -> None:
    pending = table()
    pending.resume("v")
    assert pending.is_empty()


def test_a_failure_after_resuming_rests_as_long_as_it_would_have_anyway() -> None:
    pending = table()
    fail(pending, PART, "mount", at=0.0)
    pending.resume("v")
    fail(pending, PART, "mount", at=10.0)
    assert pending.pause(PART, "mount") == Pause(failures=2, until=11.0)


def test_forgetting_a_key_drops_all_its_pauses() -> None:
    pending = table()
    fail(pending, PART, "mount", at=0.0)
    fail(pending, WHOLE, "stage", at=0.0)
    pending.forget("v")
    assert pending.is_empty()


def test_forgetting_a_part_keeps_the_pauses_of_the_others() -> None:
    pending = table()
    fail(pending, FOR_PART, "mount", at=0.0)
    fail(pending, PART, "unmount", at=0.0)
    fail(pending, OTHER_PART, "mount", at=0.0)
    pending.forget("v", "p")
    assert pending.pause(PART, "mount") is None
    assert pending.pause(PART, "unmount") is None
    assert pending.pause(OTHER_PART, "mount") is not None


def test_forgetting_the_last_part_leaves_nothing_behind() -> None:
    pending = table()
    fail(pending, PART, "mount", at=0.0)
    pending.forget("v", "p")
    assert pending.is_empty()


def test_forgetting_what_never_failed_is_allowed() -> None:
    pending = table()
    pending.forget("v", "p")
    pending.forget("v")
    assert pending.is_empty()


def test_a_table_with_a_running_operation_is_not_empty() -> None:
    pending = table()
    pending.start(PART, "mount")
    assert not pending.is_empty()
