"""Walks a directory tree on descriptors: no link is followed and no mount is entered, whatever others do meanwhile.

Depth is bounded by nothing: beyond some levels the descriptors of upper directories are closed, and found again by
way of `..`, which is checked to lead where it came from.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Protocol

from mooring.host import same_mount, syscalls
from mooring.host.features import KernelFeatures

_MOST_OPEN = 64


class Visitor(Protocol):
    """What is done to a tree, one directory at a time."""

    def open_child(self, directory: int, name: str) -> int:
        """Open a sub-directory; OSError EXDEV when it is a mount point."""
        ...

    def enter(self, directory: int, path: str) -> list[str]:
        """Handle all that is no directory, and return the names of the sub-directories to walk."""
        ...

    def leave(self, above: int, name: str, directory: int, path: str) -> bool:
        """Handle the directory itself, all below it being done; False to enter it once more."""
        ...

    def failed(self, directory: int, name: str, path: str, error: OSError) -> None:
        """Take note that a sub-directory could not be opened or read."""
        ...


@dataclass(slots=True)
class _Level:
    descriptor: int
    name: str
    path: str
    pending: list[str] = field(default_factory=list)
    identity: tuple[int, int] = (0, 0)  # set when the descriptor is closed before its time


def open_on_same_mount(features: KernelFeatures, directory: int, name: str) -> int:
    """Open a sub-directory for reading; OSError EXDEV when something is mounted on it."""
    return same_mount.open_directory(directory, name, confined_open=features.confined_open)


def may_hold_mounts(features: KernelFeatures, directory: int) -> bool:
    """Tell whether anything at all is mounted on the mount a directory lies on; true when the kernel cannot tell."""
    if not features.unique_mount_ids:
        return True
    try:
        return bool(syscalls.listmount(syscalls.unique_mount_id_behind(directory)))
    except OSError:
        return True


def walk(visitor: Visitor, above: int, name: str, descriptor: int, path: str) -> None:
    """Visit the directory behind a descriptor and all below it, children before their directory.

    The descriptor is closed; `above`, that of the directory it lies in, is not.
    """
    levels = [_Level(descriptor, name, path)]
    try:
        levels[0].pending = visitor.enter(descriptor, path)
        while levels:
            level = levels[-1]
            if level.pending:
                _descend(visitor, levels, level)
                continue
            if len(levels) > 1 and levels[-2].descriptor < 0:
                levels[-2].descriptor = same_mount.open_above(level.descriptor, levels[-2].identity, levels[-2].path)
            parent = levels[-2].descriptor if len(levels) > 1 else above
            if not visitor.leave(parent, level.name, level.descriptor, level.path):
                level.pending = visitor.enter(level.descriptor, level.path)
                continue
            levels.pop()
            os.close(level.descriptor)
    finally:
        for level in levels:
            if level.descriptor >= 0:
                os.close(level.descriptor)


def _descend(visitor: Visitor, levels: list[_Level], level: _Level) -> None:
    name = level.pending.pop()
    path = f"{level.path}/{name}"
    try:
        descriptor = visitor.open_child(level.descriptor, name)
    except FileNotFoundError:
        return
    except OSError as error:
        visitor.failed(level.descriptor, name, path, error)
        return
    child = _Level(descriptor, name, path)
    levels.append(child)
    if len(levels) > _MOST_OPEN and (distant := levels[-_MOST_OPEN - 1]).descriptor >= 0:
        distant.identity = same_mount.identity(distant.descriptor)
        os.close(distant.descriptor)
        distant.descriptor = -1
    try:
        child.pending = visitor.enter(descriptor, path)
    except OSError as error:
        visitor.failed(level.descriptor, name, path, error)
