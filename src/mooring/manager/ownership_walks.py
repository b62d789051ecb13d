"""Walks over the files of volumes, as the manager sees them: how far they are, who is told, and when they end early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mooring.host.ownership_calls import OwnershipWalk
from mooring.world.changes import Change, Noticed, Owned
from mooring.world.desired import DesiredMount
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import Mount
from mooring.world.progress import Progress

SLOW = "VolumePermissionChangeInProgress"
_MOST_COUNTS = 10_000


@dataclass(slots=True, kw_only=True)
class _Followed:
    """A walk that may be, and who is to be told of it."""

    walk: OwnershipWalk
    wish: DesiredMount
    shown_path: str
    timer: asyncio.TimerHandle | None = None
    said: bool = False


@dataclass(slots=True)
class Totals:
    """Entries of all walks since the start, those under way included."""

    visited: int = 0
    changed: int = 0
    failed: int = 0

    def add(self, walk: OwnershipWalk) -> None:
        self.visited += walk.visited
        self.changed += walk.changed
        self.failed += walk.failed


class OwnershipWalks:
    """All walks of this node. Lives on the event loop; only the figures of a walk are written elsewhere."""

    def __init__(self, *, tell: Callable[[Change], None], patience: float, interval: float) -> None:
        self._tell = tell
        self._patience = patience  # seconds before a walk counts as slow
        self._interval = interval  # seconds between two words about a slow one
        self._followed: dict[tuple[VolumeName, PodUid], _Followed] = {}
        self._counts: dict[VolumeName, int] = {}  # of the last whole walk
        self._ended = Totals()

    @contextmanager
    def following(
        self, operation: Mount, wish: DesiredMount, plugin: PluginName, shown_path: str
    ) -> Iterator[OwnershipWalk]:
        """A walk for a mount to tell its progress to, if there is one to be done."""
        loop = asyncio.get_running_loop()
        # It is begun in a thread, where no loop runs: the clock has to be this one's.
        walk = OwnershipWalk(clock=loop.time, expected=self._counts.get(operation.volume))
        followed = _Followed(walk=walk, wish=wish, shown_path=shown_path)
        followed.timer = loop.call_later(self._patience, self._grow_impatient, followed)
        self._followed[operation.volume, operation.pod] = followed
        complete = False
        try:
            yield walk
            complete = True
        finally:
            walk.stop()
            followed.timer.cancel()
            del self._followed[operation.volume, operation.pod]
            if walk.began_at is not None:
                self._note(operation, wish, plugin, walk, complete=complete)

    def _note(
        self, operation: Mount, wish: DesiredMount, plugin: PluginName, walk: OwnershipWalk, *, complete: bool
    ) -> None:
        self._ended.add(walk)
        if complete:
            self._counts.pop(operation.volume, None)
            self._counts[operation.volume] = walk.visited
            if len(self._counts) > _MOST_COUNTS:
                del self._counts[next(iter(self._counts))]
        self._tell(
            Owned(
                pod=wish.pod,
                volume=wish.spec.name,
                plugin=plugin,
                progress=_progress(walk),
                complete=complete,
            )
        )

    def wish_changed(self, name: VolumeName, wanted: Container[PodUid]) -> None:
        """Let walks end whose pods do not want the volume any more: nobody waits minutes for what is of no use."""
        for (volume, pod), followed in self._followed.items():
            if volume == name and pod not in wanted:
                followed.walk.stop()

    def progress(self, name: VolumeName, pod: PodUid) -> Progress | None:
        """How far the walk for a pod's mount of a volume is; None when none is under way."""
        followed = self._followed.get((name, pod))
        if followed is None or followed.walk.began_at is None:
            return None
        return _progress(followed.walk)

    def under_way(self) -> int:
        """How many walks are at it now."""
        return sum(followed.walk.began_at is not None for followed in self._followed.values())

    def totals(self) -> Totals:
        totals = Totals(self._ended.visited, self._ended.changed, self._ended.failed)
        for followed in self._followed.values():
            totals.add(followed.walk)
        return totals

    def _grow_impatient(self, followed: _Followed) -> None:
        """Say that a walk takes long; with its first word, what could be done about it."""
        walk, path, again = followed.walk, followed.shown_path, self._interval
        if walk.began_at is None or walk.seconds < self._patience:
            again = self._patience - walk.seconds
        elif not followed.said:
            followed.said = True
            advice = "is taking longer than expected, consider using OnRootMismatch"
            self._say(followed, f"Setting volume ownership for {path} {advice}")
        else:
            self._say(followed, f"Setting volume ownership for {path}, processed {walk.visited} files.")
        followed.timer = asyncio.get_running_loop().call_later(again, self._grow_impatient, followed)

    def _say(self, followed: _Followed, message: str) -> None:
        wish = followed.wish
        self._tell(Noticed(pod=wish.pod, volume=wish.spec.name, reason=SLOW, message=message))


def _progress(walk: OwnershipWalk) -> Progress:
    assert walk.gid is not None
    return Progress(
        group=walk.gid,
        visited=walk.visited,
        changed=walk.changed,
        failed=walk.failed,
        seconds=walk.seconds,
        expected=walk.expected,
    )
