"""Tests that make real mounts: each runs in a mount namespace of its own, on a tmpfs that vanishes with it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.host import syscalls

_CLONE_FS = 0x200
_CLONE_NEWNS = 0x20000
_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


@pytest.fixture
def node_root(tmp_path: Path) -> Iterator[str]:
    """An empty directory on a tmpfs of its own, in a private mount namespace that the main thread is in.

    Threads and processes started by the test are in it too. Nothing that is mounted there is ever seen outside, and
    all of it is gone when the last thread or process has left.
    """
    if os.geteuid() != 0:
        pytest.skip("needs root")
    directory = os.getcwd()
    outside = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.unshare(_CLONE_NEWNS), "cannot make a mount namespace")
        try:
            syscalls.mount("", "/", "", syscalls.MS_REC | syscalls.MS_PRIVATE, "")
            syscalls.mount("tmpfs", str(tmp_path), "tmpfs", 0, "mode=755")
            os.mkdir(f"{tmp_path}/root", 0o755)
            yield f"{tmp_path}/root"
        finally:
            # Threads the test left behind share this thread's idea of the file system, and setns refuses that.
            _check(_libc.unshare(_CLONE_FS), "cannot part from other threads")
            _check(_libc.setns(outside, _CLONE_NEWNS), "cannot return from the mount namespace")
            os.chdir(directory)
    finally:
        os.close(outside)
