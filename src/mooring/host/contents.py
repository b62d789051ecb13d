"""What a directory holds, asked relative to a descriptor of it: a long path is walked once, not once for each file."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK


def links_in(path: str) -> dict[str, bool]:
    """Return each name in a directory, and whether it is a symbolic link, which the directory itself tells."""
    with os.scandir(path) as entries:
        return {entry.name: entry.is_symlink() for entry in entries}


def holds_files(path: str, files: Mapping[str, bytes]) -> bool:
    """Return whether a directory has just these files, each with just this content, and nothing else."""
    try:
        if files.keys() != set(os.listdir(path)):  # of a descriptor it takes a copy first, and more calls
            return False
        directory = os.open(path, _DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return all(_holds(directory, name, data) for name, data in files.items())
    finally:
        os.close(directory)


def _holds(directory: int, name: str, data: bytes) -> bool:
    try:
        file = os.open(name, _FILE, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOENT, errno.ENXIO):  # a link, one that went, a socket
            return False
        raise
    try:
        return _read_more_than(file, len(data)) == data
    except IsADirectoryError:
        return False
    finally:
        os.close(file)


def _read_more_than(file: int, size: int) -> bytes:
    """The first bytes of a file, one more than `size` if there are so many. A regular file is read whole in one go."""
    data = os.read(file, size + 1)
    while 0 < len(data) < size:
        piece = os.read(file, size + 1 - len(data))
        if not piece:
            break
        data += piece
    return data
