"""What every container runtime must do. Derive a test class and give it the fixtures `runtime` and `image`.

The image must hold a shell; scripts keep to what `mooring.testing.scripted_runtime` understands, too.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mooring.runtimes.interface import (
    KILLED,
    ContainerPlan,
    ContainerState,
    Phase,
    Pull,
    Role,
    RunPlan,
    Runtime,
    RuntimeFailed,
)
from mooring.runtimes.logs import LogLine, follow

PATIENCE = 60.0
ENDLESS = "sleep 1000"
HEEDFUL = "trap 'exit 7' TERM; echo ready; sleep 1000 & wait"


def container(name: str, script: str, *, image: str) -> ContainerPlan:
    return ContainerPlan(
        name=name, role=Role.REGULAR, image=image, pull=Pull.NEVER, command=("/bin/busybox", "sh", "-c", script)
    )


class RuntimeConformance:
    """The suite. Each test has a run of its own, and what it leaves is removed."""

    @pytest.fixture
    async def plan(self, runtime: Runtime, image: str, tmp_path: Path) -> AsyncIterator[RunPlan]:
        scripts = {"quick": "exit 3", "endless": ENDLESS, "heedful": HEEDFUL, "loud": "echo out; echo err >&2"}
        (tmp_path / "logs").mkdir()
        for name in scripts:
            (tmp_path / "logs" / name).mkdir()
        made = RunPlan(
            run=uuid.uuid4().hex[:12],
            uid=str(uuid.uuid4()),
            namespace="default",
            name="conformance",
            log_directory=str(tmp_path / "logs"),
            containers=tuple(container(name, script, image=image) for name, script in scripts.items()),
        )
        await runtime.make_sandbox(made)
        yield made
        await runtime.remove(made.run)

    async def start(self, runtime: Runtime, plan: RunPlan, name: str, attempt: int = 0) -> None:
        chosen = next(each for each in plan.containers if each.name == name)
        await runtime.fetch_image(chosen)
        await runtime.start(plan, chosen, attempt)

    async def wait(self, runtime: Runtime, plan: RunPlan, name: str, attempt: int = 0) -> int | None:
        async with asyncio.timeout(PATIENCE):
            return await runtime.wait(plan.run, name, attempt)

    async def test_a_container_ends_with_its_own_status(self, runtime: Runtime, plan: RunPlan) -> None:
        await self.start(runtime, plan, "quick")
        assert await self.wait(runtime, plan, "quick") == 3
        assert await runtime.states(plan.run) == [
            ContainerState(name="quick", attempt=0, phase=Phase.ENDED, exit_code=3)
        ]

    async def test_containers_that_run_are_told_in_order(self, runtime: Runtime, plan: RunPlan) -> None:
        for name in ("heedful", "endless"):
            await self.start(runtime, plan, name)
        assert await runtime.states(plan.run) == [
            ContainerState(name=name, attempt=0, phase=Phase.RUNNING) for name in ("endless", "heedful")
        ]
        assert not await runtime.is_gone(plan.run)

    async def test_stopping_gives_a_container_the_chance_to_end_by_itself(
        self, runtime: Runtime, plan: RunPlan
    ) -> None:
        await self.start(runtime, plan, "heedful")
        await self.until_written(plan, "heedful")
        await runtime.stop(plan.run, 30)
        assert await self.wait(runtime, plan, "heedful") == 7

    async def until_written(self, plan: RunPlan, name: str) -> None:
        """Return when a container has written something."""
        written = asyncio.Event()
        async with asyncio.timeout(PATIENCE):
            await follow(f"{plan.log_directory}/{plan.log_path(name, 0)}", written, lambda line: written.set())

    async def test_after_the_grace_period_a_container_is_killed(self, runtime: Runtime, plan: RunPlan) -> None:
        await self.start(runtime, plan, "endless")
        await runtime.stop(plan.run, 0)
        assert await self.wait(runtime, plan, "endless") == KILLED

    async def test_stopping_what_has_ended_does_nothing(self, runtime: Runtime, plan: RunPlan) -> None:
        await self.start(runtime, plan, "quick")
        await self.wait(runtime, plan, "quick")
        await runtime.stop(plan.run, 30)
        assert await self.wait(runtime, plan, "quick") == 3

    async def test_after_removal_nothing_is_left_and_nothing_is_to_be_removed(
        self, runtime: Runtime, plan: RunPlan
    ) -> None:
        for name in ("quick", "endless"):
            await self.start(runtime, plan, name)
        await runtime.remove(plan.run)
        assert await runtime.states(plan.run) == []
        assert await runtime.is_gone(plan.run)
        await runtime.remove(plan.run)
        assert await self.wait(runtime, plan, "endless") is None

    async def test_a_further_attempt_takes_the_place_of_the_earlier_one(self, runtime: Runtime, plan: RunPlan) -> None:
        for attempt in (0, 1):
            await self.start(runtime, plan, "quick", attempt)
            assert await self.wait(runtime, plan, "quick", attempt) == 3
        assert [state.attempt for state in await runtime.states(plan.run)] == [1]

    async def test_both_streams_are_in_the_log(self, runtime: Runtime, plan: RunPlan) -> None:
        await self.start(runtime, plan, "loud")
        assert await self.wait(runtime, plan, "loud") == 0
        ended = asyncio.Event()
        ended.set()
        lines: list[LogLine] = []
        await follow(f"{plan.log_directory}/{plan.log_path('loud', 0)}", ended, lines.append)
        assert sorted(lines, key=lambda line: line.text) == [LogLine("stderr", "err"), LogLine("stdout", "out")]

    async def test_runs_do_not_see_each_other(self, runtime: Runtime, plan: RunPlan) -> None:
        await self.start(runtime, plan, "endless")
        await runtime.stop("another", 0)
        await runtime.remove("another")
        assert await runtime.is_gone("another")
        assert [state.phase for state in await runtime.states(plan.run)] == [Phase.RUNNING]

    async def test_an_image_that_must_not_be_fetched_and_is_not_there_is_named(self, runtime: Runtime) -> None:
        with pytest.raises(RuntimeFailed, match=r"cannot use image 'localhost/none:1'"):
            await runtime.fetch_image(container("main", "exit 0", image="localhost/none:1"))
