"""The registry directory: which sockets are in it and in the directories below."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from mooring.engine.pending import Backoff
from mooring.errors import Doubtful
from mooring.host.interface import FileFacts, FileKind, Host, Risk
from mooring.registration.lookout import Lookout, Sight, nearest_directory
from mooring.registration.worlds import Identity, is_at_or_below

LINK_TIMEOUT = 1.0
"""Seconds that a look at the other end of a link may take: it may lead anywhere."""

Seen = Callable[[Mapping[str, Identity], Collection[str]], None]
"""Told all sockets after each look, and which paths have gone since the last one."""


class SocketWatcher:
    """Watches a directory tree for sockets.

    Links to sockets count as sockets; links to directories are not entered, nor is anything whose name begins with a
    dot. Sockets and directories that are moved away are gone, and those moved here are new.
    """

    def __init__(
        self,
        host: Host,
        directory: str,
        seen: Seen,
        *,
        backoff: Backoff,
        resync_interval: float,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._directory = directory
        self._seen = seen
        self._last: Mapping[str, Identity] = {}
        self._lookout = Lookout(self._look, backoff=backoff, resync_interval=resync_interval, told=told)

    @property
    def problem(self) -> str:
        """What keeps sockets from being noticed, or nothing."""
        return self._lookout.problem

    async def run(self) -> None:
        """Watch, until cancelled. A directory that cannot be made or read is tried again."""
        await self._lookout.run()

    async def _look(self, gone: Collection[str]) -> Sight:
        found = _Found()
        try:
            self._host.make_directories(self._directory, 0o755)
        except OSError as error:
            found.problem = f"cannot make the directory {self._directory}: {error.strerror}"
            found.directories.add(nearest_directory(self._host, os.path.dirname(self._directory)))
        self._walk(self._directory, found)
        for link in found.links:
            await self._follow(link, found)
        # A directory that cannot be read now is not empty: what was known of it still holds.
        kept = {path: known for path, known in self._last.items() if is_at_or_below(path, found.unread)}
        self._last = kept | found.sockets
        self._seen(self._last, gone)
        return Sight(directories=frozenset(found.directories), problem=found.problem)

    def _walk(self, directory: str, found: _Found) -> None:
        try:
            names = self._host.names_in(directory)
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            found.problem = f"cannot read the directory {directory}: {error.strerror}"
            found.unread.add(directory)
            return
        found.directories.add(directory)
        for name in names:
            if not name.startswith("."):
                self._enter(os.path.join(directory, name), found)

    def _enter(self, path: str, found: _Found) -> None:
        try:
            facts = self._host.look(path)
        except OSError as error:
            found.problem = f"cannot look at {path}: {error.strerror}"
            found.unread.add(path)
            return
        match facts.kind if facts is not None else None:
            case FileKind.DIRECTORY:
                self._walk(path, found)
            case FileKind.LINK:
                found.links.append(path)
            case FileKind.SOCKET if facts is not None:
                found.sockets[path] = identity_of(facts)

    async def _follow(self, link: str, found: _Found) -> None:
        try:
            far = await look_far(self._host, link)
        except (Doubtful, TimeoutError):
            found.problem = f"cannot look where {link} leads: the file system does not answer"
            found.unread.add(link)
            return
        except OSError:  # a circle of links, or a place that is not for us
            return
        found.directories |= far.directories
        if far.facts is not None and far.facts.kind is FileKind.SOCKET:
            found.sockets[link] = identity_of(far.facts)


@dataclass(slots=True)
class _Found:
    """What a walk has come across so far."""

    sockets: dict[str, Identity] = field(default_factory=dict)
    links: list[str] = field(default_factory=list)
    directories: set[str] = field(default_factory=set)
    unread: set[str] = field(default_factory=set)
    problem: str = ""


def identity_of(facts: FileFacts) -> Identity:
    return Identity(device=facts.device, inode=facts.inode, modified_at=facts.modified_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class FarSight:
    """What a path leads to, and through which path at last; changes in these directories can change that."""

    facts: FileFacts | None
    end: str
    directories: frozenset[str]


async def look_far(host: Host, path: str) -> FarSight:
    """A look at a path that may be on any file system; TimeoutError or `Doubtful` when there is no answer."""

    def look() -> FarSight:
        itself = host.look(path)
        end = os.path.realpath(path) if itself is not None and itself.kind is FileKind.LINK else path
        directories = frozenset(nearest_directory(host, os.path.dirname(each)) for each in (path, end))
        return FarSight(facts=host.look_through(path), end=end, directories=directories)

    async with asyncio.timeout(LINK_TIMEOUT):
        return await host.run(look, risk=Risk.HANGING, what=f"look for a socket at {path}", at=path)
