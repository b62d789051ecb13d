"""A subject for the engine that does as it is told, and a reconciler running over it."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mooring.engine.pending import Backoff, PendingOperations, Slot
from mooring.engine.reconciler import Reconciler


@dataclass(frozen=True, slots=True)
class Job:
    """Something to be done to a key, or to one part of it."""

    key: str
    part: str | None = None
    kind: str = "job"


class ScriptedSubject:
    """A subject whose work is written down beforehand: jobs stay due until they succeed."""

    def __init__(self) -> None:
        self.due: dict[str, list[Job]] = {}
        self.seconds = 0.0
        self.failures: defaultdict[Job, deque[bool]] = defaultdict(deque)
        self.planned: list[str] = []
        self.started: list[tuple[float, Job]] = []
        self.ended: list[Job] = []
        self.running = 0
        self.most_running = 0
        self.applying: Callable[[], None] = lambda: None

    # -- the script ----------------------------------------------------------------------------------------------
    def want(self, *jobs: Job) -> None:
        for job in jobs:
            self.due.setdefault(job.key, []).append(job)

    def fail(self, job: Job, times: int) -> None:
        """Let the next tries of a job fail."""
        self.failures[job].extend([True] * times)

    def starts(self, kind: str = "job") -> list[float]:
        """When jobs of a kind were started."""
        return [at for at, job in self.started if job.kind == kind]

    # -- what the engine asks ------------------------------------------------------------------------------------
    def keys(self) -> Iterable[str]:
        return list(self.due)

    def plan(self, key: str) -> Sequence[Job]:
        self.planned.append(key)
        return list(self.due.get(key, ()))

    def slot(self, operation: Job) -> Slot:
        return Slot(operation.key, operation.part)

    def kind(self, operation: Job) -> str:
        return operation.kind

    async def execute(self, operation: Job) -> bool:
        self.started.append((asyncio.get_running_loop().time(), operation))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(self.seconds)
        self.running -= 1
        failures = self.failures[operation]
        return not (failures and failures.popleft())

    def apply(self, operation: Job, outcome: bool) -> bool:
        self.applying()
        self.ended.append(operation)
        if outcome and operation in self.due.get(operation.key, ()):
            self.due[operation.key].remove(operation)
        return outcome


@asynccontextmanager
async def running_reconciler(
    subject: ScriptedSubject, *, limit: int = 64, resync: float = 1e6
) -> AsyncIterator[Reconciler[Job, bool]]:
    """A reconciler over a subject, running; cancelled at the end. The resync is far away unless said otherwise."""
    reconciler: Reconciler[Job, bool] = Reconciler(
        subject, PendingOperations(Backoff()), limit=limit, resync_interval=resync
    )
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(reconciler.run())
        try:
            yield reconciler
        finally:
            run.cancel()
