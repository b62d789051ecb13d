"""Runs and their volumes: nothing is let go before the runtime says that nothing is left."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.runtimes.conftest import container, plan_of
from tests.runtimes.test_records import RECORD

from mooring.errors import Refused
from mooring.host.paths import Paths
from mooring.runtimes.fence import Fence, RunEnded
from mooring.runtimes.interface import Runtime
from mooring.runtimes.processes import process_of
from mooring.runtimes.records import RunRecord, RunRecords, RuntimeOptions
from mooring.runtimes.supervisor import RunSupervisor
from mooring.testing.scripted_runtime import ScriptedRuntime
from mooring.world.names import PodUid

WEB = PodUid("uid-web")
HEEDFUL = "trap 'exit 5' TERM; sleep 1000 & wait"
PATIENCE = 30.0


class Volumes:
    """Which pods are wanted, and what was told of their containers."""

    def __init__(self) -> None:
        self.unwanted: set[PodUid] = set()
        self.told: dict[PodUid, str] = {}
        self.changed = asyncio.Event()

    def wants(self, uid: PodUid) -> bool:
        return uid not in self.unwanted

    def containers_changed(self, uid: PodUid, left: str | None) -> None:
        if left is None:
            del self.told[uid]
        else:
            self.told[uid] = left
        self.changed.set()

    async def until_told(self, words: str | None) -> None:
        """Return when of the pod `web` is told what contains these words, or nothing."""
        async with asyncio.timeout(PATIENCE):
            while not (WEB not in self.told if words is None else words in self.told.get(WEB, "")):
                self.changed.clear()
                await self.changed.wait()


class Surroundings:
    """A root directory, volumes, and a runtime with one run of the pod `web`."""

    def __init__(self, place: Path, record: RunRecord) -> None:
        self.paths, self.place, self.record = Paths(str(place)), place, record
        self.volumes, self.runtime = Volumes(), ScriptedRuntime()
        self.supervisor = RunSupervisor(self.paths, self.volumes, self.make_runtime, pause=lambda failures: 3600.0)

    def make_runtime(self, name: str, options: RuntimeOptions) -> Runtime:
        assert (name, options) == (RECORD.runtime, RECORD.options)
        return self.runtime

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            keeping = tasks.create_task(self.supervisor.run())
            await asyncio.sleep(0)
            yield
            keeping.cancel()

    async def start(self, name: str = "main", script: str = HEEDFUL) -> None:
        plan = plan_of(self.place / "logs", container(name, script))
        await self.runtime.make_sandbox(plan)
        await self.runtime.start(plan, plan.containers[0], 0)
        await asyncio.sleep(0)

    def delete_pod(self) -> None:
        self.volumes.unwanted.add(WEB)
        self.supervisor.look(WEB)


@pytest.fixture
async def around(tmp_path: Path) -> Surroundings:
    return Surroundings(tmp_path, RECORD)


@pytest.fixture
def client() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def record_of(client: subprocess.Popen[bytes]) -> RunRecord:
    process = process_of(client.pid)
    assert process is not None
    return replace(RECORD, client=process)


def gone_client() -> RunRecord:
    return replace(RECORD, client=replace(RECORD.client, started=1))


# -- a run that is looked after by its client ----------------------------------------------------------------------
async def test_a_run_holds_its_volumes_from_before_anything_is_started(around: Surroundings) -> None:
    async with around.running():
        around.supervisor.begin(RECORD)
        assert around.volumes.told == {WEB: "they were started with cri"}
        assert RunRecords(around.paths).load() == ([RECORD], [])


async def test_a_second_run_of_a_pod_is_refused_while_the_first_one_lasts(around: Surroundings) -> None:
    around.supervisor.begin(RECORD)
    with pytest.raises(Refused, match="cannot run pod 'default/web': they were started with cri"):
        around.supervisor.begin(replace(RECORD, run="run2"))


async def test_when_the_client_has_removed_everything_the_record_goes(around: Surroundings) -> None:
    async with around.running():
        around.supervisor.begin(RECORD)
        assert await around.supervisor.end(WEB, "run1", timeout=PATIENCE) is None
        assert around.volumes.told == {}
        assert os.listdir(around.paths.runs_dir) == []


async def test_what_a_client_forgot_to_remove_is_removed(around: Surroundings) -> None:
    async with around.running():
        around.supervisor.begin(RECORD)
        await around.start()
        assert await around.supervisor.end(WEB, "run1", timeout=PATIENCE) is None
        assert await around.runtime.is_gone("run1")


async def test_the_end_of_another_run_is_nobodys_business(around: Surroundings) -> None:
    async with around.running():
        around.supervisor.begin(RECORD)
        assert await around.supervisor.end(WEB, "another", timeout=0) is None
        assert around.supervisor.words(WEB) is not None


async def test_a_client_hears_why_its_end_is_not_certain(around: Surroundings) -> None:
    async with around.running():
        around.supervisor.begin(RECORD)
        around.runtime.broken = "nobody is at home"
        cause = await around.supervisor.end(WEB, "run1", timeout=0.05)
        assert cause == "the scripted runtime cannot remove containers: nobody is at home"
        assert RunRecords(around.paths).exists(WEB)


# -- a pod that is deleted -----------------------------------------------------------------------------------------
async def test_the_containers_of_a_deleted_pod_end_before_its_volumes_are_let_go(around: Surroundings) -> None:
    async with around.running():
        around.supervisor.begin(RECORD)
        await around.start()
        around.delete_pod()
        await around.volumes.until_told(None)
        assert around.runtime.happened == ["start main", "end main 5"]
        assert await around.runtime.is_gone("run1")


async def test_while_containers_are_stopped_the_client_starts_no_other(around: Surroundings) -> None:
    async with around.running():
        around.supervisor.begin(replace(RECORD, grace_seconds=3600))
        await around.start(script="sleep 1000")
        around.delete_pod()
        await around.volumes.until_told("the scripted runtime is stopping them")
        with pytest.raises(RunEnded):
            async with Fence(around.paths, WEB, "run1").permit():
                pass
        assert WEB in around.volumes.told


async def test_a_runtime_that_does_not_answer_holds_the_volumes_and_says_why(around: Surroundings) -> None:
    async with around.running():
        around.supervisor.begin(RECORD)
        await around.start()
        around.runtime.broken = "connection refused"
        around.delete_pod()
        await around.volumes.until_told("the scripted runtime cannot stop containers: connection refused")
        assert around.supervisor.left() == {
            "default/web": "the scripted runtime cannot stop containers: connection refused"
        }
        around.runtime.broken = ""
        around.supervisor.look(WEB)  # any news ends the pause
        await around.volumes.until_told(None)


async def test_waiting_for_the_end_of_all_runs_ends_with_the_last(around: Surroundings) -> None:
    async with around.running():
        around.supervisor.begin(RECORD)
        with pytest.raises(TimeoutError):
            await around.supervisor.until_none(timeout=0)
        around.delete_pod()
        await around.supervisor.until_none(timeout=PATIENCE)


# -- a client that dies --------------------------------------------------------------------------------------------
async def test_containers_outlive_their_client_and_hold_the_volumes(
    around: Surroundings, client: subprocess.Popen[bytes]
) -> None:
    async with around.running():
        around.supervisor.begin(record_of(client))
        await around.start()
        client.kill()
        await around.volumes.until_told("goes on with main, although their client has gone")
        assert not await around.runtime.is_gone("run1")
        await around.runtime.stop("run1", 0)  # they end by themselves
        await around.volumes.until_told(None)
        assert await around.runtime.is_gone("run1")


async def test_sidecars_without_anyone_to_help_are_ended(around: Surroundings, client: subprocess.Popen[bytes]) -> None:
    async with around.running():
        around.supervisor.begin(record_of(client))
        await around.start("log")
        client.kill()
        await around.volumes.until_told(None)
        assert await around.runtime.is_gone("run1")


async def test_a_pod_deleted_after_its_client_died_is_stopped(
    around: Surroundings, client: subprocess.Popen[bytes]
) -> None:
    async with around.running():
        around.supervisor.begin(record_of(client))
        await around.start()
        client.kill()
        await around.volumes.until_told("goes on with main")
        around.delete_pod()
        await around.volumes.until_told(None)
        assert around.runtime.happened == ["start main", "end main 5"]


# -- a daemon that starts again ------------------------------------------------------------------------------------
async def test_a_record_holds_the_volumes_before_anything_is_asked(around: Surroundings) -> None:
    RunRecords(around.paths).begin(RECORD)
    around.supervisor.load()
    assert WEB in around.volumes.told


async def test_a_run_whose_client_lives_goes_on_after_a_restart(around: Surroundings) -> None:
    RunRecords(around.paths).begin(RECORD)
    around.supervisor.load()
    async with around.running():
        await asyncio.sleep(0)
        assert around.volumes.told == {WEB: "they were started with cri"}
        assert await around.supervisor.end(WEB, "run1", timeout=PATIENCE) is None


async def test_a_run_that_ended_while_nobody_looked_is_cleaned_up(around: Surroundings) -> None:
    await around.start(script="exit 0")
    RunRecords(around.paths).begin(gone_client())
    around.supervisor.load()
    async with around.running():
        await around.volumes.until_told(None)
    assert await around.runtime.is_gone("run1")
    assert os.listdir(around.paths.runs_dir) == []


async def test_a_stop_that_a_crash_interrupted_is_finished(around: Surroundings) -> None:
    await around.start()
    RunRecords(around.paths).begin(replace(RECORD, stopping=True))
    around.volumes.unwanted.add(WEB)
    around.supervisor.load()
    async with around.running():
        await around.volumes.until_told(None)
    assert around.runtime.happened == ["start main", "end main 5"]


# -- a record that cannot be read ----------------------------------------------------------------------------------
async def test_a_broken_record_is_a_finding_and_holds_just_its_own_pod(around: Surroundings) -> None:
    RunRecords(around.paths).begin(gone_client())
    odd = Path(around.paths.run_record("uid-odd"))
    odd.write_text("{")
    around.supervisor.load()
    async with around.running():
        await around.volumes.until_told(None)
        assert around.volumes.told == {PodUid("uid-odd"): f"the record {odd} cannot be read"}
        [finding] = around.supervisor.findings()
        assert (finding.kind, finding.where) == ("run", str(odd))
        assert "mooring.pod=uid-odd" in finding.next_step


async def test_a_broken_record_that_was_removed_holds_nothing_any_more(around: Surroundings) -> None:
    Path(around.paths.runs_dir).mkdir()
    odd = Path(around.paths.run_record("uid-odd"))
    odd.write_text("{")
    around.supervisor.load()
    odd.unlink()
    around.supervisor.look_at_all()
    assert around.volumes.told == {}
    assert list(around.supervisor.findings()) == []
    await around.supervisor.until_none(timeout=0)


async def test_a_pod_with_a_broken_record_is_not_run(around: Surroundings) -> None:
    Path(around.paths.runs_dir).mkdir()
    Path(around.paths.run_record("uid-web")).write_text("{")
    around.supervisor.load()
    with pytest.raises(Refused, match="cannot be read"):
        around.supervisor.begin(RECORD)
