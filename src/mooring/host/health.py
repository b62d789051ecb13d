"""Whether file systems answer, which calls wait for one that does not, and what was left behind because of it."""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

PATIENCE = 2.0
"""Seconds after which a file system that gave no answer counts as silent."""


class Answer(enum.Enum):
    """What a file system does when it is asked something."""

    WELL = "it answers"
    BROKEN = "its server is gone"
    SILENT = "it does not answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """A call that has not returned for a while; `abandoned` when nobody waits for it any more."""

    what: str
    at: str  # the path it may wait at, or empty
    work: Hashable  # what it is done for, as the caller called it
    seconds: float
    abandoned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Debt:
    """A mount that was taken out of the tree while somebody may still use it. It lasts until the last user ends."""

    path: str
    source: str
    fs_type: str
    device: int
    why: str


class HealthCalls(Protocol):
    """The part of a `Host` that is about file systems which do not answer."""

    def answers(self, path: str, patience: float = PATIENCE) -> Answer:
        """Ask the file system at a path something, and wait so many seconds for its answer. HANGING."""
        ...

    def server_of(self, path: str) -> str:
        """Who serves the file system that holds a path, in words; empty for one that the kernel serves itself."""
        ...

    def owe(self, debt: Debt) -> None:
        """Write down, before it happens, that a mount is about to be taken away from under its users. HANGING."""
        ...

    def debts(self) -> Sequence[Debt]:
        """What was written down and may still be in use; what is known to be over is forgotten."""
        ...

    def stalls(self) -> Sequence[Stall]:
        """Calls given to `run` that have not returned for a while."""
        ...

    def give_up(self, work: Hashable, why: str) -> None:
        """Wait no longer for the stalled calls of a work; they have no further effect when they return."""
        ...

    def watch_stalls(self, watcher: Callable[[], None]) -> None:
        """Have a function called whenever a call stalls and whenever a stalled one ends."""
        ...
