"""Project quotas of ext4 and xfs, through the calls that chattr(1) and quota(8) make.

A directory gets a project number that all files made in it inherit, and the file system counts and limits what the
files of a project take. See ioctl_xfs_fsgetxattr(2) and quotactl(2).
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from mooring.host.storage_calls import ProjectUsage

_QUOTACTL_FD = 443  # Linux 5.14
_PROJECT_TYPE = 2
_GET_QUOTA, _SET_QUOTA = 0x800007, 0x800008
_LIMITS_ARE_SET = 0x1 | 0x4  # QIF_BLIMITS, QIF_ILIMITS
_QUOTA_BLOCK = 1024
_DQBLK = struct.Struct("=QQQQQQQQI4x")  # hard, soft, used bytes; hard, soft, used inodes; two times; what is valid

_GET_ATTRIBUTES, _SET_ATTRIBUTES = 0x801C581F, 0x401C5820
_ATTRIBUTES = struct.Struct("=IIIII8s")  # flags, extent size, extents, project, copy-on-write extent size
_INHERIT = 0x200

_libc = ctypes.CDLL(None, use_errno=True)
_NOT_KEPT = frozenset({errno.ENOSYS, errno.ESRCH, errno.ENOTTY, errno.EINVAL, errno.ENOTSUP, errno.ENOTBLK})
"""What kernels and file systems without project quotas answer."""


def project_of(directory: str) -> int:
    with _opened(directory) as descriptor:
        return _attributes(descriptor, directory)[3]


def project_usage(directory: str, project: int) -> ProjectUsage:
    with _opened(directory) as descriptor:
        quota = bytearray(_DQBLK.size)
        _quotactl(descriptor, _GET_QUOTA, project, quota, directory)
    fields = _DQBLK.unpack(quota)
    return ProjectUsage(used=fields[2], inodes=fields[5])


def assign_project(directory: str, project: int, limit: int) -> None:
    with _opened(directory) as descriptor:
        _set_limit(descriptor, project, limit, directory)  # first: it also finds out whether quotas are kept at all
        _set_project(descriptor, project, _INHERIT, directory)


def release_project(directory: str, project: int) -> None:
    with _opened(directory) as descriptor:
        _set_limit(descriptor, project, 0, directory)
        _set_project(descriptor, 0, 0, directory)


@contextmanager
def _opened(directory: str) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _attributes(descriptor: int, path: str) -> tuple[int, int, int, int, int, bytes]:
    buffer = bytearray(_ATTRIBUTES.size)
    try:
        fcntl.ioctl(descriptor, _GET_ATTRIBUTES, buffer)
    except OSError as error:
        raise _explained(error.errno or errno.EIO, path) from None
    flags, extent_size, extents, project, cow_size, padding = _ATTRIBUTES.unpack(buffer)
    return flags, extent_size, extents, project, cow_size, padding


def _set_project(descriptor: int, project: int, inherit: int, path: str) -> None:
    flags, extent_size, extents, _, cow_size, padding = _attributes(descriptor, path)
    wanted = _ATTRIBUTES.pack(flags & ~_INHERIT | inherit, extent_size, extents, project, cow_size, padding)
    try:
        fcntl.ioctl(descriptor, _SET_ATTRIBUTES, wanted)
    except OSError as error:
        raise _explained(error.errno or errno.EIO, path) from None


def _set_limit(descriptor: int, project: int, limit: int, path: str) -> None:
    blocks = (limit + _QUOTA_BLOCK - 1) // _QUOTA_BLOCK
    quota = bytearray(_DQBLK.pack(blocks, blocks, 0, 0, 0, 0, 0, 0, _LIMITS_ARE_SET))
    _quotactl(descriptor, _SET_QUOTA, project, quota, path)


def _quotactl(descriptor: int, command: int, project: int, quota: bytearray, path: str) -> None:
    buffer = (ctypes.c_char * len(quota)).from_buffer(quota)
    number = ctypes.c_uint(command << 8 | _PROJECT_TYPE)
    if _libc.syscall(_QUOTACTL_FD, descriptor, number, ctypes.c_uint(project), ctypes.byref(buffer)) != 0:
        raise _explained(ctypes.get_errno(), path)


def _explained(number: int, path: str) -> OSError:
    if number in _NOT_KEPT:
        return OSError(errno.EOPNOTSUPP, "the file system keeps no project quotas", path)
    return OSError(number, os.strerror(number), path)
