"""Keeps volumes where containers may use them: one keeper per run, until the runtime says that nothing is left.

A client starts a pod's containers and normally takes them away again. Its run is kept on disk; the keeper steps in when
the pod is deleted, when the client has died, and to make sure of the end in any case. While nothing happens it sleeps.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Protocol

from mooring.engine.waiters import Waiters
from mooring.errors import MooringError, Refused
from mooring.host.paths import Paths
from mooring.runtimes.fence import close_fence
from mooring.runtimes.interface import Phase, Runtime, RuntimeFailed
from mooring.runtimes.processes import is_alive, until_ended
from mooring.runtimes.records import BrokenRecord, RunRecord, RunRecords, RuntimeOptions
from mooring.world.findings import Finding
from mooring.world.names import PodUid

log = logging.getLogger(__name__)

_FENCE_PATIENCE = 30.0
_ALL = ""
"""The key of waits for the end of all runs; no pod has an empty UID."""


class Volumes(Protocol):
    """Who is told about containers, and holds volumes because of them."""

    def wants(self, uid: PodUid) -> bool:
        """Whether the pod should go on: a source tells of it, or not all have been heard."""
        ...

    def containers_changed(self, uid: PodUid, left: str | None) -> None:
        """What is left of a pod's containers, in words; None when nothing is."""
        ...


class _Run:
    """A run as its keeper sees it."""

    def __init__(self, record: RunRecord) -> None:
        self.record = record
        self.changed = asyncio.Event()
        self.told = False  # the client says that it has removed everything
        self.words = ""


class RunSupervisor:
    """All runs of one root directory."""

    def __init__(
        self,
        paths: Paths,
        volumes: Volumes,
        make_runtime: Callable[[str, RuntimeOptions], Runtime],
        *,
        pause: Callable[[int], float],
    ) -> None:
        self._paths, self._records = paths, RunRecords(paths)
        self._volumes, self._make_runtime, self._pause = volumes, make_runtime, pause
        self._runs: dict[PodUid, _Run] = {}
        self._broken: dict[PodUid, BrokenRecord] = {}
        self._waiters = Waiters()
        self._tasks: asyncio.TaskGroup | None = None

    def load(self) -> None:
        """Take up what earlier processes wrote down, before anything is decided about volumes."""
        records, broken = self._records.load()
        for record in records:
            self._add(record)
        for each in broken:
            self._broken[PodUid(each.uid)] = each
            self._volumes.containers_changed(PodUid(each.uid), f"the record {each.path} cannot be read")

    async def run(self) -> None:
        """Keep all runs until cancelled. Containers stay as they are then."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for run in self._runs.values():
                tasks.create_task(self._keep(run), name=f"run {run.record.pod}")
            await asyncio.Event().wait()

    # -- what is asked -------------------------------------------------------------------------------------------
    def begin(self, record: RunRecord) -> None:
        """Write down that containers are going to be started; `Refused` when the pod has some already."""
        uid = PodUid(record.uid)
        self._drop_repaired()
        if uid in self._runs or uid in self._broken:
            why = self.words(uid) or "an earlier run has not ended"
            next_step = (
                "Wait for its end, or delete the pod" if uid in self._runs else "`mooring get findings` tells more"
            )
            raise Refused(f"cannot run pod {record.pod!r}", why=why, next_step=next_step)
        self._records.begin(record)
        run = self._add(record)
        if self._tasks is not None:
            self._tasks.create_task(self._keep(run), name=f"run {record.pod}")

    def _add(self, record: RunRecord) -> _Run:
        run = self._runs[PodUid(record.uid)] = _Run(record)
        self._say(run, f"they were started with {record.runtime}")
        return run

    async def end(self, uid: PodUid, run: str, *, timeout: float) -> str | None:
        """The client has removed its containers. Returns when that is certain; else, after a while, why it is not."""
        found = self._runs.get(uid)
        if found is not None and found.record.run == run:
            found.told = True
            found.changed.set()
            try:
                await self._waiters.until(uid, lambda: self._runs.get(uid) is not found or None, timeout=timeout)
            except TimeoutError:
                return found.words
        return None

    def look(self, uid: PodUid) -> None:
        """Whether a pod should go on may have changed."""
        self._drop_repaired()
        run = self._runs.get(uid)
        if run is not None:
            run.changed.set()

    def look_at_all(self) -> None:
        self._drop_repaired()
        for run in self._runs.values():
            run.changed.set()

    async def until_none(self, *, timeout: float) -> None:
        """Return when no run is left; TimeoutError else."""
        await self._waiters.until(_ALL, lambda: None if self._runs or self._broken else True, timeout=timeout)

    # -- what can be seen ----------------------------------------------------------------------------------------
    def words(self, uid: PodUid) -> str | None:
        """What is known of a pod's containers; None when there are none."""
        if uid in self._broken:
            return f"the record {self._broken[uid].path} cannot be read"
        run = self._runs.get(uid)
        return run.words if run is not None else None

    def left(self) -> dict[str, str]:
        """By pod: what is known of containers that are or may be there."""
        found = {run.record.pod: run.words for run in self._runs.values()}
        return {**found, **{uid: self.words(uid) or "" for uid in self._broken}}

    def findings(self) -> Iterator[Finding]:
        for broken in self._broken.values():
            yield Finding(
                kind="run",
                where=broken.path,
                what=f"the record of a pod's containers cannot be read: {broken.why}",
                next_step=f"Stop what runs with the label mooring.pod={broken.uid}, then remove the file",
            )

    def _drop_repaired(self) -> None:
        """A broken record that a person removed holds nothing any more."""
        for uid in [uid for uid in self._broken if not self._records.exists(uid)]:
            del self._broken[uid]
            self._records.forget(uid)
            self._volumes.containers_changed(uid, None)
            self._waiters.notify(_ALL)

    def _say(self, run: _Run, words: str) -> None:
        if words != run.words:
            run.words = words
            self._volumes.containers_changed(PodUid(run.record.uid), words)

    # -- one run -------------------------------------------------------------------------------------------------
    async def _keep(self, run: _Run) -> None:
        failures = 0
        async with contextlib.AsyncExitStack() as held:
            runtime: Runtime | None = None
            while True:
                run.changed.clear()
                try:
                    if not self._is_due(run):
                        await _first_of(run.changed.wait(), until_ended(run.record.client))
                        continue
                    if runtime is None:
                        runtime = self._make_runtime(run.record.runtime, run.record.options)
                        held.push_async_callback(runtime.close)
                    if await self._settle(run, runtime):
                        self._forget(run)
                        return
                    failures = 0
                except (MooringError, OSError) as error:
                    failures += 1
                    log.warning("containers of pod %s are left: %s", run.record.pod, error)
                    self._say(run, f"{error.what}: {error.why}" if isinstance(error, MooringError) else str(error))
                    await _first_of(run.changed.wait(), asyncio.sleep(self._pause(failures)))

    def _is_due(self, run: _Run) -> bool:
        return run.told or not self._volumes.wants(PodUid(run.record.uid)) or not is_alive(run.record.client)

    async def _settle(self, run: _Run, runtime: Runtime) -> bool:
        """Bring a run to its end, as far as that is due; whether nothing of it is left."""
        name = run.record.run
        if not self._volumes.wants(PodUid(run.record.uid)):
            if not run.record.stopping:
                run.record = await close_fence(self._paths, run.record, timeout=_FENCE_PATIENCE)
            self._say(run, f"{runtime.where} is stopping them")
            await runtime.stop(name, run.record.grace_seconds)
        elif not run.told:
            running = [state for state in await runtime.states(name) if state.phase is Phase.RUNNING]
            waited_for = [state for state in running if state.name not in run.record.sidecars]
            if waited_for:
                names = ", ".join(state.name for state in waited_for)
                self._say(run, f"{runtime.where} goes on with {names}, although their client has gone")
                first = waited_for[0]
                await _first_of(run.changed.wait(), runtime.wait(name, first.name, first.attempt))
                return False
        await runtime.remove(name)
        if not await runtime.is_gone(name):
            raise RuntimeFailed(f"{runtime.where} cannot remove containers", why="they are still there")
        return True

    def _forget(self, run: _Run) -> None:
        uid = PodUid(run.record.uid)
        self._records.forget(uid)
        del self._runs[uid]
        self._volumes.containers_changed(uid, None)
        self._waiters.notify(uid)
        self._waiters.notify(_ALL)


async def _first_of(*waits: Coroutine[Any, Any, object]) -> None:
    """Return when one of the waits is over; the others are given up. Its error, if it ended with one."""
    errors: list[MooringError] = []

    async def guarded(wait: Coroutine[Any, Any, object]) -> None:
        try:
            await wait
        except MooringError as error:
            errors.append(error)

    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(guarded(wait)) for wait in waits]
        await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
        for task in begun:
            task.cancel()
    if errors:
        raise errors[0]
