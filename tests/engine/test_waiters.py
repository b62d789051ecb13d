"""Waiting for conditions without polling."""

from __future__ import annotations

import asyncio

import pytest

from mooring.engine.waiters import Waiters
from mooring.testing.virtual_time import in_virtual_time


class Condition:
    """An answer that can be given later; counts how often it was asked for."""

    def __init__(self) -> None:
        self.value: str | None = None
        self.asked = 0

    def __call__(self) -> str | None:
        self.asked += 1
        return self.value


@in_virtual_time
async def test_an_answer_that_is_there_is_returned_at_once() -> None:
    condition = Condition()
    condition.value = "now"
    assert await Waiters().until("a", condition, timeout=1.0) == "now"


@in_virtual_time
async def test_an_answer_is_looked_for_again_when_its_key_is_notified() -> None:
    waiters, condition = Waiters(), Condition()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(waiters.until("a", condition, timeout=10.0))
        await asyncio.sleep(3)
        condition.value = "later"
        waiters.notify("a")
    assert waiting.result() == "later"
    assert asyncio.get_running_loop().time() == 3.0


@in_virtual_time
async def test_a_notification_of_another_key_asks_nobody() -> None:
    waiters, condition = Waiters(), Condition()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(waiters.until("a", condition, timeout=None))
        await asyncio.sleep(1)
        waiters.notify("b")
        assert condition.asked == 1
        waiting.cancel()


@in_virtual_time
async def test_nothing_is_polled_while_waiting() -> None:
    waiters, condition = Waiters(), Condition()
    with pytest.raises(TimeoutError):
        await waiters.until("a", condition, timeout=3600.0)
    assert condition.asked == 1


@in_virtual_time
async def test_a_wait_ends_exactly_at_its_timeout() -> None:
    with pytest.raises(TimeoutError):
        await Waiters().until("a", Condition(), timeout=123.0)
    assert asyncio.get_running_loop().time() == 123.0


@in_virtual_time
async def test_a_notification_without_an_answer_lets_the_wait_go_on() -> None:
    waiters, condition = Waiters(), Condition()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(waiters.until("a", condition, timeout=10.0))
        await asyncio.sleep(1)
        waiters.notify("a")
        await asyncio.sleep(1)
        assert not waiting.done()
        condition.value = "done"
        waiters.notify("a")
    assert condition.asked == 3


@in_virtual_time
async def test_two_waiters_of_one_key_get_their_own_answers() -> None:
    waiters, first, second = Waiters(), Condition(), Condition()
    async with asyncio.TaskGroup() as tasks:
        one = tasks.create_task(waiters.until("a", first, timeout=None))
        two = tasks.create_task(waiters.until("a", second, timeout=None))
        await asyncio.sleep(0)
        first.value = "one"
        waiters.notify("a")
        await one
        assert not two.done()
        second.value = "two"
        waiters.notify("a")
    assert (one.result(), two.result()) == ("one", "two")


@in_virtual_time
async def test_the_first_answer_counts_although_more_notifications_follow_at_once() -> None:
    waiters, condition = Waiters(), Condition()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(waiters.until("a", condition, timeout=None))
        await asyncio.sleep(0)
        condition.value = "first"
        waiters.notify("a")
        condition.value = "second"
        waiters.notify("a")
    assert waiting.result() == "first"


@in_virtual_time
async def test_a_cancelled_wait_is_never_asked_again() -> None:
    """I29: a cancelled wait ends at once and leaves nothing behind."""
    waiters, condition = Waiters(), Condition()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(waiters.until("a", condition, timeout=None))
        await asyncio.sleep(1)
        waiting.cancel()
    waiters.notify("a")
    assert waiting.cancelled()
    assert condition.asked == 1


@in_virtual_time
async def test_a_wait_that_timed_out_is_never_asked_again() -> None:
    waiters, condition = Waiters(), Condition()
    with pytest.raises(TimeoutError):
        await waiters.until("a", condition, timeout=1.0)
    waiters.notify("a")
    assert condition.asked == 1


@in_virtual_time
async def test_the_end_of_one_wait_leaves_the_other_waiting() -> None:
    waiters, patient = Waiters(), Condition()
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(waiters.until("a", patient, timeout=None))
        await asyncio.sleep(0)
        with pytest.raises(TimeoutError):
            await waiters.until("a", Condition(), timeout=1.0)
        patient.value = "still here"
        waiters.notify("a")
    assert waiting.result() == "still here"
