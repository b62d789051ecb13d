"""The slow resync behind the events, idleness, and stopping."""

from __future__ import annotations

import asyncio

from mooring.engine.pending import Backoff, PendingOperations
from mooring.engine.reconciler import Reconciler
from mooring.testing.scripted_subject import Job, ScriptedSubject, running_reconciler
from mooring.testing.virtual_time import in_virtual_time


@in_virtual_time
async def test_the_resync_finds_work_that_nobody_told_of_and_counts_it() -> None:
    subject = ScriptedSubject()
    async with running_reconciler(subject, resync=60.0) as reconciler:
        await asyncio.sleep(1)
        subject.want(Job("a"), Job("b"))
        await asyncio.sleep(60)
        assert reconciler.resync_found_work == 2
    assert subject.starts() == [60.0, 60.0]


@in_virtual_time
async def test_a_resync_that_finds_nothing_counts_nothing() -> None:
    subject = ScriptedSubject()
    subject.want(Job("a"))
    async with running_reconciler(subject, resync=60.0) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(300)
        assert reconciler.resync_found_work == 0


@in_virtual_time
async def test_a_resync_does_not_count_work_that_only_rests() -> None:
    subject = ScriptedSubject()
    subject.want(Job("a"))
    subject.fail(Job("a"), 8)  # rests from 63.5 s on, so at 60 s it rests too
    async with running_reconciler(subject, resync=60.0) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(61)
        assert reconciler.resync_found_work == 0


@in_virtual_time
async def test_a_resync_does_not_count_work_that_is_under_way() -> None:
    subject = ScriptedSubject()
    subject.seconds = 100.0
    subject.want(Job("a"))
    async with running_reconciler(subject, resync=60.0) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(150)
        assert reconciler.resync_found_work == 0


@in_virtual_time
async def test_after_stop_nothing_new_starts_and_what_runs_ends() -> None:
    subject = ScriptedSubject()
    subject.seconds = 5.0
    subject.want(Job("a"), Job("b"))
    reconciler: Reconciler[Job, bool] = Reconciler(subject, PendingOperations(Backoff()))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(reconciler.run())
        reconciler.touch("a")
        await asyncio.sleep(1)
        reconciler.stop()
        reconciler.touch("b")
    assert subject.ended == [Job("a")]
    assert asyncio.get_running_loop().time() == 5.0


@in_virtual_time
async def test_whoever_waits_for_a_stopped_engine_is_told_when_its_last_operation_ends() -> None:
    """The key that an ending operation touches is not looked at any more, and must not count."""
    subject = ScriptedSubject()
    subject.seconds = 5.0
    subject.want(Job("a"), Job("b"))
    async with running_reconciler(subject, limit=1) as reconciler:
        reconciler.touch("a")
        reconciler.touch("b")
        await asyncio.sleep(1)
        reconciler.stop()
        await reconciler.until_idle()
    assert asyncio.get_running_loop().time() == 5.0
    assert subject.ended == [Job("a")]


@in_virtual_time
async def test_stopping_tells_whoever_already_waits_for_an_engine_with_nothing_running() -> None:
    subject = ScriptedSubject()
    reconciler: Reconciler[Job, bool] = Reconciler(subject, PendingOperations(Backoff()))
    reconciler.touch("a")  # nobody runs it, so it stays to be looked at
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(reconciler.until_idle())
        await asyncio.sleep(1)
        assert not waiting.done()
        reconciler.stop()


@in_virtual_time
async def test_cancelling_cancels_what_runs() -> None:
    subject = ScriptedSubject()
    subject.seconds = 1e5
    subject.want(Job("a"))
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await asyncio.sleep(1)
    assert subject.ended == []
    assert asyncio.get_running_loop().time() == 1.0


@in_virtual_time
async def test_an_engine_with_open_pauses_is_idle() -> None:
    subject = ScriptedSubject()
    subject.want(Job("a"))
    subject.fail(Job("a"), 1)
    async with running_reconciler(subject) as reconciler:
        reconciler.touch("a")
        await reconciler.until_idle()
        assert reconciler.is_idle()
        assert not reconciler.pending.is_empty()
