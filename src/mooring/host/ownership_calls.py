"""Who owns the files of a volume: what a walk sets and reports, how others look at it, and how to do without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Ownership:
    """What an ownership walk sets: the group, and mode bits added to files and directories."""

    gid: int
    file_mask: int
    directory_mask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnershipReport:
    """What an ownership walk did: `failed` entries kept their owner or mode, and `errors` tells of the first few."""

    visited: int
    changed: int
    failed: int = 0
    errors: Sequence[str] = field(default_factory=tuple)


class OwnershipWalk:
    """A walk that may take minutes. Its figures are written by whoever walks, and read by anybody at any time.

    `expected` is about how many entries there are, when something tells.
    """

    def __init__(self, *, clock: Callable[[], float], expected: int | None = None) -> None:
        self._clock = clock
        self.expected = expected
        self.gid: int | None = None
        self.began_at: float | None = None
        self.visited = 0
        self.changed = 0
        self.failed = 0
        self.stopped = False
        self.processes: Sequence[int] = ()

    def begin(self, gid: int) -> None:
        """Say that the walk has begun, and whom the files are given to."""
        self.gid = gid
        self.began_at = self._clock()

    @property
    def seconds(self) -> float:
        """How long it has been under way."""
        return 0.0 if self.began_at is None else self._clock() - self.began_at

    def count(self, visited: int, changed: int, failed: int) -> None:
        self.visited, self.changed, self.failed = visited, changed, failed

    def share(self, processes: Sequence[int]) -> None:
        """Say that processes take the walk over, from its beginning."""
        self.processes = processes

    def stop(self) -> None:
        """Let it end soon: what it has not come to keeps its owner, the root among it."""
        self.stopped = True


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSwap:
    """Two groups that change places in what a mount shows; all others are shown as they are."""

    on_disk: int
    shown: int


class OwnershipCalls(Protocol):
    """The part of a `Host` that is about who owns files."""

    def set_ownership(self, path: str, ownership: Ownership) -> OwnershipReport:
        """Walk the tree below and including `path`, children before their directory, the root last.

        Never follows links, never crosses into another mount, ignores entries that vanish, skips what is already right.
        The root of a tree of which something failed stays as it is.
        """
        ...

    async def own_tree(self, path: str, ownership: Ownership, walk: OwnershipWalk) -> OwnershipReport:
        """As `set_ownership`, for a directory that may hold very much: it tells how far it is, and can be stopped.

        It may take as long as it likes, but `Doubtful` when it does not get on at all for as long as a hanging call is
        waited for. OSError ECANCELED when it was stopped.
        """
        ...

    def bind_swapped(
        self, source: str, target: str, swap: GroupSwap, *, read_only: bool = False, flags: Sequence[str] = ()
    ) -> None:
        """As `bind`, with two groups swapped in what is seen and made there; no file is changed. HANGING.

        OSError EOPNOTSUPP when the kernel has no idmapped mounts, EINVAL when the file system has none, EPERM when the
        process may not make them or the source is such a mount already.
        """
        ...
