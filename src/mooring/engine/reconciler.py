"""The loop that keeps a subject as it is wanted: a dirty set in, operations out, outcomes back in."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Generic, Protocol, TypeVar

from mooring.engine.pending import PendingOperations, Slot

OperationT = TypeVar("OperationT")
OutcomeT = TypeVar("OutcomeT")


_EARLY = 1e-6
"""Seconds that a timer may fire before its time; a pause that is over by then counts as over."""


class Subject(Protocol[OperationT, OutcomeT]):
    """What is reconciled. All but `execute` are plain calls that neither block nor await."""

    def keys(self) -> Iterable[str]:
        """Every key that is wanted or there; looked at by the slow full resync."""
        ...

    def plan(self, key: str) -> Sequence[OperationT]:
        """The operations due now for one key, most urgent first."""
        ...

    def slot(self, operation: OperationT) -> Slot: ...

    def kind(self, operation: OperationT) -> str: ...

    async def execute(self, operation: OperationT) -> OutcomeT:
        """Do it and say what is known afterwards; never raises but for cancellation."""
        ...

    def apply(self, operation: OperationT, outcome: OutcomeT) -> bool:
        """Write the outcome into the world; False when the operation failed and must rest before the next try."""
        ...


class Reconciler(Generic[OperationT, OutcomeT]):
    """Replans exactly the keys that were touched, starts what may start, and touches again when it ends.

    Keys are served in the order they were touched, and at most `limit` operations run at once, so that under
    load the first ones asked for are the first ones finished.
    """

    def __init__(
        self,
        subject: Subject[OperationT, OutcomeT],
        pending: PendingOperations,
        *,
        limit: int = 64,
        resync_interval: float = 60.0,
    ) -> None:
        self._subject = subject
        self.pending = pending
        self._limit = limit
        self._waiting = 0  # running operations that only wait, and do not count
        self._resync_interval = resync_interval
        self._dirty: OrderedDict[str, None] = OrderedDict()  # a dict looks for its first key past all that have gone
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._changed = asyncio.Event()
        self._idle = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop  # that runs it: finding out anew costs a system call each time
        self._stopping = False
        self._resyncing: set[str] = set()
        self.resync_found_work = 0

    def touch(self, key: str) -> None:
        """Look at this key soon: something about it changed."""
        self._resyncing.discard(key)  # what is found now, this event has found
        self._dirty[key] = None
        self._changed.set()

    def resume(self, key: str) -> None:
        """Look at this key soon, and do not let it rest: what it waited for has changed."""
        self.pending.resume(key)
        self.touch(key)

    def resume_all(self) -> None:
        """Let nothing rest: what all of them may have waited for has changed."""
        for key in self.pending.resting():
            self.resume(key)

    def forget(self, key: str, part: str | None = None) -> None:
        """Drop the pauses of what is no longer wanted."""
        self.pending.forget(key, part)

    def make_room(self, waiting: int) -> None:
        """Learn how many of the running operations only wait for something: as many more may run meanwhile."""
        self._waiting = waiting
        self._changed.set()

    def _is_full(self) -> bool:
        return self.pending.running_count - self._waiting >= self._limit

    def is_idle(self) -> bool:
        """Whether nothing is to be looked at and nothing runs (pauses may still be open).

        Once it stops, nothing is looked at any more, and only what still runs counts.
        """
        return self.pending.running_count == 0 and (self._stopping or not self._dirty)

    async def until_idle(self) -> None:
        """Return once nothing is to be looked at and nothing runs."""
        while not self.is_idle():
            self._idle.clear()
            await self._idle.wait()

    async def run(self) -> None:
        """Serve touched keys until `stop`; running operations are then waited for, and cancelled with this task."""
        self._loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as operations:
                resync = operations.create_task(self._resync_forever(), name="resync")
                while not self._stopping:
                    await self._changed.wait()
                    self._changed.clear()
                    self._serve(operations)
                resync.cancel()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    def stop(self) -> None:
        """Start nothing more; `run` returns when the running operations have ended."""
        self._stopping = True
        self._changed.set()
        self._note_idle()

    def _serve(self, operations: asyncio.TaskGroup) -> None:
        now = self._loop.time()
        while self._dirty and not self._is_full() and not self._stopping:
            key, _ = self._dirty.popitem(last=False)
            self._start_due(key, operations, now)
        self._note_idle()

    def _note_idle(self) -> None:
        if self.is_idle():
            self._idle.set()

    def _start_due(self, key: str, operations: asyncio.TaskGroup, now: float) -> None:
        wake_at: float | None = None
        for operation in self._subject.plan(key):
            slot, kind = self._subject.slot(operation), self._subject.kind(operation)
            if self.pending.is_busy(slot):
                continue  # its end touches the key again
            pause = self.pending.pause(slot, kind)
            if pause is not None and now + _EARLY < pause.until:
                wake_at = pause.until if wake_at is None else min(wake_at, pause.until)
                continue
            if self._is_full():
                self._dirty[key] = None  # the rest of it takes its turn again
                break
            if key in self._resyncing:
                self.resync_found_work += 1
            self.pending.start(slot, kind)
            operations.create_task(self._perform(operation, slot, kind), name=kind)
        self._resyncing.discard(key)
        self._wake(key, wake_at)

    def _wake(self, key: str, at: float | None) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if at is not None:
            self._timers[key] = self._loop.call_at(at, self._wake_up, key)

    def _wake_up(self, key: str) -> None:
        del self._timers[key]
        self.touch(key)

    async def _perform(self, operation: OperationT, slot: Slot, kind: str) -> None:
        outcome = await self._subject.execute(operation)
        # No await from here on: the outcome is visible in the world before the slot is free.
        succeeded = self._subject.apply(operation, outcome)
        self.pending.finish(slot, kind, failed=not succeeded, now=self._loop.time())
        self.touch(slot.key)
        self._note_idle()

    async def _resync_forever(self) -> None:
        """The safety net: a missed event costs time, never correctness."""
        while True:
            await asyncio.sleep(self._resync_interval)
            for key in sorted(set(self._subject.keys()) - self._dirty.keys()):
                self.touch(key)
                self._resyncing.add(key)
