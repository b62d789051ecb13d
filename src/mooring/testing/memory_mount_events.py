"""What others do to the mounts of a `MemoryHost`, and how it becomes known."""

from __future__ import annotations

from collections.abc import Callable

from mooring.host import mount_facts
from mooring.host.interface import MountFacts
from mooring.host.mount_events import MountNews, Shown
from mooring.host.mount_limits import MountRoom
from mooring.testing.memory_mounts import MemoryMounts


class MemoryMountEvents:
    """A subscription to what others do; `names_mounts` is off on a machine that only tells that something changed."""

    def __init__(self, announce: Callable[[], None], *, names_mounts: bool) -> None:
        self._announce = announce
        self._names_mounts = names_mounts
        self._attached: list[int] = []
        self._detached: list[int] = []
        self._flags = False
        self._closed = False

    def take(self) -> MountNews:
        attached, detached, flags = tuple(self._attached), tuple(self._detached), self._flags
        self._attached, self._detached, self._flags = [], [], False
        changed = bool(attached or detached or flags)
        if not self._names_mounts or (flags and not attached and not detached):
            return MountNews(everything=changed)
        return MountNews(attached=attached, detached=detached, flags_unseen=flags)

    def close(self) -> None:
        self._closed = True

    def tell(self, *, attached: int | None = None, detached: int | None = None) -> None:
        if self._closed:
            return
        if attached is not None:
            self._attached.append(attached)
        elif detached is not None:
            self._detached.append(detached)
        else:
            self._flags = True
        self._announce()


class Somebody:
    """Another process with the right to mount. All that it does is told to those who watch mounts."""

    def __init__(self, mounts: MemoryMounts) -> None:
        self._mounts = mounts
        self.watchers: list[MemoryMountEvents] = []

    def unmounts(self, path: str, *, lazy: bool = False) -> None:
        mount = self._mounts.at(path)
        assert mount is not None
        self._mounts.unmount(path, lazy)
        for watcher in self.watchers:
            watcher.tell(detached=mount.id)

    def mounts_tmpfs(self, path: str) -> None:
        self._mounts.mount_tmpfs(path, None, None)
        self._mounted(path)

    def binds(self, source: str, target: str) -> None:
        self._mounts.bind(source, target, read_only=False, recursive=False, flags=())
        self._mounted(target)

    def remounts_read_only(self, path: str, *, file_system: bool = False) -> None:
        """Set the flag of the mount at a path, or that of its whole file system."""
        mount = self._mounts.at(path)
        assert mount is not None
        if file_system:
            mount.file_system.read_only = True
        else:
            mount.read_only = True
        for watcher in self.watchers:
            watcher.tell()

    def _mounted(self, path: str) -> None:
        mount = self._mounts.at(path)
        assert mount is not None
        for watcher in self.watchers:
            watcher.tell(attached=mount.id)


class MemoryMountWatchCalls:
    """What `MemoryHost` inherits. Its own mounts are not told, as those of this process are not on Linux."""

    _mounts: MemoryMounts
    names_mounts = True
    """Whether news name the mounts they are about."""

    def __init__(self) -> None:
        self.somebody = Somebody(self._mounts)

    def mount_id_at(self, path: str) -> int | None:
        mount = self._mounts.at(path)
        return None if mount is None else mount.id

    def mount_by_id(self, identity: int) -> MountFacts | None:
        return self._mounts.facts_by_id(identity)

    def shown_by(self, identity: int) -> Shown | None:
        facts = self._mounts.facts_by_id(identity)
        return None if facts is None else mount_facts.shown_by(facts)

    def make_writable(self, path: str) -> None:
        self._mounts.make_writable(path)

    def mount_room(self) -> MountRoom:
        return MountRoom(used=self._mounts.count, limit=self._mounts.most)

    def watch_mounts(self, announce: Callable[[], None]) -> MemoryMountEvents:
        events = MemoryMountEvents(announce, names_mounts=self.names_mounts)
        self.somebody.watchers.append(events)
        return events

    def limit_mounts(self, most: int) -> None:
        """Let the machine have so many mounts and no more."""
        self._mounts.most = most
