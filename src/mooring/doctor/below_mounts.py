"""What mounts hold and hide, found out without disturbing anybody."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from mooring.host import syscalls
from mooring.host.answers import has_server
from mooring.host.features import KernelFeatures
from mooring.host.health import Answer
from mooring.host.interface import MountFacts
from mooring.host.mount_table import MountTable

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_AT_ONCE = 32
_MOST_NAMES = 20
DELETED = "//deleted"
"""How the kernel ends the path of a directory that is mounted and was removed."""


def ask_all(ask: Callable[[str], Answer], mounts: Iterable[MountFacts]) -> dict[str, Answer]:
    """Ask the file system at each mount whether it answers; many that do not cost no more time than one."""
    paths = sorted({mount.path for mount in mounts})
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="mooring-doctor") as pool:
        return dict(zip(paths, pool.map(ask, paths), strict=True))


def hidden_names(
    features: KernelFeatures, table: MountTable, mounts: Iterable[MountFacts]
) -> dict[str, tuple[str, ...]]:
    """What lies in the directories that mounts cover, by the path of the mount.

    A detached copy of the mount below, without what is mounted on it, shows them; nobody else sees that copy. Where
    the kernel or our rights do not allow it, nothing is told.
    """
    found: dict[str, tuple[str, ...]] = {}
    for mount in mounts:
        below = table.by_id(mount.parent_id)
        if below is None or has_server(below.fs_type) or below.path == mount.path or not features.detached_mounts:
            continue
        relative = mount.path[len(below.path.rstrip("/")) + 1 :]
        with suppress(OSError), _bare(below.path) as copy:
            names = _names(copy, relative)
            if names:
                found[mount.path] = names
    return found


@contextmanager
def _bare(path: str) -> Iterator[int]:
    copy = syscalls.open_tree(syscalls.AT_FDCWD, path, syscalls.OPEN_TREE_CLONE | syscalls.OPEN_TREE_CLOEXEC)
    try:
        yield copy
    finally:
        os.close(copy)


def _names(copy: int, relative: str) -> tuple[str, ...]:
    directory = syscalls.openat2(copy, relative, _DIRECTORY, syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_SYMLINKS)
    try:
        return tuple(sorted(os.listdir(directory))[:_MOST_NAMES])
    finally:
        os.close(directory)


def is_empty(path: str) -> bool:
    """Whether the directory at a mount point that answers holds nothing; false when that cannot be told."""
    try:
        with os.scandir(path) as entries:
            return next(iter(entries), None) is None
    except OSError:
        return False


def source_of(table: MountTable, mount: MountFacts) -> str:
    """Another path at which the very directory or file of a bind mount is seen; empty when there is none.

    Only mounts that are no part of this one count: what is seen through it goes with it.
    """
    if mount.root.endswith(DELETED) or has_server(mount.fs_type):
        return ""
    tree = {each.id for each in table.tree_of(mount.id)}
    for other in table.mounts:
        if other.device != mount.device or other.id in tree or has_server(other.fs_type):
            continue
        if table.at(other.path) is not other or not _holds(other.root, mount.root):
            continue
        rest = mount.root[len(other.root.rstrip("/")) :].strip("/")
        path = f"{other.path.rstrip('/')}/{rest}" if rest else other.path
        if table.holding(path) is other and _is_same(path, mount.path):
            return path
    return ""


def _holds(above: str, below: str) -> bool:
    return above == below or below.startswith(f"{above.rstrip('/')}/")


def _is_same(one: str, other: str) -> bool:
    try:
        first, second = os.lstat(one), os.lstat(other)
    except OSError:
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino) and first.st_nlink > 0
