"""Short work, done here or in a second process: the same effects, answers and errors."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from types import ModuleType

import pytest
from tests.host import chores_for_tests as chores

from mooring.errors import Doubtful, Refused
from mooring.host import chores as sharing
from mooring.host.chores import Sharing
from mooring.host.interface import Host
from mooring.host.linux import LinuxHost
from mooring.testing.memory_host import MemoryHost

HERE = os.getpid()


@pytest.fixture
async def host() -> AsyncIterator[LinuxHost]:
    made = LinuxHost(sharing=Sharing.ALWAYS)
    yield made
    made.close()


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(3000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


async def begun(host: LinuxHost) -> int:
    """The second process, once it does chores."""
    for _ in range(3000):
        if (who := await host.do("rest", chores.rest, 0.0)) != HERE:
            return who
        await asyncio.sleep(0.01)
    raise TimeoutError


async def test_a_few_chores_are_done_here(tmp_path: Path) -> None:
    host = LinuxHost()
    assert {await host.do("make", chores.whose, f"{tmp_path}/{number}") for number in range(20)} == {HERE}
    assert host.chores.process is None


async def test_a_burst_is_shared_with_a_process_that_ends_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "_PATIENCE", 0.2)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    host, numbers = LinuxHost(), iter(range(100_000))
    makers: set[int] = set()
    async with asyncio.timeout(60):
        while len(makers) < 2:
            burst = (host.do("make", chores.whose, f"{tmp_path}/{next(numbers)}") for _ in range(200))
            makers.update(await asyncio.gather(*burst))
    assert HERE in makers
    assert {host.chores.process} == makers - {HERE}
    assert len(os.listdir(tmp_path)) == next(numbers)
    await until(lambda: host.chores.process is None)


async def test_a_burst_that_is_expected_finds_the_process_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    host = LinuxHost()
    host.expect_chores(5)
    before = host.chores.process
    host.expect_chores(1000)
    assert (before, await begun(host)) == (None, host.chores.process)
    host.close()


async def test_nothing_is_shared_where_there_is_one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    host = LinuxHost()
    assert set(await asyncio.gather(*(host.do("rest", chores.rest, 0.0) for _ in range(500)))) == {HERE}
    assert host.chores.process is None


async def test_errors_come_back_as_they_are(host: LinuxHost, tmp_path: Path) -> None:
    await begun(host)
    with pytest.raises(FileNotFoundError) as missing:
        await host.do("remove", chores.remove, f"{tmp_path}/none")
    assert (missing.value.errno, missing.value.filename) == (errno.ENOENT, f"{tmp_path}/none")
    with pytest.raises(Refused) as refused:
        await host.do("refuse", chores.refuse, "cannot do it")
    assert (refused.value.what, refused.value.why) == ("cannot do it", "it is not wanted")
    assert str(refused.value) == "cannot do it: it is not wanted. Want it."


async def test_a_mistake_in_a_chore_brings_the_place_it_was_made_at(host: LinuxHost) -> None:
    await begun(host)
    with pytest.raises(ZeroDivisionError) as mistake:
        await host.do("stumble", chores.stumble)
    assert "in stumble" in "".join(mistake.value.__notes__)
    assert await begun(host) == host.chores.process  # and costs nobody else anything


async def test_what_is_too_long_for_a_message_is_done_here(host: LinuxHost) -> None:
    await begun(host)
    assert await host.do("size", chores.size, bytes(1 << 20)) == (1 << 20, HERE)


async def test_what_cannot_be_sent_or_found_there_is_done_here(
    host: LinuxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(host)
    assert await host.do("local", lambda _: os.getpid()) == HERE

    def unknown(_: Host) -> int:
        return os.getpid()

    module = ModuleType("only_here")
    unknown.__module__, unknown.__qualname__ = module.__name__, "unknown"
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(module, "unknown", unknown, raising=False)
    assert await host.do("unknown", unknown) == HERE
    assert await begun(host) == host.chores.process


async def test_an_answer_that_cannot_be_read_ends_the_sharing_and_nobody_waits_for_ever(host: LinuxHost) -> None:
    await begun(host)
    with pytest.raises(Doubtful):
        await host.do("ramble", chores.ramble)
    assert host.chores.process is None
    assert await host.do("rest", chores.rest, 0.0) == HERE


async def test_what_the_kernel_takes_no_message_for_is_done_here(
    host: LinuxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(host)
    monkeypatch.setattr(sharing, "LONGEST", 1 << 30)
    assert await host.do("size", chores.size, bytes(1 << 20)) == (1 << 20, HERE)


async def test_chores_of_a_process_that_is_killed_are_in_doubt_and_another_one_follows(host: LinuxHost) -> None:
    first = await begun(host)
    under_way = [asyncio.ensure_future(host.do("rest", chores.rest, 30.0)) for _ in range(3)]
    await asyncio.sleep(0.1)
    os.kill(first, signal.SIGKILL)
    ends = await asyncio.gather(*under_way, return_exceptions=True)
    assert [type(end) for end in ends] == [Doubtful] * 3
    assert await begun(host) != first


async def test_a_process_with_other_rights_or_mounts_is_not_used(
    host: LinuxHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sharing, "surroundings", lambda: b"elsewhere")
    assert await host.do("rest", chores.rest, 0.0) == HERE
    assert host.chores.process is not None
    await until(lambda: host.chores.process is None)
    assert set(await asyncio.gather(*(host.do("rest", chores.rest, 0.0) for _ in range(500)))) == {HERE}
    assert host.chores.process is None


async def test_the_process_goes_when_the_host_is_closed(host: LinuxHost) -> None:
    process = await begun(host)
    host.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


_KILLED = """
import asyncio, os, signal, sys
from tests.host import chores_for_tests as chores
from mooring.host.chores import Sharing
from mooring.host.linux import LinuxHost
from mooring.testing.memory_host import MemoryHost

async def main():
    host = LinuxHost(sharing=Sharing.ALWAYS)
    while await host.do("rest", chores.rest, 0.0) == os.getpid():
        await asyncio.sleep(0.01)
    works = [asyncio.ensure_future(host.do("make", chores.rest, 60.0))]
    await asyncio.sleep(0.1)
    print(host.chores.process, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_the_process_dies_with_the_one_that_started_it() -> None:
    ended = subprocess.run([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, check=False, timeout=60)
    assert ended.returncode == -signal.SIGKILL
    process = Path("/proc", ended.stdout.decode().strip())
    while process.exists() and "\nState:\tZ" not in (process / "status").read_text():
        time.sleep(0.01)


async def test_a_machine_in_memory_refuses_what_could_not_be_done_in_another_process() -> None:
    host = MemoryHost()
    await host.do("make", chores.whose, "/made")
    with pytest.raises((AttributeError, pickle.PicklingError)):
        await host.do("make", lambda _: None)
