"""Idmapped mounts: two groups change places in what a mount shows, and no file is changed for it.

The kernel takes the map from a user namespace. One is made by a process that lives for a moment and does nothing else.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator

from mooring.host import syscalls
from mooring.host.ownership_calls import GroupSwap

_ALL = 2**32 - 1  # ids there are; the last one means "none"
_CLONE = syscalls.OPEN_TREE_CLONE | syscalls.OPEN_TREE_CLOEXEC
_PROGRAM = """
import ctypes, os, sys
library = ctypes.CDLL(None, use_errno=True)
os.write(1, b"%d" % (ctypes.get_errno() if library.unshare(0x10000000) else 0))
os.read(0, 1)
"""


def bind_swapped(source: str, target: str, swap: GroupSwap, attributes: int) -> None:
    """Bind a directory with two groups swapped, complete before it becomes visible."""
    tree = syscalls.open_tree(syscalls.AT_FDCWD, source, _CLONE)
    try:
        namespace = _user_namespace(swap)
        try:
            syscalls.mount_setattr(tree, attributes, recursive=False, user_namespace=namespace)
        except OSError as error:
            raise OSError(error.errno, error.strerror, source) from None
        finally:
            os.close(namespace)
        syscalls.move_mount(tree, target)
    finally:
        os.close(tree)


def map_lines(swap: GroupSwap) -> Iterator[str]:
    """The lines of a group map: inside is what is on the disk, outside is what is shown, then how many follow."""
    low, high = sorted((swap.on_disk, swap.shown))
    swapped = {low: high, high: low}
    for first, end in ((0, low), (low, low + 1), (low + 1, high), (high, high + 1), (high + 1, _ALL)):
        if first < end:
            yield f"{first} {swapped.get(first, first)} {end - first}"


def _user_namespace(swap: GroupSwap) -> int:
    """A descriptor of a user namespace in which two groups have changed places."""
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
    ) as process:
        assert process.stdout is not None
        answer = os.read(process.stdout.fileno(), 16)
        if answer != b"0":
            number = int(answer or errno.EIO)
            raise OSError(number, f"cannot make a user namespace: {os.strerror(number)}")
        _write(f"/proc/{process.pid}/uid_map", f"0 0 {_ALL}\n")
        _write(f"/proc/{process.pid}/gid_map", "".join(f"{line}\n" for line in map_lines(swap)))
        return os.open(f"/proc/{process.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    except OSError as error:
        raise OSError(errno.EPERM, "not all users and groups exist in this user namespace") from error
    finally:
        os.close(descriptor)
