"""Short calls in which the kernel waits: one by one in a thread, with answers that come together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from mooring.host.interface import Risk
from mooring.host.threads import Threads
from mooring.host.waiting_calls import WaitingCalls


async def test_calls_are_made_in_order_in_one_daemon_thread() -> None:
    calls, made = WaitingCalls(), list[tuple[int, threading.Thread]]()
    for number in range(2):
        await asyncio.gather(
            *(calls.run(lambda n=each: made.append((n, threading.current_thread()))) for each in range(100))  # type: ignore[misc]
        )
        assert [each for each, _ in made] == [*range(100)] * (number + 1)
    (thread,) = {thread for _, thread in made}
    assert thread is not threading.current_thread()
    assert thread.daemon


async def test_an_error_belongs_to_the_one_who_waits() -> None:
    threads = Threads()
    good, bad = await asyncio.gather(
        threads.run(lambda: "gone", risk=Risk.WAITING, what="unmount"),
        threads.run(lambda: 1 // 0, risk=Risk.WAITING, what="unmount"),
        return_exceptions=True,
    )
    assert good == "gone"
    assert isinstance(bad, ZeroDivisionError)


async def test_a_call_whose_caller_left_before_its_turn_is_not_made() -> None:
    calls, made = WaitingCalls(), list[str]()
    release = threading.Event()
    first = asyncio.ensure_future(calls.run(release.wait))
    await asyncio.sleep(0)
    left = asyncio.ensure_future(calls.run(lambda: made.append("left")))
    await asyncio.sleep(0)
    left.cancel()
    with pytest.raises(asyncio.CancelledError):
        await left
    release.set()
    assert await first
    await calls.run(lambda: made.append("last"))
    assert made == ["last"]


async def test_answers_to_many_calls_come_together(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, wakes = asyncio.get_running_loop(), list[int]()
    wake = loop.call_soon_threadsafe

    def count(news: Callable[[], None]) -> asyncio.Handle:
        wakes.append(1)
        return wake(news)

    monkeypatch.setattr(loop, "call_soon_threadsafe", count)
    calls, release = WaitingCalls(), threading.Event()
    first = asyncio.ensure_future(calls.run(release.wait))
    many = [asyncio.ensure_future(calls.run(lambda: None)) for _ in range(320)]
    await asyncio.sleep(0)
    release.set()
    await asyncio.gather(first, *many)
    assert len(wakes) <= 12
