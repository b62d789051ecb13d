"""Whether anybody listens on a socket, asked by connecting to it and hanging up."""

from __future__ import annotations

import errno
import os
import posixpath
import socket

_HANDLE = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def is_silent(path: str) -> bool:
    """Whether a socket refuses connections; false when that cannot be told."""
    try:
        directory = os.open(posixpath.dirname(path), _HANDLE)
    except OSError:
        return False
    try:
        return refuses(directory, posixpath.basename(path))
    finally:
        os.close(directory)


def refuses(directory: int, name: str) -> bool:
    """The same for a name in an open directory. A path of any length is reached that way."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.setblocking(False)
        try:
            connection.connect(f"/proc/self/fd/{directory}/{name}")
        except OSError as error:
            # A socket of another kind is EPROTOTYPE, one whose queue is full is EAGAIN: both have somebody.
            return error.errno == errno.ECONNREFUSED
    return False
