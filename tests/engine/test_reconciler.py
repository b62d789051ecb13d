"""The loop that serves touched keys: order, limits and conflicts."""

from __future__ import annotations

import asyncio

from mooring.engine.pending import Slot
from mooring.testing.scripted_subject import Job, ScriptedSubject, running_reconciler
from mooring.testing.virtual_time import in_virtual_time


@in_virtual_time
async def test_nothing_is_planned_until_something_is_touched() -> None:
    """R01, seen from the engine."""
    subject = ScriptedSubject()
    subject.want(Job("a"))
    async with running_reconciler(subject):
        await asyncio.sleep(100)
    assert subject.planned == []


@in_virtual_time
async def test_a_touched_key_is_planned_and_its_work_done() -> None:
    subject = ScriptedSubject()
    subject.want(Job("a"))
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await reconciler.until_idle()
    assert subject.ended == [Job("a")]


@in_virtual_time
async def test_a_key_touched_many_times_before_it_is_served_is_planned_once() -> None:
    subject = ScriptedSubject()
    async with running_reconciler(subject) as reconciler:
        for _ in range(5):
            reconciler.touch("a")
        await reconciler.until_idle()
    assert subject.planned == ["a"]


@in_virtual_time
async def test_only_touched_keys_are_planned_however_many_there_are() -> None:
    """The work for one change does not grow with the number of keys."""
    subject = ScriptedSubject()
    subject.want(*(Job(f"k{number}") for number in range(1000)))
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("k500")
        await reconciler.until_idle()
    assert subject.planned == ["k500", "k500"]  # once for the touch, once after its operation ended


@in_virtual_time
async def test_keys_are_served_in_the_order_they_were_touched() -> None:
    subject = ScriptedSubject()
    subject.want(*(Job(key) for key in "abcd"))
    async with running_reconciler(subject) as reconciler:
        for key in "dbca":
            reconciler.touch(key)
        await reconciler.until_idle()
    assert [job.key for _, job in subject.started] == ["d", "b", "c", "a"]


@in_virtual_time
async def test_no_more_operations_run_than_the_limit_allows() -> None:
    subject = ScriptedSubject()
    subject.seconds = 1.0
    subject.want(*(Job(f"k{number:02}") for number in range(10)))
    async with running_reconciler(subject, limit=3) as reconciler:
        for number in range(10):
            reconciler.touch(f"k{number:02}")
        await reconciler.until_idle()
    assert subject.most_running == 3
    assert [job.key for _, job in subject.started] == [f"k{number:02}" for number in range(10)]


@in_virtual_time
async def test_operations_that_only_wait_make_room_for_others() -> None:
    subject = ScriptedSubject()
    subject.seconds = 1.0
    subject.want(*(Job(f"k{number:02}") for number in range(10)))
    async with running_reconciler(subject, limit=3) as reconciler:
        for number in range(10):
            reconciler.touch(f"k{number:02}")
        await asyncio.sleep(0.5)
        reconciler.make_room(2)
        await asyncio.sleep(0.1)
        assert len(subject.started) == 5
        reconciler.make_room(0)
        await reconciler.until_idle()
    assert subject.most_running == 5


@in_virtual_time
async def test_many_parts_of_one_key_keep_to_the_limit_too() -> None:
    subject = ScriptedSubject()
    subject.seconds = 1.0
    subject.want(*(Job("a", f"p{number}") for number in range(10)))
    async with running_reconciler(subject, limit=4) as reconciler:
        reconciler.touch("a")
        await reconciler.until_idle()
    assert subject.most_running == 4
    assert len(subject.ended) == 10


@in_virtual_time
async def test_a_key_with_many_parts_does_not_keep_another_key_from_its_turn() -> None:
    subject = ScriptedSubject()
    subject.seconds = 1.0
    subject.want(*(Job("a", f"p{number}") for number in range(100)), Job("b"))
    async with running_reconciler(subject, limit=2) as reconciler:
        reconciler.touch("a")
        reconciler.touch("b")
        await asyncio.sleep(2.5)
        assert Job("b") in subject.ended
        reconciler.stop()


@in_virtual_time
async def test_different_parts_of_a_key_run_at_the_same_time() -> None:
    """operations.md 10.1 scenario 3; R37."""
    subject = ScriptedSubject()
    subject.seconds = 1.0
    subject.want(Job("a", "p"), Job("a", "q"))
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await reconciler.until_idle()
    assert subject.most_running == 2


@in_virtual_time
async def test_the_whole_of_a_key_waits_for_its_parts() -> None:
    """operations.md 10.1 scenario 6; I13."""
    subject = ScriptedSubject()
    subject.seconds = 1.0
    subject.want(Job("a", "p"), Job("a", kind="whole"))
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await reconciler.until_idle()
    assert subject.most_running == 1
    assert subject.starts("whole") == [1.0]


@in_virtual_time
async def test_a_key_touched_while_its_operation_runs_is_planned_again_when_it_ends() -> None:
    subject = ScriptedSubject()
    subject.seconds = 5.0
    subject.want(Job("a"))
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(1)
        subject.want(Job("a", kind="second"))
        reconciler.touch("a")
        await reconciler.until_idle()
    assert subject.starts("second") == [5.0]


@in_virtual_time
async def test_an_outcome_is_in_the_world_before_the_slot_is_free() -> None:
    """I14."""
    subject = ScriptedSubject()
    busy: list[bool] = []
    subject.want(Job("a"))
    async with running_reconciler(subject) as reconciler:
        subject.applying = lambda: busy.append(reconciler.pending.is_busy(Slot("a")))
        reconciler.touch("a")
        await reconciler.until_idle()
    assert busy == [True]
