"""What happened in a history, in order and in virtual time; equal for equal scripts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


class Violation(Exception):
    """Something that must always hold did not."""

    def __init__(self, invariant: str, what: str) -> None:
        self.invariant, self.what = invariant, what
        super().__init__(f"{invariant}: {what}")


@dataclass(frozen=True, slots=True)
class Entry:
    at: float
    event: str
    detail: str

    def __str__(self) -> str:
        return f"{self.at:10.3f}  {self.event:<10} {self.detail}".rstrip()


@dataclass(slots=True)
class Journal:
    """The entries of one history, what was counted in it, and the first violation that was noticed."""

    clock: Callable[[], float]
    entries: list[Entry] = field(default_factory=list)
    steps: int = 0
    crashes: int = 0
    faults: int = 0
    operations: int = 0
    violation: Violation | None = None

    def note(self, event: str, detail: str) -> None:
        self.entries.append(Entry(self.clock(), event, detail))

    def accuse(self, invariant: str, what: str) -> None:
        """Remember a violation that was noticed where it cannot be raised: inside the manager's own calls."""
        if self.violation is None:
            self.violation = Violation(invariant, what)

    def raise_violation(self) -> None:
        if self.violation is not None:
            raise self.violation
