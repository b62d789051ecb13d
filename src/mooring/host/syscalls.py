"""The system calls Python does not offer, as thin typed functions that raise OSError with the path.

Calls come from several threads at once, so the structures the kernel fills are kept one per thread.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

AT_FDCWD = -100
AT_SYMLINK_NOFOLLOW = 0x100
AT_NO_AUTOMOUNT = 0x800
AT_EMPTY_PATH = 0x1000
AT_STATX_DONT_SYNC = 0x4000
AT_RECURSIVE = 0x8000

MS_RDONLY = 0x1
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_FORCE = 0x1
MNT_DETACH = 0x2
UMOUNT_NOFOLLOW = 0x8

STATX_MNT_ID = 0x1000
STATX_MNT_ID_UNIQUE = 0x4000
STATX_ATTR_MOUNT_ROOT = 0x2000

RESOLVE_NO_XDEV = 0x01
RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08

OPEN_TREE_CLONE = 0x1
OPEN_TREE_CLOEXEC = os.O_CLOEXEC
MOVE_MOUNT_F_EMPTY_PATH = 0x4
MOUNT_ATTR_RDONLY = 0x1
MOUNT_ATTR_ATIME = 0x70
MOUNT_ATTR_IDMAP = 0x100000
FSOPEN_CLOEXEC = 0x1
FSMOUNT_CLOEXEC = 0x1
FSCONFIG_SET_FLAG = 0
FSCONFIG_SET_STRING = 1
FSCONFIG_CMD_CREATE = 6
LISTMOUNT_ROOT = 0xFFFF_FFFF_FFFF_FFFF

FAN_CLOEXEC = 0x1
FAN_NONBLOCK = 0x2
FAN_REPORT_MNT = 0x4000
FAN_MARK_ADD = 0x1
FAN_MARK_MNTNS = 0x110
FAN_Q_OVERFLOW = 0x4000
FAN_MNT_ATTACH = 0x1000000
FAN_MNT_DETACH = 0x2000000

# The generic numbers (424 and up) are the same on every architecture; only statx is older than that rule.
_STATX = {"x86_64": 332, "aarch64": 291}.get(platform.machine(), -1)
_libc = ctypes.CDLL(None, use_errno=True)
_int, _unsigned, _size = ctypes.c_int, ctypes.c_uint, ctypes.c_size_t
_text, _pointer, _long = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_ulong

_mount = _libc.mount
_mount.argtypes = (_text, _text, _text, _long, _text)
_umount2 = _libc.umount2
_umount2.argtypes = (_text, _int)
_fanotify_mark = _libc.fanotify_mark
_fanotify_mark.argtypes = (_int, _unsigned, ctypes.c_uint64, _int, _text)


def _prototype(number: int, *argument_types: type) -> Callable[..., int]:
    """Return syscall(2) bound to one number, with the conversions of its arguments settled once."""
    function = _libc["syscall"]  # a new object each time, unlike attribute access
    function.restype = ctypes.c_long
    function.argtypes = (ctypes.c_long, *argument_types)
    return partial(function, number)


_statx = _prototype(_STATX, _int, _text, _int, _unsigned, _pointer)
_openat2 = _prototype(437, _int, _text, _text, _size)
_open_tree = _prototype(428, _int, _text, _unsigned)
_move_mount = _prototype(429, _int, _text, _int, _text, _unsigned)
_fsopen = _prototype(430, _text, _unsigned)
_fsconfig = _prototype(431, _int, _unsigned, _text, _text, _int)
_fsmount = _prototype(432, _int, _unsigned, _unsigned)
_mount_setattr = _prototype(442, _int, _text, _unsigned, _text, _size)
_fchmodat2 = _prototype(452, _int, _text, _unsigned, _int)
_statmount = _prototype(457, _text, _pointer, _size, _unsigned)
_listmount = _prototype(458, _text, _pointer, _size, _unsigned)

_statx_fields = struct.Struct("=I4xQ40xQ80xQ").unpack_from  # mask, attributes, attributes_mask, mnt_id
_attributes_field = struct.Struct("=8xQ").unpack_from
_size_field = struct.Struct("=I").unpack_from
_UNENTERED = AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | AT_SYMLINK_NOFOLLOW
_LISTMOUNT_AT_ONCE = 1024
_FS = ("utf-8", "surrogateescape")  # what os.fsencode does, in half the time


class _Buffers(threading.local):
    """What the kernel writes into: one set per thread."""

    def __init__(self) -> None:
        self.statx = ctypes.create_string_buffer(256)
        self.statmount = ctypes.create_string_buffer(8192)
        self.identifiers = (ctypes.c_uint64 * _LISTMOUNT_AT_ONCE)()


_buffers = _Buffers()


class MountIdentity(NamedTuple):
    """What statx says of the mount a path is seen through: its id, and whether the path is its root."""

    id: int
    is_root: bool | None  # None when the kernel does not tell
    is_unique: bool


def _failed(path: str) -> OSError:
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), path)


def mount(source: str, target: str, fs_type: str, flags: int, data: str) -> None:
    if _mount(source.encode(*_FS), target.encode(*_FS), fs_type.encode(), flags, data.encode()) != 0:
        raise _failed(target)


def umount2(target: str, flags: int) -> None:
    if _umount2(target.encode(*_FS), flags) != 0:
        raise _failed(target)


def mount_identity(path: str, *, unique: bool) -> MountIdentity:
    """Ask statx which mount a path is seen through, without following a final link or entering the file system."""
    buffer = _buffers.statx
    mask = STATX_MNT_ID_UNIQUE if unique else STATX_MNT_ID
    if _statx(AT_FDCWD, path.encode(*_FS), _UNENTERED, mask, buffer) != 0:
        raise _failed(path)
    answered, attributes, known, number = _statx_fields(buffer)
    is_root = bool(attributes & STATX_ATTR_MOUNT_ROOT) if known & STATX_ATTR_MOUNT_ROOT else None
    return MountIdentity(number, is_root, bool(answered & STATX_MNT_ID_UNIQUE))


def unique_mount_id_behind(descriptor: int) -> int:
    """Ask statx for the id, never used again, of the mount a descriptor was opened through."""
    buffer = _buffers.statx
    if _statx(descriptor, b"", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID_UNIQUE, buffer) != 0:
        raise _failed("")
    number: int = _statx_fields(buffer)[3]
    return number


def is_mount_root(directory: int, name: str) -> bool:
    """Ask statx whether something is mounted on an entry of a directory; false when the kernel cannot tell."""
    buffer = _buffers.statx
    if _statx(directory, name.encode(*_FS), _UNENTERED, 0, buffer) != 0:
        raise _failed(name)
    return bool(_attributes_field(buffer)[0] & STATX_ATTR_MOUNT_ROOT)


def openat2(dir_fd: int, path: str, flags: int, resolve: int) -> int:
    how = struct.pack("=QQQ", flags | os.O_CLOEXEC, 0, resolve)
    descriptor = _openat2(dir_fd, path.encode(*_FS), how, 24)
    if descriptor < 0:
        raise _failed(path)
    return descriptor


def open_tree(dir_fd: int, path: str, flags: int) -> int:
    descriptor = _open_tree(dir_fd, path.encode(*_FS), flags)
    if descriptor < 0:
        raise _failed(path)
    return descriptor


def move_mount(from_fd: int, to_path: str) -> None:
    """Attach the detached mount behind a descriptor at a path."""
    if _move_mount(from_fd, b"", AT_FDCWD, to_path.encode(*_FS), MOVE_MOUNT_F_EMPTY_PATH) != 0:
        raise _failed(to_path)


def mount_setattr(descriptor: int, attributes: int, *, recursive: bool, user_namespace: int | None = None) -> None:
    """Add attributes to the mount, or the tree of mounts, behind a descriptor; others stay, but for those of atime.

    Of these a mount has one, which the kernel wants cleared before another is set. A detached mount shows owners as
    the maps of a user namespace have them, if the descriptor of one is given.
    """
    cleared = MOUNT_ATTR_ATIME if attributes & MOUNT_ATTR_ATIME else 0
    attributes |= MOUNT_ATTR_IDMAP if user_namespace is not None else 0
    structure = struct.pack("=QQQQ", attributes, cleared, 0, user_namespace or 0)
    flags = AT_EMPTY_PATH | (AT_RECURSIVE if recursive else 0)
    if _mount_setattr(descriptor, b"", flags, structure, len(structure)) != 0:
        raise _failed("")


def clear_mount_attributes(path: str, attributes: int) -> None:
    """Take attributes off the mount at a path; all others stay."""
    structure = struct.pack("=QQQQ", 0, attributes, 0, 0)
    if _mount_setattr(AT_FDCWD, path.encode(*_FS), AT_SYMLINK_NOFOLLOW, structure, len(structure)) != 0:
        raise _failed(path)


def watch_mount_namespace() -> int:
    """Return a descriptor that tells, when it is read, which mounts of this namespace came and went (fanotify(7))."""
    descriptor: int = _libc.fanotify_init(FAN_REPORT_MNT | FAN_CLOEXEC | FAN_NONBLOCK, 0)
    if descriptor < 0:
        raise _failed("")
    try:
        namespace = os.open("/proc/self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            flags, mask = FAN_MARK_ADD | FAN_MARK_MNTNS, FAN_MNT_ATTACH | FAN_MNT_DETACH
            if _fanotify_mark(descriptor, flags, mask, namespace, None) != 0:
                raise _failed("/proc/self/ns/mnt")
        finally:
            os.close(namespace)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def fsopen(fs_type: str) -> int:
    descriptor = _fsopen(fs_type.encode(), FSOPEN_CLOEXEC)
    if descriptor < 0:
        raise _failed(fs_type)
    return descriptor


def fsconfig_flag(descriptor: int, name: str) -> None:
    """Set an option without a value on a file system that is being configured."""
    if _fsconfig(descriptor, FSCONFIG_SET_FLAG, name.encode(), None, 0) != 0:
        raise _failed(name)


def fsconfig_string(descriptor: int, name: str, value: str) -> None:
    """Set an option with a value on a file system that is being configured."""
    if _fsconfig(descriptor, FSCONFIG_SET_STRING, name.encode(), value.encode(*_FS), 0) != 0:
        raise _failed(name)


def fsconfig_create(descriptor: int) -> None:
    """Make the file system ready to be mounted: what is wrong with its device shows here."""
    if _fsconfig(descriptor, FSCONFIG_CMD_CREATE, None, None, 0) != 0:
        raise _failed("")


def fsmount(descriptor: int, attributes: int) -> int:
    """Return a descriptor of a mount, nowhere yet, of a file system that was made ready."""
    mounted = _fsmount(descriptor, FSMOUNT_CLOEXEC, attributes)
    if mounted < 0:
        raise _failed("")
    return mounted


def fchmodat2(dir_fd: int, name: str, mode: int) -> None:
    """chmod that does not follow a link: EOPNOTSUPP when there is one."""
    if _fchmodat2(dir_fd, name.encode(*_FS), mode, AT_SYMLINK_NOFOLLOW) != 0:
        raise _failed(name)


def statmount(mount_id: int, mask: int) -> bytes:
    """Return the kernel's `struct statmount` with its strings. ENOENT means that the mount is gone."""
    request = struct.pack("=IIQQ", 24, 0, mount_id, mask)
    buffer = _buffers.statmount
    while _statmount(request, buffer, len(buffer), 0) != 0:
        if ctypes.get_errno() != errno.EOVERFLOW:
            raise _failed("")
        buffer = ctypes.create_string_buffer(len(buffer) * 4)
    return ctypes.string_at(buffer, _size_field(buffer)[0])


def listmount(below: int = LISTMOUNT_ROOT) -> list[int]:
    """Return the unique ids of all mounts of this namespace, or of those below one of them, ascending."""
    found: list[int] = []
    buffer = _buffers.identifiers
    while True:
        request = struct.pack("=IIQQ", 24, 0, below, found[-1] if found else 0)
        count = _listmount(request, buffer, _LISTMOUNT_AT_ONCE, 0)
        if count < 0:
            raise _failed("")
        found.extend(buffer[:count])
        if count < _LISTMOUNT_AT_ONCE:
            return found
