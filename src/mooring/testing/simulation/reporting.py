"""Runs many histories, and puts what happened into words and into JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

import msgspec

from mooring.testing.simulation.history import LEAST_CRASHES, make_script
from mooring.testing.simulation.runner import History, run_script
from mooring.testing.simulation.script import Script, describe
from mooring.testing.simulation.shrink import shrink


@dataclass(slots=True)
class Totals:
    """What many histories came to."""

    histories: int = 0
    steps: int = 0
    crashes: int = 0
    faults: int = 0
    operations: int = 0
    virtual_seconds: float = 0.0
    fewest_crashes: int | None = None  # in one history

    def add(self, history: History) -> None:
        self.histories += 1
        fewest = self.fewest_crashes
        self.fewest_crashes = history.crashes if fewest is None else min(fewest, history.crashes)
        self.steps += history.steps
        self.crashes += history.crashes
        self.faults += history.faults
        self.operations += history.operations
        self.virtual_seconds += history.seconds

    def __str__(self) -> str:
        return (
            f"{self.histories} histories, {self.steps} steps, {self.crashes} crashes (at least "
            f"{self.fewest_crashes or 0} each), {self.faults} faults, "
            f"{self.operations} operations, {self.virtual_seconds:.0f} seconds of virtual time"
        )


def scripts_of(first_seed: int, histories: int, crashes: int = LEAST_CRASHES) -> Iterator[Script]:
    """The scripts of so many seeds in a row, each with at least so many crashes."""
    return (make_script(seed, crashes) for seed in range(first_seed, first_seed + histories))


def run_until_failure(scripts: Iterable[Script]) -> Iterator[History]:
    """Run scripts one after the other, up to and with the first whose history violates something."""
    for script in scripts:
        history = run_script(script)
        yield history
        if history.violation is not None:
            return


def numbered_steps(script: Script) -> list[str]:
    """The script as lines for a person."""
    return [f"{number:3}. {describe(step)}" for number, step in enumerate(script.steps, 1)]


def as_document(histories: Iterable[History]) -> dict[str, object]:
    """Everything about histories as plain values; equal for equal scripts, with no time but the virtual one."""
    totals = Totals()
    told: list[dict[str, object]] = []
    failure: dict[str, object] | None = None
    for history in histories:
        totals.add(history)
        told.append(_history_as_document(history))
        if history.violation is not None:
            failure = {
                "seed": history.script.seed,
                "invariant": history.violation.invariant,
                "what": history.violation.what,
                "shrunk": msgspec.to_builtins(shrink(history).history.script),
            }
    return {"histories": told, "totals": asdict(totals), "failure": failure}


def _history_as_document(history: History) -> dict[str, object]:
    return {
        "script": msgspec.to_builtins(history.script),
        "seconds": history.seconds,
        "log": [{"at": entry.at, "event": entry.event, "detail": entry.detail} for entry in history.entries],
        "end": {"files": dict(history.end.entries), "mounts": list(history.end.mounts)},
    }
