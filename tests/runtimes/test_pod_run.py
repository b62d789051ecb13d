"""One run of a pod: order, restarts, sidecars, ends, and the exit status; on virtual time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.runtimes.conftest import container, permitted, plan_of

from mooring.host.paths import Paths
from mooring.runtimes.fence import Fence, RunEnded
from mooring.runtimes.interface import ContainerPlan, Role, RunPlan, RuntimeFailed
from mooring.runtimes.logs import LogLine
from mooring.runtimes.pod_run import PodRun, RestartPauses
from mooring.testing.scripted_runtime import ScriptedRuntime
from mooring.testing.virtual_time import in_virtual_time

HEEDFUL = "trap 'exit 5' TERM; sleep 1000 & wait"
ENDLESS = "sleep 100000"


def run_of(runtime: ScriptedRuntime, plan: RunPlan, shown: list[tuple[str, LogLine]] | None = None) -> PodRun:
    lines = shown if shown is not None else []
    return PodRun(runtime, plan, permitted, lambda name, line: lines.append((name, line)))


async def status_of(runtime: ScriptedRuntime, plan: RunPlan) -> int:
    status = await run_of(runtime, plan).run()
    assert await runtime.is_gone(plan.run)
    return status


# -- order and status ----------------------------------------------------------------------------------------------
@in_virtual_time
async def test_init_containers_run_one_after_the_other_before_all_others(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    init = [container(name, "sleep 2", role=Role.INIT) for name in ("one", "two")]
    await status_of(runtime, plan_of(tmp_path, *init, container("a", "sleep 1"), container("b", "sleep 2")))
    assert runtime.happened == [
        *("start one", "end one 0", "start two", "end two 0"),
        *("start a", "start b", "end a 0", "end b 0"),
    ]


@pytest.mark.parametrize(
    ("statuses", "wanted"), [([0, 0], 0), ([0, 4], 4), ([3, 4], 3), ([0], 0)], ids=["none", "one", "two", "alone"]
)
def test_the_status_is_the_first_one_that_is_not_zero_in_container_order(
    tmp_path: Path, statuses: list[int], wanted: int
) -> None:
    @in_virtual_time
    async def check() -> None:
        # Those that come first in the pod end last.
        containers = [container(f"c{at}", f"sleep {10 - at}; exit {status}") for at, status in enumerate(statuses)]
        assert await status_of(ScriptedRuntime(), plan_of(tmp_path, *containers)) == wanted

    check()


@in_virtual_time
async def test_a_failing_init_container_is_the_end_when_nothing_is_restarted(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    plan = plan_of(tmp_path, container("first", "exit 9", role=Role.INIT), container("main"))
    assert await status_of(runtime, plan) == 9
    assert runtime.happened == ["start first", "end first 9"]


@in_virtual_time
async def test_logs_are_shown_with_the_container_that_wrote_them(tmp_path: Path) -> None:
    shown: list[tuple[str, LogLine]] = []
    plan = plan_of(tmp_path, container("a", "echo one; sleep 1; echo two >&2"))
    await run_of(ScriptedRuntime(), plan, shown).run()
    assert shown == [("a", LogLine("stdout", "one")), ("a", LogLine("stderr", "two"))]


# -- restarts ------------------------------------------------------------------------------------------------------
class NotingRuntime(ScriptedRuntime):
    """Notes when containers are started."""

    starts: list[int]

    async def start(self, plan: RunPlan, container: ContainerPlan, attempt: int) -> None:
        self.starts = [*getattr(self, "starts", []), round(asyncio.get_running_loop().time())]
        await super().start(plan, container, attempt)


def times_of(runtime: NotingRuntime, plan: RunPlan, seconds: float) -> list[int]:
    """When containers were started within a time, after which the run is stopped."""

    @in_virtual_time
    async def run() -> None:
        pod = run_of(runtime, plan)
        asyncio.get_running_loop().call_later(seconds, pod.stop)
        await pod.run()

    run()
    return runtime.starts


def test_pauses_between_restarts_double_up_to_a_limit(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, container("main", "exit 1"), restart_policy="Always")
    assert times_of(NotingRuntime(), plan, 1000) == [0, 0, 10, 30, 70, 150, 310, 610, 910]


def test_a_long_good_time_makes_pauses_short_again(tmp_path: Path) -> None:
    scripts = {"main": ["exit 1", "exit 1", "exit 1", "sleep 700; exit 1", "exit 1", "exit 1", ENDLESS]}
    plan = plan_of(tmp_path, container("main"), restart_policy="OnFailure")
    assert times_of(NotingRuntime(scripts), plan, 1000) == [0, 0, 10, 30, 730, 740, 760]


def test_pauses_are_as_long_as_asked_for() -> None:
    pauses = RestartPauses(initial=2, maximum=5)
    assert [pauses.pause(count) for count in range(4)] == [0, 2, 4, 5]


@in_virtual_time
async def test_on_failure_a_container_is_started_until_it_succeeds(tmp_path: Path) -> None:
    runtime = ScriptedRuntime({"main": ["exit 1", "exit 2", "exit 0"], "first": ["exit 1", "exit 0"]})
    plan = plan_of(tmp_path, container("first", role=Role.INIT), container("main"), restart_policy="OnFailure")
    assert await status_of(runtime, plan) == 0
    ends = [happened for happened in runtime.happened if happened.startswith("end")]
    assert ends == ["end first 1", "end first 0", "end main 1", "end main 2", "end main 0"]


@in_virtual_time
async def test_an_init_container_that_succeeded_is_not_started_again(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    plan = plan_of(tmp_path, container("first", role=Role.INIT), container("main", HEEDFUL), restart_policy="Always")
    pod = run_of(runtime, plan)
    asyncio.get_running_loop().call_later(100, pod.stop)
    await pod.run()
    assert runtime.happened.count("start first") == 1


# -- sidecars ------------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_sidecar_runs_beside_all_that_follow_and_is_ended_after_them(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    plan = plan_of(
        tmp_path,
        container("helper", HEEDFUL, role=Role.SIDECAR),
        container("first", "sleep 1", role=Role.INIT),
        container("main", "sleep 1; exit 2"),
    )
    assert await status_of(runtime, plan) == 2
    assert runtime.happened == [
        *("start helper", "start first", "end first 0", "start main", "end main 2", "end helper 5"),
    ]


@in_virtual_time
async def test_a_sidecar_that_ends_is_started_again_whatever_the_pod_says(tmp_path: Path) -> None:
    runtime = ScriptedRuntime({"helper": ["sleep 1; exit 1", HEEDFUL]})
    plan = plan_of(tmp_path, container("helper", role=Role.SIDECAR), container("main", "sleep 60"))
    assert await status_of(runtime, plan) == 0
    assert runtime.happened.count("start helper") == 2


# -- ending early --------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_asked_to_stop_containers_get_their_grace_period(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    plan = plan_of(tmp_path, container("stubborn", "sleep 1000"), container("heedful", HEEDFUL), grace_seconds=20)
    pod = run_of(runtime, plan)
    asyncio.get_running_loop().call_later(10, pod.stop)
    assert await pod.run() == 137
    assert runtime.happened[2:] == ["end heedful 5", "end stubborn 137"]
    assert round(asyncio.get_running_loop().time()) == 30
    assert await runtime.is_gone(plan.run)


@in_virtual_time
async def test_asked_again_they_are_killed_at_once(tmp_path: Path) -> None:
    pod = run_of(ScriptedRuntime(), plan_of(tmp_path, container("stubborn", "sleep 1000")))
    for moment in (10, 12):
        asyncio.get_running_loop().call_later(moment, pod.stop)
    assert await pod.run() == 137
    assert round(asyncio.get_running_loop().time()) == 12


@in_virtual_time
async def test_asked_to_stop_during_a_pause_nothing_is_started_any_more(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    pod = run_of(runtime, plan_of(tmp_path, container("main", "exit 3"), restart_policy="Always"))
    asyncio.get_running_loop().call_later(5, pod.stop)
    assert await pod.run() == 3
    assert runtime.happened.count("start main") == 2


@in_virtual_time
async def test_asked_to_stop_during_init_the_regular_containers_never_start(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    plan = plan_of(tmp_path, container("first", HEEDFUL, role=Role.INIT), container("main"), restart_policy="Always")
    pod = run_of(runtime, plan)
    asyncio.get_running_loop().call_later(5, pod.stop)
    assert await pod.run() == 5
    assert runtime.happened == ["start first", "end first 5"]


# -- what goes wrong -----------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_container_that_cannot_be_started_ends_all_others(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    plan = plan_of(tmp_path, container("good", "sleep 1000"), container("bad", image="none"))
    with pytest.raises(RuntimeFailed, match="cannot use image 'none'"):
        await run_of(runtime, plan).run()
    assert await runtime.is_gone(plan.run)


@in_virtual_time
async def test_a_container_that_somebody_removes_counts_as_killed(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    plan = plan_of(tmp_path, container("main", "sleep 1000"))
    pod = run_of(runtime, plan)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(pod.run())
        await asyncio.sleep(1)
        await runtime.remove(plan.run)
    assert running.result() == 137


@in_virtual_time
async def test_without_a_permit_nothing_is_started(tmp_path: Path) -> None:
    runtime = ScriptedRuntime()
    nowhere = Fence(Paths(str(tmp_path)), "uid-web", "run1")  # without a record there is no run
    pod = PodRun(runtime, plan_of(tmp_path, container("main")), nowhere.permit, lambda name, line: None)
    with pytest.raises(RunEnded):
        await pod.run()
    assert runtime.happened == []
