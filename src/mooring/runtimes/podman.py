"""Containers with the `podman` program. They share the machine's network, and through it localhost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from mooring.host import open_files
from mooring.runtimes import podman_arguments
from mooring.runtimes.interface import (
    ATTEMPT_LABEL,
    CONTAINER_LABEL,
    RUN_LABEL,
    ContainerPlan,
    ContainerState,
    Features,
    Phase,
    Pull,
    RunPlan,
    RuntimeFailed,
)
from mooring.runtimes.podman_arguments import container_name
from mooring.runtimes.records import RuntimeOptions

_PATIENCE = 60.0  # seconds for a call that only looks or starts
_PULL_PATIENCE = 1800.0
_TRIES = 5  # of a removal
_LOOK_AGAIN = 0.1
_ENDED = frozenset(("exited", "stopped"))
_NOT_STARTED = frozenset(("created", "configured", "initialized"))
_MISSING = ("no such container", "no container with")


class _Row(msgspec.Struct, frozen=True, rename="pascal"):
    """A container as `podman ps` tells it."""

    id: str
    state: str
    exit_code: int = 0
    labels: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Answer:
    status: int
    out: str
    err: str

    @property
    def why(self) -> str:
        """The last thing podman said, which is its error."""
        lines = self.err.strip().splitlines()
        return lines[-1].removeprefix("Error: ") if lines else f"exit status {self.status}"


class PodmanRuntime:
    """Drives podman, one call at a time."""

    def __init__(self, options: RuntimeOptions) -> None:
        self._options = options

    @property
    def where(self) -> str:
        return "podman" if not self._options.oci_runtime else f"podman with {self._options.oci_runtime}"

    async def features(self) -> Features:
        await self._done("look at its version", ["--version"])
        return Features(recursive_read_only=False, images=True)

    async def make_sandbox(self, plan: RunPlan) -> None:
        """Nothing: the containers share the network of the machine, which is there."""

    async def fetch_image(self, container: ContainerPlan) -> None:
        images = [container.image, *(mount.image for mount in container.mounts if mount.image is not None)]
        for image in dict.fromkeys(images):
            there = container.pull is not Pull.ALWAYS and await self._has_image(image)
            if there:
                continue
            if container.pull is Pull.NEVER:
                why, next_step = "it is not there, and imagePullPolicy is Never", f"Load it, or `podman pull {image}`"
                raise RuntimeFailed(f"podman cannot use image {image!r}", why=why, next_step=next_step)
            await self._done(f"pull image {image!r}", ["pull", "--quiet", image], patience=_PULL_PATIENCE)

    async def _has_image(self, image: str) -> bool:
        answer = await self._call(["image", "exists", image])
        if answer.status not in (0, 1):
            raise self._failure(f"look for image {image!r}", answer.why)
        return answer.status == 0

    async def start(self, plan: RunPlan, container: ContainerPlan, attempt: int) -> None:
        what = f"start container {container.name!r}"
        if attempt > 0:
            await self._remove([container_name(plan.run, container.name, attempt - 1)])
        passed = podman_arguments.pass_variables(container)
        with _memory_file(passed.lines) as descriptor:
            file = f"/proc/self/fd/{descriptor}"
            words = podman_arguments.create_arguments(plan, container, attempt, self._options, passed, file)
            await self._done(what, words, environment=passed.environment, descriptors=(descriptor,))
        await self._done(what, ["start", container_name(plan.run, container.name, attempt)])

    async def wait(self, run: str, container: str, attempt: int) -> int | None:
        answer = await self._call(["wait", container_name(run, container, attempt)], patience=None)
        if answer.status == 0 and answer.out.strip().lstrip("-").isdigit():
            return int(answer.out)
        if any(words in answer.err for words in _MISSING):
            return None
        raise self._failure(f"wait for container {container!r}", answer.why)

    async def states(self, run: str) -> list[ContainerState]:
        rows = [(row.labels or {}, row) for row in await self._rows(run)]
        found = [
            ContainerState(
                name=labels.get(CONTAINER_LABEL, ""),
                attempt=int(labels.get(ATTEMPT_LABEL, "0")),
                phase=_phase(row.state),
                exit_code=row.exit_code if row.state in _ENDED else None,
            )
            for labels, row in rows
        ]
        return sorted(found, key=lambda state: (state.name, state.attempt))

    async def is_gone(self, run: str) -> bool:
        return not await self._rows(run)

    async def stop(self, run: str, grace: float) -> None:
        running = [row.id for row in await self._rows(run) if _phase(row.state) is Phase.RUNNING]
        if running:
            words = ["stop", "--ignore", "--time", str(int(grace)), *running]
            answer = await self._call(words, patience=grace + _PATIENCE)
            if answer.status != 0 and not any(text in answer.err for text in _MISSING):
                raise self._failure("stop containers", answer.why)

    async def remove(self, run: str) -> None:
        for tries_left in reversed(range(_TRIES)):
            try:
                await self._remove([row.id for row in await self._rows(run)])
                return
            except RuntimeFailed:
                if not tries_left:
                    raise
            await asyncio.sleep(_LOOK_AGAIN)  # somebody else may be removing it at the same time

    async def close(self) -> None:
        """Nothing is kept open between two calls."""

    async def _remove(self, containers: Sequence[str]) -> None:
        if containers:
            await self._done(
                "remove containers", ["rm", "--force", "--ignore", "--time", "0", "--volumes", *containers]
            )

    async def _rows(self, run: str) -> list[_Row]:
        what = "list containers"
        words = ["ps", "--all", "--sync", "--filter", f"label={RUN_LABEL}={run}", "--format", "json"]
        answer = await self._done(what, words)
        try:
            return msgspec.json.decode(answer.out or "[]", type=list[_Row])
        except msgspec.DecodeError as error:
            raise self._failure(what, f"its answer makes no sense ({error})") from error

    # -- the program ---------------------------------------------------------------------------------------------
    async def _done(
        self,
        what: str,
        words: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
        patience: float = _PATIENCE,
    ) -> _Answer:
        answer = await self._call(words, environment=environment, descriptors=descriptors, patience=patience)
        if answer.status != 0:
            raise self._failure(what, answer.why)
        return answer

    def _failure(self, what: str, why: str) -> RuntimeFailed:
        return RuntimeFailed(f"podman cannot {what}", why=why.rstrip("."))

    async def _call(
        self,
        words: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        descriptors: Sequence[int] = (),
        patience: float | None = _PATIENCE,
    ) -> _Answer:
        program = shutil.which("podman")
        if program is None:
            raise RuntimeFailed(
                "cannot run podman", why="it is not installed", next_step="Install it, or use --with cri"
            )
        process = await asyncio.create_subprocess_exec(
            program,
            *podman_arguments.global_options(self._options),
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(environment or {}), "LC_ALL": "C"},
            pass_fds=tuple(descriptors),
            start_new_session=True,  # Ctrl-C at the terminal is for us, not for it
        )
        open_files.give_back(process.pid)
        try:
            async with asyncio.timeout(patience):
                out, err = await process.communicate()
        except TimeoutError as error:
            raise RuntimeFailed(f"podman {words[0]} gives no answer", why=f"{patience:g} s have passed") from error
        finally:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()
        assert process.returncode is not None
        return _Answer(
            status=process.returncode, out=out.decode("utf-8", "replace"), err=err.decode("utf-8", "replace")
        )


def _phase(state: str) -> Phase:
    if state in _ENDED:
        return Phase.ENDED
    return Phase.CREATED if state in _NOT_STARTED else Phase.RUNNING


@contextlib.contextmanager
def _memory_file(lines: Sequence[str]) -> Iterator[int]:
    """A file that is in memory only and has no name, for what must not be on a disk or a command line."""
    descriptor = os.memfd_create("mooring-variables", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, "".join(f"{line}\n" for line in lines).encode())
        yield descriptor
    finally:
        os.close(descriptor)
