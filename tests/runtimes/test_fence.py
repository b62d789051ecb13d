"""Who may start containers, and whether those who started them are still there."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.runtimes.test_records import RECORD

from mooring.errors import Doubtful
from mooring.host.paths import Paths
from mooring.runtimes.fence import Fence, RunEnded, close_fence
from mooring.runtimes.processes import is_alive, process_of, until_ended
from mooring.runtimes.records import RunRecords


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    found = Paths(str(tmp_path))
    RunRecords(found).begin(RECORD)
    return found


async def test_containers_may_be_started_as_long_as_the_run_goes_on(paths: Paths) -> None:
    for _ in range(2):
        async with Fence(paths, "uid-web", "run1").permit():
            pass


async def test_after_the_fence_is_closed_nothing_is_started(paths: Paths) -> None:
    closed = await close_fence(paths, RECORD, timeout=1)
    assert RunRecords(paths).read("uid-web") == closed == replace(RECORD, stopping=True)
    with pytest.raises(RunEnded):
        async with Fence(paths, "uid-web", "run1").permit():
            pass


async def test_a_later_run_of_the_pod_is_not_ours(paths: Paths) -> None:
    RunRecords(paths).write(replace(RECORD, run="run2"))
    with pytest.raises(RunEnded):
        async with Fence(paths, "uid-web", "run1").permit():
            pass


async def test_a_forgotten_run_starts_nothing(paths: Paths) -> None:
    RunRecords(paths).forget("uid-web")
    with pytest.raises(RunEnded):
        async with Fence(paths, "uid-web", "run1").permit():
            pass


async def test_closing_waits_for_a_start_under_way(paths: Paths) -> None:
    async with asyncio.TaskGroup() as tasks:
        async with Fence(paths, "uid-web", "run1").permit():
            closing = tasks.create_task(close_fence(paths, RECORD, timeout=30))
            await asyncio.sleep(0.05)
            assert RunRecords(paths).read("uid-web") == RECORD
        assert (await closing).stopping


async def test_a_start_that_takes_too_long_is_told(paths: Paths) -> None:
    async with Fence(paths, "uid-web", "run1").permit():
        with pytest.raises(Doubtful, match=f"process {os.getpid()} has been starting one for 0.01 s"):
            await close_fence(paths, RECORD, timeout=0.01)
    assert RunRecords(paths).read("uid-web") == RECORD


# -- the client ----------------------------------------------------------------------------------------------------
@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that goes on until it is ended."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


async def test_the_end_of_a_process_is_noticed(child: subprocess.Popen[bytes]) -> None:
    process = process_of(child.pid)
    assert process is not None
    assert is_alive(process)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(until_ended(process))
        await asyncio.sleep(0)
        assert not waiting.done()
        child.send_signal(signal.SIGKILL)
        await asyncio.wait_for(waiting, 30)
    assert not is_alive(process)  # nobody has taken its status yet, and it has ended all the same
    child.wait()
    assert process_of(child.pid) is None
    await until_ended(process)


async def test_a_process_with_a_number_used_again_is_another_one() -> None:
    own = process_of(os.getpid())
    assert own is not None
    earlier = replace(own, started=own.started - 1)
    assert not is_alive(earlier)
    assert not is_alive(replace(own, boot="another"))
    await until_ended(earlier)
