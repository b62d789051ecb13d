"""Failing operations rest, and only they: pauses, and what ends them."""

from __future__ import annotations

import asyncio
import itertools

from mooring.testing.scripted_subject import Job, ScriptedSubject, running_reconciler
from mooring.testing.virtual_time import in_virtual_time


@in_virtual_time
async def test_a_failing_operation_is_tried_again_after_exactly_these_pauses() -> None:
    """operations.md 1.6: 0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122 seconds."""
    subject = ScriptedSubject()
    subject.want(Job("a"))
    subject.fail(Job("a"), 10)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(3600)
    pauses = [later - earlier for earlier, later in itertools.pairwise(subject.starts())]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 32, 64, 122, 122]


@in_virtual_time
async def test_a_success_starts_the_pauses_over() -> None:
    subject = ScriptedSubject()
    subject.want(Job("a"))
    subject.fail(Job("a"), 3)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(10)
        subject.started.clear()
        subject.want(Job("a"))
        subject.fail(Job("a"), 1)
        reconciler.touch("a")
        await asyncio.sleep(10)
    assert subject.starts() == [10.0, 10.5]


@in_virtual_time
async def test_touching_a_key_that_rests_does_not_start_it_earlier() -> None:
    subject = ScriptedSubject()
    subject.want(Job("a"))
    subject.fail(Job("a"), 1)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        for _ in range(4):
            await asyncio.sleep(0.1)
            reconciler.touch("a")
        await asyncio.sleep(1)
    assert subject.starts() == [0.0, 0.5]


@in_virtual_time
async def test_a_different_kind_on_a_key_that_rests_starts_at_once() -> None:
    """operations.md 10.1 scenario 10; I25."""
    subject = ScriptedSubject()
    subject.want(Job("a", kind="mount"))
    subject.fail(Job("a", kind="mount"), 5)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(2)
        subject.due["a"] = [Job("a", kind="unmount")]
        reconciler.touch("a")
        await asyncio.sleep(1)
    assert subject.starts("unmount") == [2.0]


@in_virtual_time
async def test_a_resting_part_does_not_hold_back_another_part() -> None:
    subject = ScriptedSubject()
    subject.want(Job("a", "p"), Job("a", "q", kind="other"))
    subject.fail(Job("a", "p"), 5)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(0.1)
    assert subject.starts("other") == [0.0]


@in_virtual_time
async def test_a_key_with_two_resting_parts_wakes_for_the_earlier_one() -> None:
    subject = ScriptedSubject()
    early, late = Job("a", "p", "early"), Job("a", "q", "late")
    subject.want(late)
    subject.fail(late, 3)
    subject.fail(early, 1)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(2)  # late has failed at 0, 0.5 and 1.5 and rests until 3.5
        subject.want(early)
        reconciler.touch("a")
        await asyncio.sleep(5)
    assert subject.starts("early") == [2.0, 2.5]
    assert subject.starts("late") == [0.0, 0.5, 1.5, 3.5]


@in_virtual_time
async def test_resuming_ends_the_pause_and_keeps_counting() -> None:
    subject = ScriptedSubject()
    subject.want(Job("a"))
    subject.fail(Job("a"), 5)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(2)  # failed at 0, 0.5 and 1.5; rests until 3.5
        reconciler.resume("a")
        await asyncio.sleep(7)
    assert subject.starts() == [0.0, 0.5, 1.5, 2.0, 6.0]


@in_virtual_time
async def test_resuming_all_lets_nothing_rest() -> None:
    subject = ScriptedSubject()
    for job in (Job("a"), Job("b")):
        subject.want(job)
        subject.fail(job, 3)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        reconciler.touch("b")
        await asyncio.sleep(2)
        reconciler.resume_all()
        await asyncio.sleep(1)
    assert subject.starts() == [0.0, 0.0, 0.5, 0.5, 1.5, 1.5, 2.0, 2.0]


@in_virtual_time
async def test_forgetting_lets_the_next_wish_start_at_once_and_count_from_one() -> None:
    subject = ScriptedSubject()
    subject.want(Job("a"))
    subject.fail(Job("a"), 5)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(2)
        reconciler.forget("a")
        reconciler.touch("a")
        await asyncio.sleep(1)
    assert subject.starts() == [0.0, 0.5, 1.5, 2.0, 2.5]


@in_virtual_time
async def test_work_that_vanished_while_it_rested_is_not_done() -> None:
    subject = ScriptedSubject()
    subject.want(Job("a"))
    subject.fail(Job("a"), 1)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(0.1)
        subject.due.clear()
        reconciler.touch("a")
        await asyncio.sleep(10)
    assert subject.starts() == [0.0]
