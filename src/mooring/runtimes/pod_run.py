"""One run of a pod: init containers in order, then the regular ones together, restarts, and the exit status."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from mooring.errors import MooringError
from mooring.runtimes.interface import KILLED, ContainerPlan, Role, RunPlan, Runtime
from mooring.runtimes.logs import LogLine, follow

Permit = Callable[[], AbstractAsyncContextManager[None]]
Show = Callable[[str, LogLine], None]
"""Told the name of a container and a line that it wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartPauses:
    """How long a container rests before it is started again, as a kubelet has it: the first time not at all."""

    initial: float = 10.0
    maximum: float = 300.0
    forgiven_after: float = 600.0  # seconds after which earlier failures do not count

    def pause(self, restarts: int) -> float:
        """The pause before one more start, after `restarts` of them."""
        return 0.0 if restarts == 0 else min(self.initial * 2 ** (restarts - 1), self.maximum)


class PodRun:
    """Runs the containers of a plan to their end, and leaves nothing of them behind."""

    def __init__(
        self, runtime: Runtime, plan: RunPlan, permit: Permit, show: Show, pauses: RestartPauses | None = None
    ) -> None:
        self._runtime, self._plan, self._permit, self._show = runtime, plan, permit, show
        self._pauses = pauses if pauses is not None else RestartPauses()
        self._stopping = asyncio.Event()
        self._hurry = asyncio.Event()

    def stop(self) -> None:
        """End the run: containers get their grace period. Asked for again, they are killed at once."""
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    async def run(self) -> int:
        """The exit status: 0 when all containers ended with 0, else the first other one in their order.

        An error when a container could not be started; by then all others have been ended.
        """
        try:
            async with self._permit():
                await self._runtime.make_sandbox(self._plan)
            return await self._run_containers()
        except BaseExceptionGroup as group:
            raise _first_mistake(group) from group
        finally:
            await self._runtime.remove(self._plan.run)

    async def _run_containers(self) -> int:
        async with asyncio.TaskGroup() as tasks:
            stopping = tasks.create_task(self._stop_when_asked(), name="stopping")
            status = await self._in_order(tasks)
            self._stopping.set()  # what is still there are sidecars, which nobody needs any more
            await stopping
        return status

    async def _in_order(self, tasks: asyncio.TaskGroup) -> int:
        for container in self._plan.containers:
            if self._stopping.is_set():
                return KILLED
            if container.role is Role.SIDECAR:
                started = asyncio.Event()
                tasks.create_task(self._until_done(container, "Always", started), name=container.name)
                await started.wait()
            elif container.role is Role.INIT:
                policy = "Never" if self._plan.restart_policy == "Never" else "OnFailure"
                status = await self._until_done(container, policy, asyncio.Event())
                if status != 0:
                    return status
        regular = [
            tasks.create_task(
                self._until_done(container, self._plan.restart_policy, asyncio.Event()), name=container.name
            )
            for container in self._plan.containers
            if container.role is Role.REGULAR
        ]
        statuses = [await task for task in regular]
        return next((status for status in statuses if status != 0), 0)

    async def _until_done(self, container: ContainerPlan, policy: str, started: asyncio.Event) -> int:
        """Run a container until its policy wants no further start; its last exit status."""
        attempt = restarts = 0
        clock = asyncio.get_running_loop().time
        await self._runtime.fetch_image(container)
        while True:
            began = clock()
            status = await self._once(container, attempt, started)
            if not _starts_again(policy, status) or self._stopping.is_set():
                return status
            restarts = 0 if clock() - began >= self._pauses.forgiven_after else restarts
            await _set_within(self._stopping, self._pauses.pause(restarts))
            if self._stopping.is_set():
                return status
            attempt, restarts = attempt + 1, restarts + 1

    async def _once(self, container: ContainerPlan, attempt: int, started: asyncio.Event) -> int:
        async with self._permit():
            if self._stopping.is_set():
                return KILLED
            await self._runtime.start(self._plan, container, attempt)
        started.set()
        if self._stopping.is_set():  # whoever stops the others may have looked before this one was there
            await self._runtime.stop(self._plan.run, self._plan.grace_seconds)
        path = f"{self._plan.log_directory}/{self._plan.log_path(container.name, attempt)}"
        async with _following(path, lambda line: self._show(container.name, line)):
            status = await self._runtime.wait(self._plan.run, container.name, attempt)
        return status if status is not None else KILLED

    async def _stop_when_asked(self) -> None:
        await self._stopping.wait()
        async with asyncio.TaskGroup() as tasks:
            patient = tasks.create_task(self._runtime.stop(self._plan.run, self._plan.grace_seconds))
            hurried = tasks.create_task(self._kill_when_asked())
            await patient
            hurried.cancel()

    async def _kill_when_asked(self) -> None:
        await self._hurry.wait()
        await self._runtime.stop(self._plan.run, 0)


def _first_mistake(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error to show for several that came together: one that is made for people, if there is one."""
    known = group.subgroup(MooringError)
    error: BaseException = known if known is not None else group
    while known is not None and isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _starts_again(policy: str, status: int) -> bool:
    return policy == "Always" or (policy == "OnFailure" and status != 0)


@contextlib.asynccontextmanager
async def _following(path: str, show: Callable[[LogLine], None]) -> AsyncIterator[None]:
    """Show what is written to a log within this block, to its end."""
    ended = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(follow(path, ended, show))
        try:
            yield
        finally:
            ended.set()


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    """Return when an event is set, or after a time."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
