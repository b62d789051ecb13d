"""Stepping down a tree without following a link or entering a mount, whatever others do to it meanwhile.

Few imports on purpose: the processes that share a large tree begin with this.
"""

from __future__ import annotations

import errno
import os

from mooring.host import syscalls

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_CONFINED = syscalls.RESOLVE_NO_XDEV | syscalls.RESOLVE_NO_SYMLINKS | syscalls.RESOLVE_BENEATH


def open_directory(directory: int, name: str, *, confined_open: bool) -> int:
    """Open a sub-directory for reading; OSError EXDEV when something is mounted on it."""
    if confined_open:
        return syscalls.openat2(directory, name, DIRECTORY, _CONFINED)
    handle = os.open(name, os.O_PATH | DIRECTORY, dir_fd=directory)  # does not enter the file system
    try:
        if mount_id_behind(handle) != mount_id_behind(directory):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), name)
        return os.open(".", DIRECTORY, dir_fd=handle)
    finally:
        os.close(handle)


def is_mount_point(directory: int, name: str, *, mount_root_attribute: bool) -> bool:
    """Tell whether something is mounted on an entry of a directory."""
    if mount_root_attribute:
        return syscalls.is_mount_root(directory, name)
    handle = os.open(name, _HANDLE, dir_fd=directory)
    try:
        return mount_id_behind(handle) != mount_id_behind(directory)
    finally:
        os.close(handle)


def mount_id_behind(descriptor: int) -> int:
    """Return the id (of the kind that may be used again) of the mount a descriptor was opened through."""
    with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
        for line in file:
            if line.startswith(b"mnt_id:"):
                return int(line[7:])
    raise OSError("the kernel does not tell which mount a descriptor belongs to")


def identity(descriptor: int) -> tuple[int, int]:
    """What tells one directory from every other that exists now."""
    facts = os.fstat(descriptor)
    return facts.st_dev, facts.st_ino


def open_above(descriptor: int, expected: tuple[int, int], path: str) -> int:
    """Open the directory above one, which must still be the one it was when the walk came down."""
    above = os.open("..", DIRECTORY, dir_fd=descriptor)
    if identity(above) != expected:
        os.close(above)
        raise OSError(errno.ESTALE, "the directory was moved while it was walked", path)
    return above
