"""The fault menu: where and how batches of host calls go wrong, and where the manager is killed."""

from __future__ import annotations

import asyncio
import errno
import os
import random
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from mooring.errors import Doubtful, Refused
from mooring.host.interface import Risk
from mooring.testing.simulation.journal import Journal
from mooring.testing.simulation.script import BreakReads, Crash, Strike
from mooring.testing.simulation.unreliable_host import UnreliableHost

T = TypeVar("T")

DEADLINE = 120.0
"""Seconds that a call may take before it counts as unanswered."""


class Killed(BaseException):
    """The process of the manager is gone: none of its handlers runs."""


class Faults:
    """Stands between a manager and its `UnreliableHost`. Faults and kills are armed by steps and hit once each."""

    def __init__(
        self,
        host: UnreliableHost,
        journal: Journal,
        *,
        seed: int,
        latency: float,
        changing: Callable[[str, str], None],
        changed: Callable[[str], None],
        is_in_doubt: Callable[[str], bool],
    ) -> None:
        self._host = host
        self._journal = journal
        self._random = random.Random(seed)
        self._latency = latency
        self._changing = changing
        self._changed = changed
        self._is_in_doubt = is_in_doubt
        self._strikes: list[tuple[int, Strike]] = []
        self._kill: tuple[int, Crash] | None = None
        self._broken_reads: tuple[int, int] | None = None  # reads that work, then reads that fail
        self._breaking: tuple[int, int] | None = None  # calls to go in this batch, and the error then
        self._released = asyncio.Event()
        self._ours = False  # the script itself acts on the host
        self._process = 0
        self.killed_by: Crash | None = None
        self.unread: list[str] = []  # what the present manager could not read
        host.scheduler = self
        host.before_call, host.after_call, host.between_steps = self._before, self._after, self._between

    # -- what steps do -------------------------------------------------------------------------------------------
    def arm(self, step: Strike | Crash) -> None:
        if isinstance(step, Strike):
            self._strikes.append((step.skip, step))
        else:
            self._kill = (step.skip, step)

    def calm(self) -> None:
        """No fault and no kill from now on; what hangs is answered."""
        self._strikes.clear()
        self._kill = None
        self._broken_reads = None
        self._released.set()
        self._released = asyncio.Event()

    def new_process(self) -> None:
        """The old manager is gone with all it had under way, and another may start."""
        self._process += 1
        self._kill = None
        self.unread.clear()
        self._released = asyncio.Event()
        self.killed_by = None

    def passing(self, when: str, method: str, path: str) -> None:
        """A point at which the manager may be killed; `Killed` if it is."""
        if not self._ours:
            self._die(when, method, path)

    def latency(self) -> float:
        """How long the next call takes."""
        if self._latency and self._random.random() < 0.5:
            return round(self._random.uniform(0, self._latency), 3)
        return 0.0

    @property
    def pending_kill(self) -> Crash | None:
        """The kill that is armed and has not struck."""
        return self._kill[1] if self._kill is not None else None

    def kill(self, crash: Crash) -> None:
        """Kill the manager here and now."""
        self._kill = None
        self.killed_by = crash
        self._journal.crashes += 1
        self._journal.note("crash", "between two calls")

    def break_reads(self, step: BreakReads) -> None:
        """Let reads of the manager that starts next fail."""
        self._broken_reads = (step.skip, step.reads)
        self._host.reading = self._read

    def _read(self, path: str) -> None:
        if self._ours or self._broken_reads is None:
            return
        working, failing = self._broken_reads
        if working:
            self._broken_reads = (working - 1, failing)
            return
        self._broken_reads = (0, failing - 1) if failing > 1 else None
        self.unread.append(path)
        self._journal.faults += 1
        self._journal.note("fault", f"cannot read {path}")
        raise OSError(errno.EIO, os.strerror(errno.EIO), path)

    def act(self, action: Callable[[], T]) -> T:
        """Let somebody else than the manager do something on the host."""
        before, self._ours = self._ours, True
        try:
            return action()
        finally:
            self._ours = before

    # -- batches of calls ----------------------------------------------------------------------------------------
    async def __call__(self, call: Callable[[], T], risk: Risk, what: str, /) -> T:
        wait = self.latency()
        if wait:
            await asyncio.sleep(wait)
        strike = self._next_strike()
        if strike is None:
            return call()
        self._journal.faults += 1
        self._journal.note("fault", f"{strike.fault}: {what}")
        return await self._struck(strike, call, risk, what)

    def _next_strike(self) -> Strike | None:
        hit: Strike | None = None
        waiting: list[tuple[int, Strike]] = []
        for skip, strike in self._strikes:
            if skip == 0 and hit is None:
                hit = strike
            else:
                waiting.append((max(0, skip - 1), strike))
        self._strikes = waiting
        return hit

    async def _struck(self, strike: Strike, call: Callable[[], T], risk: Risk, what: str) -> T:
        match strike.fault:
            case "refuse" if risk is not Risk.BULKY and not self._is_in_doubt(what):
                # Who refuses says that nothing is there: while an earlier call is in doubt that would be a lie.
                # Bulky work is about records and tables, of which no file system says so.
                raise Refused(what, why="a fault refused it")
            case "refuse" | "busy":
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            case "silent":
                call()
            case "late" if risk is Risk.HANGING:
                await asyncio.sleep(DEADLINE)
                self._call_later(strike.seconds, call)
            case "hang" if risk is Risk.HANGING:
                await self._released.wait()
                return call()
            case "slow":
                await asyncio.sleep(strike.seconds)
                return call()
            case "full" | "broken":
                return self._break(call, strike.call, errno.ENOSPC if strike.fault == "full" else errno.EIO)
            case "lost" | "late" | "hang":
                await asyncio.sleep(DEADLINE)
        raise Doubtful(what, why="no answer came")

    def _call_later(self, seconds: float, call: Callable[[], object]) -> None:
        process = self._process

        def run() -> None:
            if process == self._process:  # else the thread died with its process
                with suppress(Exception):
                    self.act(call)

        asyncio.get_running_loop().call_later(seconds, run)

    def _break(self, call: Callable[[], T], after: int, error: int) -> T:
        self._breaking = (after, error)
        try:
            return call()
        finally:
            self._breaking = None

    # -- single calls --------------------------------------------------------------------------------------------
    def _before(self, method: str, path: str) -> None:
        if self._ours:
            return
        self._die("before", method, path)
        self._changing(method, path)
        if self._breaking is not None:
            calls, error = self._breaking
            self._breaking = (calls - 1, error)
            # A full disk hits one call; a broken one hits all that follow, the cleaning up as well.
            if calls == 0 or (calls < 0 and error == errno.EIO):
                raise OSError(error, os.strerror(error), path)

    def _after(self, method: str, path: str) -> None:
        if not self._ours:
            self._die("after", method, path)
            self._changed(path)

    def _between(self, method: str, path: str) -> None:
        if not self._ours:
            self._die("during", method, path)
            self._changed(path)

    def _die(self, when: str, method: str, path: str) -> None:
        if self.killed_by is not None:
            raise Killed
        if self._kill is None or self._kill[1].when != when:
            return
        skip, crash = self._kill
        if skip:
            self._kill = (skip - 1, crash)
            return
        self._kill, self.killed_by = None, crash
        self._journal.crashes += 1
        self._journal.note("crash", f"{when} {method} {path}")
        raise Killed
