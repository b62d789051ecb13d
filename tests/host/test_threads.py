"""Calls run where their risk belongs, and a stuck one costs nothing but its thread."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from mooring.errors import Doubtful
from mooring.host.interface import Risk
from mooring.host.threads import Threads


async def hanging_threads_end() -> None:
    for thread in threading.enumerate():
        if thread.name.startswith("mooring-hanging"):
            await asyncio.to_thread(thread.join, 30)
    await asyncio.sleep(0)


async def test_a_cheap_call_runs_on_the_event_loop() -> None:
    thread = await Threads().run(threading.current_thread, risk=Risk.CHEAP, what="look")
    assert thread is threading.current_thread()


@pytest.mark.parametrize("risk", [Risk.BULKY, Risk.HANGING])
async def test_risky_calls_run_in_daemon_threads(risk: Risk) -> None:
    thread = await Threads().run(threading.current_thread, risk=risk, what="look")
    assert thread is not threading.current_thread()
    assert thread.daemon


async def test_bulky_calls_share_a_bounded_number_of_threads() -> None:
    threads = Threads(pool_size=2)
    met = threading.Barrier(2, timeout=10)

    def meet() -> str:
        met.wait()
        return threading.current_thread().name

    names = await asyncio.gather(*(threads.run(meet, risk=Risk.BULKY, what="walk") for _ in range(8)))
    assert set(names) == {"mooring-pool-1", "mooring-pool-2"}


async def test_a_call_without_an_answer_is_doubtful_and_its_thread_counted() -> None:
    threads = Threads(deadline=0.01)
    release = threading.Event()
    with pytest.raises(Doubtful, match=r"cannot unmount 'data': no answer within 0\.01 s"):
        await threads.run(lambda: release.wait(30), risk=Risk.HANGING, what="cannot unmount 'data'")
    assert [stall.what for stall in threads.hanging.stalls()] == ["cannot unmount 'data'"]
    release.set()
    await hanging_threads_end()
    assert threads.hanging.stalls() == ()


async def test_a_call_whose_caller_left_is_counted_until_it_ends() -> None:
    threads = Threads()
    started, release = threading.Event(), threading.Event()

    def hang() -> None:
        started.set()
        release.wait(30)

    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(threads.run(hang, risk=Risk.HANGING, what="stat"))
        await asyncio.to_thread(started.wait, 10)
        waiting.cancel()
    assert len(threads.hanging.stalls()) == 1
    release.set()
    await hanging_threads_end()
    assert threads.hanging.stalls() == ()


async def test_a_timeout_that_the_call_itself_reports_is_its_answer() -> None:
    def timed_out() -> None:
        raise TimeoutError(110, "Connection timed out")

    threads = Threads()
    with pytest.raises(TimeoutError, match="Connection timed out"):
        await threads.run(timed_out, risk=Risk.HANGING, what="stat")
    assert threads.hanging.stalls() == ()


async def test_a_bulky_call_that_nobody_waits_for_is_not_begun() -> None:
    threads = Threads(pool_size=1)
    begun: list[str] = []
    occupied, release = threading.Event(), threading.Event()

    def occupy() -> None:
        occupied.set()
        release.wait(30)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(threads.run(occupy, risk=Risk.BULKY, what="walk"))
        await asyncio.to_thread(occupied.wait, 10)
        queued = tasks.create_task(threads.run(lambda: begun.append("queued"), risk=Risk.BULKY, what="walk"))
        await asyncio.sleep(0)
        queued.cancel()
        await asyncio.sleep(0)
        release.set()
    await threads.run(lambda: begun.append("last"), risk=Risk.BULKY, what="walk")
    assert begun == ["last"]


def test_a_stuck_thread_does_not_keep_the_process_from_exiting() -> None:
    program = """
import asyncio, threading
from mooring.errors import Doubtful
from mooring.host.interface import Risk
from mooring.host.threads import Threads

async def main():
    threads = Threads(deadline=0.01)
    pool = asyncio.ensure_future(threads.run(threading.Event().wait, risk=Risk.BULKY, what="walk"))
    try:
        await threads.run(threading.Event().wait, risk=Risk.HANGING, what="stat")
    except Doubtful:
        print("left", len(threads.hanging.stalls()))

asyncio.run(main())
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert ended.stdout == "left 1\n"
