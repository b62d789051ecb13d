"""Who may start a container, and when nobody may any more.

The client starts containers under the lock of its run, after reading that the run goes on. Who takes a pod down first
writes, under the same lock, that it does not. After that no container is started, and what the runtime then tells of
the run stays true. The kernel gives the lock back when its holder dies.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator

from msgspec.structs import replace

from mooring.errors import Doubtful, Refused
from mooring.host.paths import Paths
from mooring.runtimes.records import RunRecord, RunRecords

_PAUSE = 0.02  # seconds between two tries to get a lock that is held for moments


class RunEnded(Refused):
    """The pod is taken down: its run starts no container any more."""


class Fence:
    """What a client asks before each start."""

    def __init__(self, paths: Paths, uid: str, run: str) -> None:
        self._paths, self._records, self._uid, self._run = paths, RunRecords(paths), uid, run

    @contextlib.asynccontextmanager
    async def permit(self) -> AsyncIterator[None]:
        """Within this block a container may be started. `RunEnded` when none may be any more."""
        async with contextlib.AsyncExitStack() as held:
            try:
                await held.enter_async_context(_locked(self._paths.run_lock(self._uid), None))
                record = self._records.read(self._uid)
            except FileNotFoundError:
                record = None
            if record is None or record.run != self._run or record.stopping:
                raise RunEnded("cannot start a container", why="the pod was deleted, and its containers are stopped")
            yield


async def close_fence(paths: Paths, record: RunRecord, *, timeout: float) -> RunRecord:
    """Write that no container of a run is started any more. `Doubtful` when one is being started all that time."""
    closed = replace(record, stopping=True)
    try:
        async with _locked(paths.run_lock(record.uid), timeout):
            RunRecords(paths).write(closed)
    except FileNotFoundError:  # somebody removed the lock: nobody can start anything without it
        RunRecords(paths).write(closed)
    except TimeoutError as error:
        why = f"process {record.client.pid} has been starting one for {timeout:g} s"
        raise Doubtful("cannot keep further containers from starting", why=why, next_step="End that process") from error
    return closed


@contextlib.asynccontextmanager
async def _locked(path: str, timeout: float | None) -> AsyncIterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        async with asyncio.timeout(timeout):
            while True:
                if _try_lock(descriptor):
                    break
                await asyncio.sleep(_PAUSE)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
