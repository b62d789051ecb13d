"""How full volumes are: statfs for file systems, a walk within a budget for directories that share one."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from mooring.host.interface import FileSystemUsage, TreeUsage

_BLOCK = 512  # st_blocks counts these, whatever the file system's own block size is


def file_system_usage(path: str) -> FileSystemUsage:
    """What the file system that holds a path says of itself. May hang on a dead server."""
    found = os.statvfs(path)
    return FileSystemUsage(
        capacity=found.f_blocks * found.f_frsize,
        available=found.f_bavail * found.f_frsize,
        used=(found.f_blocks - found.f_bfree) * found.f_frsize,
        inodes=found.f_files,
        inodes_free=found.f_ffree,
        inodes_used=found.f_files - found.f_ffree,
    )


def tree_usage(path: str, budget: int) -> TreeUsage:
    """Bytes and inodes below and including a directory, on its own file system, hard links counted once.

    No link is followed. After `budget` entries the walk stops and says so: what it counted is then a lower bound.
    """
    root = os.lstat(path)
    walk = _Walk(root.st_dev, budget)
    walk.count(root)
    if stat.S_ISDIR(root.st_mode):
        walk.below(path)
    return TreeUsage(used=walk.used, inodes=walk.inodes, complete=walk.budget > 0)


class _Walk:
    def __init__(self, device: int, budget: int) -> None:
        self._device = device
        self._linked: set[int] = set()
        self.budget = budget
        self.used = 0
        self.inodes = 0

    def count(self, facts: os.stat_result) -> None:
        if facts.st_nlink > 1 and not stat.S_ISDIR(facts.st_mode):
            if facts.st_ino in self._linked:
                return
            self._linked.add(facts.st_ino)
        self.used += facts.st_blocks * _BLOCK
        self.inodes += 1

    def below(self, path: str) -> None:
        """Count everything below a directory; what vanishes meanwhile, or cannot be read, is passed over."""
        pending = [path]
        while pending and self.budget > 0:
            directory = pending.pop()
            try:
                with os.scandir(directory) as entries:
                    pending.extend(f"{directory}/{name}" for name in self._directories(entries))
            except OSError:
                continue

    def _directories(self, entries: Iterator[os.DirEntry[str]]) -> list[str]:
        found = []
        for entry in entries:
            self.budget -= 1
            if self.budget <= 0:
                break
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if facts.st_dev != self._device:
                continue
            self.count(facts)
            if stat.S_ISDIR(facts.st_mode):
                found.append(entry.name)
        return found
