"""Reads a tree below the root directory into entries, on descriptors: no link is followed and no mount is entered.

What holds much is not read to its end: a volume with some hundred files is no empty leftover, whatever else it holds.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from mooring.doctor import layout
from mooring.doctor.snapshot import Entry
from mooring.host.descent import open_on_same_mount
from mooring.host.features import KernelFeatures
from mooring.host.interface import FileKind

MOST_FILES = 200
"""How many things other than directories are looked at in one unit: that many are data."""
MOST_ENTRIES = 5000
"""How many entries are looked at in one unit."""
MOST_LEVELS = 200
"""How deep directories are entered."""

_KINDS = {
    stat.S_IFDIR: FileKind.DIRECTORY,
    stat.S_IFREG: FileKind.FILE,
    stat.S_IFLNK: FileKind.LINK,
    stat.S_IFSOCK: FileKind.SOCKET,
    stat.S_IFCHR: FileKind.CHARACTER_DEVICE,
    stat.S_IFBLK: FileKind.BLOCK_DEVICE,
    stat.S_IFIFO: FileKind.FIFO,
}
_TOP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class TreeReader:
    """Fills a table of entries by path."""

    def __init__(self, features: KernelFeatures, root: str, is_mounted: Callable[[str], bool]) -> None:
        self._features, self._root, self._is_mounted = features, root, is_mounted
        self._files: Counter[str] = Counter()
        self._seen: Counter[str] = Counter()
        self.entries: dict[str, Entry] = {}

    def read_top(self, name: str) -> None:
        """Read one of the directories in the root directory, even if it is a mount point of its own."""
        path = f"{self._root.rstrip('/')}/{name}" if name else self._root
        try:
            facts = os.lstat(path)
            if not stat.S_ISDIR(facts.st_mode):
                self.entries[path] = _entry(path, facts, text=_link_text(path, None))
                return
            descriptor = os.open(path, _TOP)
        except FileNotFoundError:
            return
        except OSError as error:
            self.entries[path] = Entry(
                path=path, kind=FileKind.DIRECTORY, whole=False, trouble=error.strerror or str(error)
            )
            return
        try:
            self._read(descriptor, path, os.fstat(descriptor), levels=1 if not name else MOST_LEVELS)
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, path: str, facts: os.stat_result, levels: int) -> None:
        unit = self._unit(path)
        names, whole = self._names(descriptor, path, unit)
        directories = [name for name in names if self._look(descriptor, name, f"{path}/{name}")] if levels else []
        self.entries[path] = _entry(path, facts, names=tuple(names), whole=whole and levels > 0)
        if levels <= 1:
            return
        for name in directories:
            self._enter(descriptor, name, f"{path}/{name}", levels - 1)

    def _names(self, descriptor: int, path: str, unit: str) -> tuple[list[str], bool]:
        names: list[str] = []
        try:
            with os.scandir(descriptor) as found:
                for entry in found:
                    if unit and (self._seen[unit] >= MOST_ENTRIES or self._files[unit] >= MOST_FILES):
                        return sorted(names), False
                    names.append(entry.name)
                    self._seen[unit] += 1
                    if not entry.is_dir(follow_symlinks=False):
                        self._files[unit] += 1
        except OSError:
            return sorted(names), False
        return sorted(names), True

    def _look(self, above: int, name: str, path: str) -> bool:
        """Note an entry; true for a directory that is to be entered."""
        if self._is_mounted(path):  # asking what is mounted there might never be answered
            self.entries[path] = Entry(path=path, kind=FileKind.DIRECTORY, mounted=True, whole=False)
            return False
        try:
            facts = os.stat(name, dir_fd=above, follow_symlinks=False)
        except OSError as error:
            self.entries[path] = Entry(path=path, kind=FileKind.FILE, whole=False, trouble=error.strerror or str(error))
            return False
        self.entries[path] = _entry(
            path,
            facts,
            text=_link_text(name, above) if stat.S_ISLNK(facts.st_mode) else "",
            whole=not stat.S_ISDIR(facts.st_mode),
        )
        return stat.S_ISDIR(facts.st_mode)

    def _enter(self, above: int, name: str, path: str, levels: int) -> None:
        try:
            descriptor = open_on_same_mount(self._features, above, name)
        except OSError as error:
            before = self.entries[path]
            self.entries[path] = Entry(
                path=path,
                kind=before.kind,
                mode=before.mode,
                uid=before.uid,
                gid=before.gid,
                device=before.device,
                inode=before.inode,
                whole=False,
                mounted=error.errno == errno.EXDEV,
                trouble="" if error.errno == errno.EXDEV else error.strerror or str(error),
            )
            return
        try:
            self._read(descriptor, path, os.fstat(descriptor), levels)
        finally:
            os.close(descriptor)

    def _unit(self, path: str) -> str:
        """What a path counts for; only the scaffolding above units is read to its end, however much there is."""
        relative = path[len(self._root.rstrip("/")) + 1 :]
        unit = layout.unit_of(relative)
        if unit is not None:
            return unit.path
        parts = relative.split("/")
        if parts[0] == "plugins" and len(parts) > 1 and not parts[1].startswith("kubernetes.io"):
            return "/".join(parts[:2])  # what drivers keep for themselves
        return "" if parts[0] in ("pods", "plugins") else parts[0]


def _entry(
    path: str, facts: os.stat_result, *, names: tuple[str, ...] = (), whole: bool = True, text: str = ""
) -> Entry:
    return Entry(
        path=path,
        kind=_KINDS[stat.S_IFMT(facts.st_mode)],
        mode=stat.S_IMODE(facts.st_mode),
        uid=facts.st_uid,
        gid=facts.st_gid,
        size=facts.st_size,
        device=facts.st_dev,
        inode=facts.st_ino,
        links=facts.st_nlink,
        names=names,
        whole=whole,
        text=text,
    )


def _link_text(name: str, above: int | None) -> str:
    with suppress(OSError):
        return os.readlink(name, dir_fd=above)
    return ""
