"""The virtual-time loop: jumps, determinism, and clear errors instead of hanging."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from mooring.testing.virtual_time import VirtualTimeStuck, in_virtual_time, run_virtual


async def elapsed_by(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return asyncio.get_running_loop().time()


def test_a_sleep_moves_the_clock_by_exactly_its_length() -> None:
    assert run_virtual(elapsed_by(86_400 * 3)) == 86_400 * 3


def test_sums_of_delays_read_like_decimal_numbers() -> None:
    async def sleep_twice() -> float:
        await asyncio.sleep(0.1)
        return await elapsed_by(0.2)

    assert run_virtual(sleep_twice()) == 0.3


@in_virtual_time
async def test_timers_fire_in_the_order_of_their_due_times() -> None:
    order: list[int] = []
    async with asyncio.TaskGroup() as sleepers:
        for seconds in (3, 1, 2):
            sleepers.create_task(_note_after(seconds, order))
    assert order == [1, 2, 3]


async def _note_after(seconds: int, order: list[int]) -> None:
    await asyncio.sleep(seconds)
    order.append(seconds)


@in_virtual_time
async def test_a_timeout_expires_in_virtual_time() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3600):
            await asyncio.Event().wait()
    assert asyncio.get_running_loop().time() == 3600


@in_virtual_time
async def test_functions_for_threads_run_at_once_on_the_loop() -> None:
    assert await asyncio.to_thread(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 // 0)


def test_waiting_for_nothing_is_an_error_that_names_the_place() -> None:
    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    with pytest.raises(VirtualTimeStuck, match=r"stands still at 0 s.*test_virtual_time.py"):
        run_virtual(wait_for_ever())


def test_endless_timers_are_an_error_past_the_limit() -> None:
    async def tick_for_ever() -> None:
        for _ in itertools.count():
            await asyncio.sleep(60)

    with pytest.raises(VirtualTimeStuck, match="ran past its limit of 7200 s"):
        run_virtual(tick_for_ever(), limit=7200)


def test_timers_still_fire_after_years() -> None:
    async def sleep_years_and_a_bit() -> float:
        await asyncio.sleep(86_400 * 3650)
        return await elapsed_by(0.5)

    assert run_virtual(sleep_years_and_a_bit(), limit=86_400 * 4000) == 86_400 * 3650 + 0.5
