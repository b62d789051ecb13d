"""Looking again whenever something happens in some directories: inotify with its gaps filled."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from mooring.engine.pending import Backoff
from mooring.host import inotify
from mooring.host.inotify import DirectoryEvent, DirectoryWatcher
from mooring.host.interface import FileKind, Host
from mooring.registration.worlds import is_at_or_below

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sight:
    """What a look found: the directories whose changes call for the next one, and what could not be looked at."""

    directories: frozenset[str]
    problem: str = ""


class Lookout:
    """Calls `look` at the start, at each change and, as a safety net, at each resync. Never two looks at once.

    `look` is told the paths that went away since the last look, even when something is there again. Only changes of
    paths that it `concerns` count. While there is a problem it is called after growing pauses as well; `told` is
    called when that begins, changes or is over.
    """

    def __init__(
        self,
        look: Callable[[Collection[str]], Awaitable[Sight]],
        *,
        backoff: Backoff,
        resync_interval: float,
        concerns: Callable[[str], bool] = lambda _: True,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self._look = look
        self._backoff = backoff
        self._resync_interval = resync_interval
        self._concerns = concerns
        self._told = told
        self._watcher: DirectoryWatcher | None = None
        self._events: list[DirectoryEvent] = []
        self._changed = asyncio.Event()
        self._failures = 0
        self.problem = ""

    async def run(self) -> None:
        """Look, until cancelled."""
        try:
            while True:
                self._changed.clear()
                sight = await self._look(self._take_gone())
                problem, is_fresh = self._watch(sight.directories)
                self._note(sight.problem or problem)
                if not is_fresh:  # else something may have happened there before it was watched
                    await self._until_changed()
        finally:
            if self._watcher is not None:
                self._watcher.close()
                self._watcher = None

    def _noticed(self, events: list[DirectoryEvent]) -> None:
        concerning = [event for event in events if event.mask & inotify.OVERFLOW or self._concerns(_path_of(event))]
        if concerning:
            self._events += concerning
            self._changed.set()

    def _take_gone(self) -> Collection[str]:
        """The paths that went away since this was last asked; directories among them are watched no longer."""
        events, self._events = self._events, []
        watcher = self._watcher
        if watcher is None:
            return ()
        gone = {_path_of(event) for event in events if event.mask & _GONE}
        # After an overflow nobody knows which watches still are of what their path leads to.
        is_lost = any(event.mask & inotify.OVERFLOW for event in events)
        for directory in sorted(watcher.directories):
            if is_lost or is_at_or_below(directory, gone):  # the watch of one that was moved would move along
                watcher.forget(directory)
        return gone

    def _watch(self, wanted: frozenset[str]) -> tuple[str, bool]:
        """Watch these directories; what prevents it, and whether one was not watched before."""
        problem, is_fresh = "", False
        try:
            watcher = self._watcher = self._watcher or DirectoryWatcher(self._noticed)
        except OSError as error:
            return f"cannot watch any directory: {error.strerror}", False
        for directory in sorted(watcher.directories - wanted):
            watcher.forget(directory)
        for directory in sorted(wanted - watcher.directories):
            try:
                watcher.watch(directory)
            except OSError as error:
                problem = f"cannot watch {directory}: {error.strerror}"
            else:
                is_fresh = True
        return problem, is_fresh

    def _note(self, problem: str) -> None:
        self._failures = self._failures + 1 if problem else 0
        if problem and problem != self.problem:
            log.warning("%s", problem)
        if problem != self.problem:
            self.problem = problem
            self._told()

    async def _until_changed(self) -> None:
        pause = self._backoff.after(self._failures) if self._failures else self._resync_interval
        try:
            async with asyncio.timeout(pause):
                await self._changed.wait()
        except TimeoutError:
            return


_GONE = inotify.DELETE | inotify.MOVED_FROM | inotify.DELETE_SELF | inotify.MOVE_SELF


def _path_of(event: DirectoryEvent) -> str:
    return os.path.join(event.directory, event.name) if event.name else event.directory


def nearest_directory(host: Host, path: str) -> str:
    """The path itself when it is a directory, else the nearest one above it: there something has to happen first."""
    while not _is_directory(host, path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _is_directory(host: Host, path: str) -> bool:
    try:
        facts = host.look_through(path)
    except OSError:  # a circle of links, or a place that is not for us
        return False
    return facts is not None and facts.kind is FileKind.DIRECTORY
