"""Walks a tree, or a part of one, on descriptors: children before their directory.

Depth is bounded by nothing: beyond some levels the descriptors of upper directories are closed, and found again by
way of `..`, which is checked to lead where it came from. Parts of what lies ahead can be lent to another walk, and
a directory is then owned once they have come back.

Few imports on purpose: the processes that share a large tree begin with this.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from itertools import islice

from mooring.host import same_mount
from mooring.host.ownership_entries import EntryOwner

_AT_ONCE = 128  # files owned between two looks at what others want
_LISTED = 65536  # names read ahead, to be brought into the order of the disk
_FEW = 32  # entries that lie near each other anyway
_MOST_OPEN = 32
_LEAST_FILES = 64  # worth lending
_MOST_BYTES = 60_000  # of names in one loan


class Level:
    """A directory on the way down, and what is left to do in it."""

    __slots__ = ("descriptor", "directories", "files", "identity", "lent", "path", "scan")

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self.scan: os._ScandirIterator[str] | None = None
        self.files: list[str] = []
        self.directories: list[str] = []
        self.lent = 0
        self.identity = (0, 0)  # set when the descriptor is closed before its time


class Loan:
    """Entries of one directory that another walk takes over, with all below them."""

    __slots__ = ("directories", "files", "level")

    def __init__(self, level: Level, directories: list[str], files: list[str]) -> None:
        self.level, self.directories, self.files = level, directories, files


class TreeWalk:
    """A walk over all below a directory that somebody else has opened; the directory itself is left alone.

    With names it is a walk over these entries alone, and all below them. `between` is called every now and then, if
    given, and may raise to break it off.
    """

    def __init__(
        self,
        owner: EntryOwner,
        descriptor: int,
        path: str,
        between: Callable[[], None] | None,
        loan: Loan | None = None,
    ) -> None:
        self._owner = owner
        self._between = between
        top = Level(descriptor, path)
        self._levels = [top]
        if loan is None:
            self._list(top)
        else:
            top.directories, top.files = loan.directories, loan.files

    def run(self) -> bool:
        """Go on until all is done, which is true, or all that is left waits for what was lent."""
        levels, between = self._levels, self._between
        while True:
            level = levels[-1]
            if level.files or level.scan is not None:
                self._own_some(level)
            elif level.directories:
                self._descend(level)
            elif level.lent:
                return False
            elif len(levels) == 1:
                return True
            else:
                self._leave()
            if between is not None:
                between()

    def close(self) -> None:
        """Give back all descriptors that are its own."""
        for level in self._levels:
            if level.scan is not None:
                level.scan.close()
        for level in self._levels[1:]:
            if level.descriptor >= 0:
                os.close(level.descriptor)
        self._levels.clear()

    def lend(self) -> Loan | None:
        """Take out half of what is left in the highest directory that has something worth lending.

        The last directory of all is kept: whoever lent it would have nothing to do himself.
        """
        for level in self._levels:
            if level.descriptor < 0:
                continue
            if len(level.directories) > (level is self._levels[-1] and not level.files):
                return Loan(level, _taken(level.directories, 1), [])
            if len(level.files) >= _LEAST_FILES:
                return Loan(level, [], _taken(level.files, _LEAST_FILES // 2))
        return None

    def _list(self, level: Level) -> None:
        try:
            level.scan = os.scandir(level.descriptor)
        except OSError as error:
            self._owner.note(level.path, error)

    def _own_some(self, level: Level) -> None:
        if not level.files:
            self._read_names(level)
        if len(level.files) > _AT_ONCE:
            names = level.files[-_AT_ONCE:]
            del level.files[-_AT_ONCE:]
        else:
            names, level.files = level.files, []
        turned = self._owner.own_all(level.descriptor, names, level.path)
        if turned:
            level.directories += turned

    def _read_names(self, level: Level) -> None:
        assert level.scan is not None
        entries: list[os.DirEntry[str]] = []
        try:
            entries.extend(islice(level.scan, _LISTED))
        except OSError as error:
            level.scan.close()
            self._owner.note(level.path, error)
        if len(entries) > _FEW:  # neighbours on the disk: their changes are written together
            entries.sort(key=os.DirEntry.inode)
        for entry in entries:
            (level.directories if entry.is_dir(follow_symlinks=False) else level.files).append(entry.name)
        if len(entries) < _LISTED:
            level.scan = None

    def _descend(self, level: Level) -> None:
        name = level.directories.pop()
        path = f"{level.path}/{name}"
        try:
            descriptor = same_mount.open_directory(level.descriptor, name, confined_open=self._owner.task.confined_open)
        except FileNotFoundError:
            return
        except OSError as error:
            self._stay_out(level, name, path, error)
            return
        child = Level(descriptor, path)
        self._levels.append(child)
        # The descriptor of the topmost directory is not its own, and stays.
        if len(self._levels) > _MOST_OPEN + 1 and (distant := self._levels[-_MOST_OPEN - 1]).descriptor >= 0:
            distant.identity = same_mount.identity(distant.descriptor)
            os.close(distant.descriptor)
            distant.descriptor = -1
        self._list(child)

    def _stay_out(self, level: Level, name: str, path: str, error: OSError) -> None:
        if error.errno == errno.EXDEV:  # a mount is somebody else's
            return
        if error.errno in (errno.ENOTDIR, errno.ELOOP):  # it was a directory a moment ago
            if not self._owner.own_all(level.descriptor, [name], level.path):
                return
            error = OSError(error.errno, "it is replaced again and again")
        self._owner.visited += 1
        self._owner.note(path, error)

    def _leave(self) -> None:
        level, above = self._levels[-1], self._levels[-2]
        if above.descriptor < 0:
            above.descriptor = same_mount.open_above(level.descriptor, above.identity, above.path)
        self._owner.own_directory(level.descriptor, level.path)
        self._levels.pop()
        os.close(level.descriptor)


def _taken(names: list[str], least: int) -> list[str]:
    """Remove and return about half of the names, as many as one message holds."""
    count = size = 0
    for name in names[: max(least, len(names) // 2)]:
        size += len(os.fsencode(name)) + 1
        if size > _MOST_BYTES:
            break
        count += 1
    taken = names[:count]
    del names[:count]
    return taken
