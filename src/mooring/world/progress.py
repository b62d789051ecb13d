"""How far a walk over a volume's files is, in figures and in words."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A walk that gives the files of a volume to a group. `expected` is an estimate, None when nothing tells."""

    group: int
    visited: int
    changed: int
    failed: int
    seconds: float
    expected: int | None = None

    @property
    def rate(self) -> float | None:
        """Entries a second so far; None while that would say nothing."""
        return self.visited / self.seconds if self.visited and self.seconds > 0 else None

    @property
    def seconds_left(self) -> float | None:
        """Only told while the estimate holds: a walk that has come upon more than was expected says nothing."""
        if self.expected is None or self.rate is None or self.visited > self.expected:
            return None
        return (self.expected - self.visited) / self.rate

    def __str__(self) -> str:
        of = f" of about {self.expected:,}" if self.expected is not None and self.expected >= self.visited else ""
        words = [f"its files are being given to group {self.group}: {self.visited:,}{of} done"]
        if self.rate is not None:
            words.append(f"{self.rate:,.0f}/s")
        if self.seconds_left is not None:
            words.append(f"about {_duration(self.seconds_left)} left")
        return ", ".join(words)


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes >= 2 else f"{seconds:.0f} s"
