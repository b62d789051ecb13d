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
from mooring.testing.memory_host import MemoryHost
from mooring.testing.simulation.journal import Journal
from mooring.testing.simulation.script import Crash, Strike

T = TypeVar("T")

DEADLINE = 120.0
"""Seconds that a call may take before it counts as unanswered."""


class Killed(BaseException):
    """The process of the manager is gone: none of its handlers runs."""


class Faults:
    """Stands between a manager and its `MemoryHost`. Faults and kills are armed by steps and hit once each."""

    def __init__(
        self,
        host: MemoryHost,
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
        self._kills: list[tuple[int, Crash]] = []
        self._breaking: tuple[int, int] | None = None  # calls to go in this batch, and the error then
        self._released = asyncio.Event()
        self._ours = False  # the script itself acts on the host
        self._process = 0
        self.killed_by: Crash | None = None
        host.scheduler = self
        host.before_call, host.after_call, host.between_steps = self._before, self._after, self._between

    # -- what steps do -------------------------------------------------------------------------------------------
    def arm(self, step: Strike | Crash) -> None:
        if isinstance(step, Strike):
            self._strikes.append((step.skip, step))
        else:
            self._kills.append((step.skip, step))

    def calm(self) -> None:
        """No fault and no kill from now on; what hangs is answered."""
        self._strikes.clear()
        self._kills.clear()
        self._released.set()
        self._released = asyncio.Event()

    def new_process(self) -> None:
        """The old manager is gone with all it had under way, and another may start."""
        self._process += 1
        self._kills.clear()
        self._released = asyncio.Event()
        self.killed_by = None

    def act(self, action: Callable[[], T]) -> T:
        """Let somebody else than the manager do something on the host."""
        self._ours = True
        try:
            return action()
        finally:
            self._ours = False

    # -- batches of calls ----------------------------------------------------------------------------------------
    async def __call__(self, call: Callable[[], T], risk: Risk, what: str, /) -> T:
        if self._latency and self._random.random() < 0.5:
            await asyncio.sleep(round(self._random.uniform(0, self._latency), 3))
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
            case "refuse" if not self._is_in_doubt(what):
                # Who refuses says that nothing is there: while an earlier call is in doubt that would be a lie.
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
        waiting: list[tuple[int, Crash]] = []
        for skip, crash in self._kills:
            if crash.when != when:
                waiting.append((skip, crash))
            elif skip == 0 and self.killed_by is None:
                self.killed_by = crash
            else:
                waiting.append((max(0, skip - 1), crash))
        self._kills = waiting
        if self.killed_by is not None:
            self._journal.crashes += 1
            self._journal.note("crash", f"{when} {method} {path}")
            raise Killed
