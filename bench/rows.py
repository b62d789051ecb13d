"""The rows of the table: which figure of which scenario, its goals, and what it means."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.programs import OTHERS, Figures
from bench.scenarios import KUBELET, MOORING, C

_UNITS = {"s": 1.0, "ms": 1e3, "µs": 1e6, "MB": 1e-6, "KB": 1e-3, "%": 100.0, "times": 1.0}
"""What seconds, bytes and shares are multiplied with."""


@dataclass(slots=True)
class Samples:
    """All rounds of all scenarios, by scenario and side."""

    rounds: dict[tuple[str, str], list[Figures]] = field(default_factory=dict)

    def add(self, scenario: str, side: str, figures: Figures) -> None:
        self.rounds.setdefault((scenario, side), []).append(figures)

    def of(self, scenario: str, side: str, figure: str) -> list[float]:
        return [figures[figure] for figures in self.rounds.get((scenario, side), []) if figure in figures]

    def noise(self) -> dict[str, Sequence[float]]:
        """By scenario, the shares of the machine that others took."""
        found: dict[str, list[float]] = {}
        for (scenario, _), rounds in self.rounds.items():
            found.setdefault(scenario, []).extend(figures[OTHERS] for figures in rounds if OTHERS in figures)
        return {scenario: shares for scenario, shares in found.items() if shares}


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and range of one figure."""

    median: float
    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """What a row should reach, in one way or another."""

    times: float | None = None  # the kubelet takes at least so many times as long
    most: float | None = None  # in the row's own seconds, bytes or share
    of_floor: float | None = None  # at most so many times the floor
    above_floor: float | None = None  # at most so much more than the floor

    def words(self, unit: str) -> str:
        said = []
        if self.times is not None:
            said.append(f"≥ {self.times:.3g}×")
        if self.most is not None:
            said.append(f"≤ {shown(self.most, unit)}")
        if self.of_floor is not None:
            said.append(f"≤ {self.of_floor:g}× the floor")
        if self.above_floor is not None:
            said.append(f"the floor + {shown(self.above_floor, unit)}")
        return " or ".join(said)

    def met(self, ours: float, kubelet: float | None, floor: float | None) -> bool | None:
        """Whether one of what is given holds; None when nothing can be said."""
        answers = []
        if self.times is not None and kubelet is not None:
            answers.append(kubelet >= self.times * ours)
        if self.most is not None:
            answers.append(ours <= self.most)
        if self.of_floor is not None and floor is not None:
            answers.append(ours <= self.of_floor * floor)
        if self.above_floor is not None and floor is not None:
            answers.append(ours <= floor + self.above_floor)
        return any(answers) if answers else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table. Of every figure less is better."""

    says: str
    scenario: str
    figure: str
    unit: str
    explains: str
    over: tuple[str, str] | None = None  # each side's figure is divided by this one of its own, and is a ratio
    floor: str = C  # whose figure counts as the floor
    won_over: str = ""  # what the kubelet loses to: its timers, or the same work
    accepted: Goal | None = None
    aim: Goal | None = None

    def spread(self, samples: Samples, side: str) -> Spread | None:
        values = samples.of(self.scenario, side, self.figure)
        if self.over is not None:
            below = samples.of(*self.over_of(side))
            values = [value / other for value, other in zip(values, below, strict=True)] if below else []
        return Spread(statistics.median(values), min(values), max(values)) if values else None

    def over_of(self, side: str) -> tuple[str, str, str]:
        assert self.over is not None
        scenario, figure = self.over
        return scenario, side, figure


@dataclass(frozen=True, slots=True)
class Line:
    """A row with what was measured. Ratios are None where there is nothing to compare with."""

    row: Row
    ours: Spread
    kubelet: Spread | None
    floor: Spread | None

    @property
    def times(self) -> float | None:
        return self.kubelet.median / self.ours.median if self.kubelet is not None and self.ours.median > 0 else None

    @property
    def of_floor(self) -> float | None:
        return self.ours.median / self.floor.median if self.floor is not None and self.floor.median > 0 else None

    def met(self, goal: Goal | None) -> bool | None:
        if goal is None:
            return None
        kubelet = self.kubelet.median if self.kubelet is not None else None
        return goal.met(self.ours.median, kubelet, self.floor.median if self.floor is not None else None)


def lines(rows: Sequence[Row], samples: Samples) -> list[Line]:
    """The rows for which mooring was measured."""
    found = []
    for row in rows:
        ours = row.spread(samples, MOORING)
        if ours is not None:
            found.append(Line(row, ours, row.spread(samples, KUBELET), row.spread(samples, row.floor)))
    return found


def shown(value: float, unit: str) -> str:
    """A figure in its unit, with three digits that count."""
    number = value * _UNITS[unit]
    digits = 0 if number >= 100 else 1 if number >= 10 else 2
    return f"{number:,.{digits}f}{'×' if unit == 'times' else ' ' + unit}"
