"""A container runtime in memory, whose containers run a handful of shell commands on the loop's clock.

It understands `echo TEXT`, `echo TEXT >&2`, `sleep SECONDS`, `sleep SECONDS & wait`, `exit STATUS` and
`trap 'exit STATUS' TERM`, separated by `; `. As the first process of a real container, one without a trap does not
heed SIGTERM.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mooring.runtimes.interface import (
    KILLED,
    ContainerPlan,
    ContainerState,
    Features,
    Phase,
    Pull,
    RunPlan,
    RuntimeFailed,
)

_TRAP = re.compile(r"trap 'exit (\d+)' TERM")


@dataclass(slots=True)
class _Container:
    run: str
    name: str
    attempt: int
    log: str
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    term: asyncio.Event = field(default_factory=asyncio.Event)
    kill: asyncio.Event = field(default_factory=asyncio.Event)
    exit_code: int | None = None
    trap: int | None = None


class ScriptedRuntime:
    """Runs scripts. `scripts` replaces those of some containers, one for each attempt; the last is repeated."""

    def __init__(self, scripts: Mapping[str, Sequence[str]] | None = None, *, features: Features | None = None) -> None:
        self._scripts = scripts or {}
        self._features = features or Features(recursive_read_only=True, images=True)
        self._containers: list[_Container] = []
        self._sandboxes: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.images = {"image"}
        self.happened: list[str] = []
        self.broken = ""  # why every call fails, if it does

    where = "the scripted runtime"

    async def features(self) -> Features:
        self._check("tell what it can do")
        return self._features

    async def make_sandbox(self, plan: RunPlan) -> None:
        self._check("make a sandbox")
        self._sandboxes.add(plan.run)

    async def fetch_image(self, container: ContainerPlan) -> None:
        self._check("fetch an image")
        if container.image not in self.images:
            why = "it is not there" if container.pull is Pull.NEVER else "nobody has it"
            raise RuntimeFailed(f"{self.where} cannot use image {container.image!r}", why=why)

    async def start(self, plan: RunPlan, container: ContainerPlan, attempt: int) -> None:
        self._check(f"start container {container.name!r}")
        for earlier in [each for each in self._of(plan.run) if each.name == container.name]:
            self._containers.remove(earlier)
        log = f"{plan.log_directory}/{plan.log_path(container.name, attempt)}"
        os.makedirs(os.path.dirname(log), exist_ok=True)
        made = _Container(run=plan.run, name=container.name, attempt=attempt, log=log)
        self._containers.append(made)
        self.happened.append(f"start {container.name}")
        scripts = self._scripts.get(container.name) or [container.command[-1] if container.command else "exit 0"]
        task = asyncio.get_running_loop().create_task(self._execute(made, scripts[min(attempt, len(scripts) - 1)]))
        self._tasks.add(task)  # the loop itself keeps no hold of it
        task.add_done_callback(self._tasks.discard)

    async def wait(self, run: str, container: str, attempt: int) -> int | None:
        self._check(f"wait for container {container!r}")
        found = [each for each in self._of(run) if (each.name, each.attempt) == (container, attempt)]
        if not found:
            return None
        await found[0].ended.wait()
        return found[0].exit_code

    async def states(self, run: str) -> list[ContainerState]:
        self._check("list containers")
        return [
            ContainerState(
                name=each.name,
                attempt=each.attempt,
                phase=Phase.RUNNING if each.exit_code is None else Phase.ENDED,
                exit_code=each.exit_code,
            )
            for each in sorted(self._of(run), key=lambda each: (each.name, each.attempt))
        ]

    async def is_gone(self, run: str) -> bool:
        self._check("list containers")
        return not self._of(run) and run not in self._sandboxes

    async def stop(self, run: str, grace: float) -> None:
        self._check("stop containers")
        await asyncio.gather(*(self._stop(each, grace) for each in self._of(run) if each.exit_code is None))

    async def _stop(self, container: _Container, grace: float) -> None:
        container.term.set()
        try:
            async with asyncio.timeout(grace):
                await container.ended.wait()
        except TimeoutError:
            container.kill.set()
            await container.ended.wait()

    async def remove(self, run: str) -> None:
        self._check("remove containers")
        for container in self._of(run):
            container.kill.set()
            await container.ended.wait()
            self._containers.remove(container)
        self._sandboxes.discard(run)

    async def close(self) -> None:
        """Nothing is kept open."""

    def _of(self, run: str) -> list[_Container]:
        return [each for each in self._containers if each.run == run]

    def _check(self, what: str) -> None:
        if self.broken:
            raise RuntimeFailed(f"{self.where} cannot {what}", why=self.broken)

    # -- scripts -------------------------------------------------------------------------------------------------
    async def _execute(self, container: _Container, script: str) -> None:
        status = 0
        for command in script.split("; "):
            match command.split():
                case ["echo", *words]:
                    _write(container.log, words)
                case ["sleep", seconds, *_]:
                    await self._sleep(container, float(seconds))
                case ["exit", number]:
                    status = int(number)
                    break
                case _:
                    found = _TRAP.fullmatch(command)
                    assert found is not None, command
                    container.trap = int(found[1])
            if container.kill.is_set() or (container.term.is_set() and container.trap is not None):
                break
        if container.kill.is_set():
            status = KILLED
        elif container.term.is_set() and container.trap is not None:
            status = container.trap
        container.exit_code = status
        self.happened.append(f"end {container.name} {status}")
        container.ended.set()

    async def _sleep(self, container: _Container, seconds: float) -> None:
        heeded = [container.kill, *([container.term] if container.trap is not None else [])]
        waits = [asyncio.ensure_future(each.wait()) for each in heeded]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()


def _write(log: str, words: Sequence[str]) -> None:
    stream = "stderr" if words[-1:] == [">&2"] else "stdout"
    text = " ".join(words[:-1] if stream == "stderr" else words)
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"2026-01-01T00:00:00.000000000Z {stream} F {text}\n")
