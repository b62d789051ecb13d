"""Looking at block and character devices without changing anything on them."""

from __future__ import annotations

import errno
import os
import stat
import struct
from fcntl import ioctl

from mooring.host.interface import DeviceFacts, FileKind

_BLKROGET = 0x125E
_BLKGETSIZE64 = 0x80081272
_LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC  # without a medium, opening must not wait for one


def facts(path: str) -> DeviceFacts | None:
    """The facts of the device a path leads to; None when nothing is there or it is no device."""
    try:
        found = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    if stat.S_ISCHR(found.st_mode):
        return DeviceFacts(kind=FileKind.CHARACTER_DEVICE, major=major, minor=minor)
    if not stat.S_ISBLK(found.st_mode):
        return None
    descriptor = os.open(path, _LOOK)
    try:
        (size,) = struct.unpack("=Q", ioctl(descriptor, _BLKGETSIZE64, bytes(8)))
        (read_only,) = struct.unpack("=i", ioctl(descriptor, _BLKROGET, bytes(4)))
    finally:
        os.close(descriptor)
    return DeviceFacts(kind=FileKind.BLOCK_DEVICE, major=major, minor=minor, size=size, read_only=bool(read_only))


def is_open(path: str) -> bool:
    """Whether a block device is mounted or claimed: the kernel gives an exclusive descriptor to one user only."""
    try:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            return False
        os.close(os.open(path, _LOOK | os.O_EXCL))
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        if error.errno == errno.EBUSY:
            return True
        raise
    return False


def require_block_device(path: str) -> os.stat_result:
    """Return what stat says of a block device; OSError ENOTBLK when it is something else."""
    found = os.stat(path)
    if not stat.S_ISBLK(found.st_mode):
        raise OSError(errno.ENOTBLK, os.strerror(errno.ENOTBLK), path)
    return found
