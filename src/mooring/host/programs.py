"""Runs external programs, where no system call does the work: mkfs, fsck and their like.

Never through a shell; in the C locale, since their words are read; with a deadline at which the program and all it
started are killed; and with as much of its output kept as an error message can use.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from mooring.errors import Doubtful, Refused
from mooring.host import open_files

PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_KEPT = 16 * 1024  # bytes of output, from its end
_PIECE = 1 << 16
_PATIENCE = 0.05  # seconds between two looks at a program, where the kernel cannot wake us when it ends
_LAST_WAIT = 5.0  # seconds that a killed program has to go; one that is stuck in the kernel does not


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramResult:
    """How a program ended. `status` is its exit status, or less than 0 when a signal ended it."""

    status: int
    output: str = ""  # what it wrote last, on either stream


class ProgramFailed(Refused):
    """An external program ended with a status that means failure."""

    def __init__(self, program: str, device: str, result: ProgramResult) -> None:
        self.program, self.result = program, result
        ended = f"exit status {result.status}" if result.status >= 0 else _signal_name(-result.status)
        said = " ".join(result.output.split())
        super().__init__(f"{program} failed on {device!r}", why=f"{ended}, {said!r}" if said else ended)


class ProgramMissing(Refused):
    """An external program is not installed."""

    def __init__(self, program: str) -> None:
        self.program = program
        super().__init__(
            f"cannot run {program!r}", why="it is not installed", next_step="Install the package that brings it"
        )


def find_program(name: str, places: str = PLACES) -> str | None:
    """Return the path of a program, looked for in the usual places whatever PATH says, or None."""
    return shutil.which(name, path=places)


def run_program(
    arguments: Sequence[str], *, deadline: float, directory: str = "/", places: str = PLACES
) -> ProgramResult:
    """Run a program to its end. `Doubtful` when it was killed at the deadline: what it did by then is unknown."""
    program, *rest = arguments
    path = find_program(program, places)
    if path is None:
        raise ProgramMissing(program)
    process = subprocess.Popen(
        [path, *rest],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": places, "LC_ALL": "C", "LANG": "C"},
        cwd=directory,
        start_new_session=True,
    )
    open_files.give_back(process.pid)
    output = bytearray()
    try:
        in_time = _follow(process, output, time.monotonic() + deadline)
    finally:
        _end(process)
    if not in_time:
        why = f"it did not end within {deadline:g} s and was killed"
        raise Doubtful(f"cannot tell what {program!r} did", why=why)
    return ProgramResult(status=process.returncode, output=output.decode("utf-8", "replace").strip())


def _follow(process: subprocess.Popen[bytes], output: bytearray, end: float) -> bool:
    """Collect output until the program has ended, which is true, or its time is up.

    The end of the output is not waited for: what a program left running in the background may hold it open.
    """
    assert process.stdout is not None
    pipe = process.stdout.fileno()
    os.set_blocking(pipe, False)
    ended = _descriptor_of(process.pid)
    events = select.poll()
    events.register(pipe, select.POLLIN)
    if ended is not None:
        events.register(ended, select.POLLIN)
    try:
        while process.poll() is None:
            left = end - time.monotonic()
            if left <= 0:
                return False
            events.poll(1000 * (left if ended is not None else min(left, _PATIENCE)))
            if not _collect(pipe, output) and ended is not None:
                events.unregister(pipe)
                pipe = -1
        _collect(pipe, output)
        return True
    finally:
        if ended is not None:
            os.close(ended)


def _collect(pipe: int, output: bytearray) -> bool:
    """Take all output that is there, and keep its end; false when no more can come."""
    if pipe < 0:
        return True
    while True:
        try:
            piece = os.read(pipe, _PIECE)
        except BlockingIOError:
            return True
        if not piece:
            return False
        output += piece
        del output[:-_KEPT]


def _descriptor_of(process: int) -> int | None:
    try:
        return os.pidfd_open(process)
    except OSError:  # before Linux 5.3
        return None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program that still runs, with all of its session, and take its status."""
    if process.stdout is not None:
        process.stdout.close()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LAST_WAIT)


def _signal_name(number: int) -> str:
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"
