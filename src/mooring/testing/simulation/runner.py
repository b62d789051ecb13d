"""Runs a script under virtual time, and tells what it led to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from mooring.testing.memory_host import Snapshot
from mooring.testing.simulation.journal import Entry, Violation
from mooring.testing.simulation.script import Script
from mooring.testing.simulation.simulation import Simulation
from mooring.testing.virtual_time import VirtualTimeLoop, VirtualTimeStuck

MOST_TURNS = 100_000
"""How often the clock may be read without any time passing; an ordinary history does so some hundred times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """What a script led to. `violation` is None when everything held."""

    script: Script
    violation: Violation | None
    entries: tuple[Entry, ...]
    steps: int
    crashes: int
    faults: int
    operations: int
    seconds: float
    end: Snapshot


def run_script(script: Script) -> History:
    """Run a history to its end or to the first violation."""
    stage: list[Simulation] = []
    try:
        with asyncio.Runner(loop_factory=_WatchedLoop) as runner:
            runner.run(_play(script, stage))
    except VirtualTimeStuck as stuck:
        stage[0].journal.violation = Violation("alive", str(stuck))
    journal = stage[0].journal
    return History(
        script=script,
        violation=journal.violation,
        entries=tuple(journal.entries),
        steps=journal.steps,
        crashes=journal.crashes,
        faults=journal.faults,
        operations=journal.operations,
        seconds=journal.clock(),
        end=stage[0].node.host.snapshot(),
    )


async def _play(script: Script, stage: list[Simulation]) -> None:
    stage.append(Simulation(script))
    await stage[0].run()


class _WatchedLoop(VirtualTimeLoop):
    """Notices when everything turns in a circle and no time passes any more."""

    def __init__(self) -> None:
        self._since, self._turns = 0.0, 0
        super().__init__()

    def time(self) -> float:
        now = super().time()
        self._turns = self._turns + 1 if now == self._since else 0
        self._since = now
        if self._turns > MOST_TURNS:
            self._turns = 0
            raise VirtualTimeStuck(f"virtual time stands still at {now:g} s", why="the same is done over and over")
        return now
