"""The root directory of an instance, and the lock that keeps it to one process."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from mooring.errors import MooringError, Refused
from mooring.host.paths import Paths

_LONGEST_SOCKET = 107
"""unix(7): a socket's path and the zero byte behind it fit into 108."""


def make_root(paths: Paths) -> None:
    """Make the root directory and what lies in it from the start."""
    if len(os.fsencode(paths.socket)) > _LONGEST_SOCKET:
        raise Refused(
            f"cannot use {paths.root!r} as root directory",
            why=f"the path of its control socket would be longer than {_LONGEST_SOCKET} bytes",
            next_step="Choose a shorter one with --root",
        )
    try:
        for directory in (paths.root, paths.pods_dir, paths.plugins_dir, paths.registry_dir):
            os.makedirs(directory, 0o750, exist_ok=True)
    except OSError as error:
        raise Refused(
            f"cannot use {paths.root!r} as root directory",
            why=f"{error.strerror} at {error.filename}",
            next_step="Choose another with --root, or run with the rights it needs",
        ) from error


class AlreadyRunning(MooringError):
    """Another process manages this root directory."""

    def __init__(self, root: str, pid: str) -> None:
        super().__init__(
            f"cannot use {root!r} as root directory",
            why=f"process {pid} already runs a manager there",
            next_step="Use that one with apply, get and down, or choose another --root",
        )


@contextlib.contextmanager
def locked(paths: Paths) -> Iterator[None]:
    """Hold the instance's lock: two daemons on one root would undo each other's work."""
    descriptor = os.open(paths.lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AlreadyRunning(paths.root, read_pid(paths)) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


def read_pid(paths: Paths) -> str:
    """The process that holds the lock, or held it last."""
    try:
        with open(paths.lock_file, encoding="ascii") as stream:
            return stream.read(32).strip() or "unknown"
    except (OSError, ValueError):
        return "unknown"
