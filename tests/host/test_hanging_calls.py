"""Calls that do not return: seen, passed by, given up, and without effect once they do return."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mooring.errors import Doubtful
from mooring.host import hanging_calls
from mooring.host.hanging_calls import WORK, HangingCalls


class Gate:
    """Something that blocks a thread until a test opens it."""

    def __init__(self) -> None:
        self.entered, self.opened, self.passed = threading.Event(), threading.Event(), threading.Event()
        self.effects: list[str] = []

    def wait(self) -> str:
        self.entered.set()
        self.opened.wait(30)
        self.passed.set()
        return self.effect()

    def effect(self) -> str:
        self.effects.append("done")
        return "answer"


@contextmanager
def stalling_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(hanging_calls, "STALLED_AFTER", 0.0)
    yield


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.opened.set()


async def stalled(calls: HangingCalls) -> None:
    """Return when a call has stalled."""
    news = asyncio.Event()
    calls.watch = news.set
    while not calls.stalls():
        await news.wait()
        news.clear()


async def left(calls: HangingCalls) -> None:
    """Return when no thread is left behind any more."""
    news = asyncio.Event()
    calls.watch = news.set
    while calls.stalls():
        await news.wait()
        news.clear()


async def test_an_answer_is_returned_and_nothing_stalls(gate: Gate) -> None:
    calls = HangingCalls(deadline=30)
    gate.opened.set()
    assert await calls.run(gate.wait, what="stat", at="/srv") == "answer"
    assert calls.stalls() == ()


async def test_a_call_without_an_answer_stalls_with_what_it_is_and_whom_it_is_for(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = HangingCalls(deadline=30)
    with stalling_at_once(monkeypatch):
        async with asyncio.TaskGroup() as tasks:
            WORK.set("a volume")
            running = tasks.create_task(calls.run(gate.wait, what="stat", at="/srv"))
            await stalled(calls)
            (stall,) = calls.stalls()
            assert (stall.what, stall.at, stall.work, stall.abandoned) == ("stat", "/srv", "a volume", False)
            gate.opened.set()
            assert await running == "answer"
    assert calls.stalls() == ()


async def test_a_call_that_is_given_up_is_doubtful_and_has_no_effect_when_it_returns(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = HangingCalls(deadline=30)
    with stalling_at_once(monkeypatch):
        async with asyncio.TaskGroup() as tasks:
            WORK.set("a volume")
            running = tasks.create_task(_refused(calls, gate))
            await stalled(calls)
            calls.give_up("another volume", "nobody cares")
            await asyncio.sleep(0)
            assert not running.done()
            calls.give_up("a volume", "the pod is gone")
            assert "the pod is gone" in await running
    (stall,) = calls.stalls()
    assert stall.abandoned
    gate.opened.set()
    await left(calls)
    assert gate.effects == []


async def _refused(calls: HangingCalls, gate: Gate) -> str:
    with pytest.raises(Doubtful) as caught:
        await calls.run(gate.wait, what="stat", at="")
    return str(caught.value)


async def test_the_same_call_is_not_begun_again_while_its_thread_is_stuck(gate: Gate) -> None:
    calls = HangingCalls(deadline=0.01)
    with pytest.raises(Doubtful, match=r"no answer within 0\.01 s"):
        await calls.run(gate.wait, what="stat", at="")
    with pytest.raises(Doubtful, match="an earlier call has had no answer"):
        await calls.run(gate.effect, what="stat", at="")
    assert await calls.run(lambda: "another", what="unmount", at="") == "another"
    gate.opened.set()
    await left(calls)
    assert gate.effects == []
    assert await calls.run(gate.effect, what="stat", at="") == "answer"


async def test_whoever_watches_hears_when_a_stalled_call_ends(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = HangingCalls(deadline=30)
    with stalling_at_once(monkeypatch):
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(calls.run(gate.wait, what="stat", at=""))
            await stalled(calls)
            news = asyncio.Event()
            calls.watch = news.set
            gate.opened.set()
            await news.wait()
    assert calls.stalls() == ()
