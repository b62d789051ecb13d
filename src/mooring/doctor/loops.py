"""Loop devices whose file lies or lay below a root directory, and whether one can go without a byte being lost."""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator
from contextlib import suppress
from fcntl import ioctl

from mooring.doctor import users
from mooring.doctor.snapshot import LoopFacts
from mooring.host.mount_table import MountTable

_SYSFS = "/sys/block"
_DELETED = " (deleted)"
_GET_STATUS64 = 0x4C05
_STATUS = struct.Struct("=16xQQQ192x")  # struct loop_info64: number of a block device, offset, size limit
_LOOK = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
_MOST_READ = 256 * 1024 * 1024
_PIECE = 1 << 20


def loops_below(root: str, mounts: MountTable) -> tuple[LoopFacts, ...]:
    """All loop devices with a file below the root directory."""
    inside = f"{root.rstrip('/')}/"
    found: list[LoopFacts] = []
    for name, text in _attached():
        backing = text.removesuffix(_DELETED)
        if backing.startswith(inside):
            found.append(facts_of(f"/dev/{name}", backing, text != backing, mounts))
    return tuple(found)


def facts_of(device: str, backing: str, deleted: bool, mounts: MountTable) -> LoopFacts:
    in_use = user_of(device, mounts)
    keeps = True
    if deleted and not in_use:
        with suppress(OSError):
            keeps = _keeps_bytes(device)
    return LoopFacts(device=device, backing=backing, deleted=deleted, in_use=in_use, keeps_bytes=keeps)


def backing_of(device: str) -> str:
    """The file of a loop device as the kernel tells it, with its mark of deletion; empty when it has none."""
    try:
        with open(f"{_SYSFS}/{os.path.basename(device)}/loop/backing_file", "rb") as file:
            return os.fsdecode(file.read()).rstrip("\n")
    except OSError:
        return ""


def user_of(device: str, mounts: MountTable) -> str:
    """What uses a loop device, in words; empty when nothing is seen to."""
    try:
        number = os.stat(device).st_rdev
        holders = os.listdir(f"{_SYSFS}/{os.path.basename(device)}/holders")
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"
    for mount in mounts.mounts:
        if mount.device == number or mount.source == device:
            return f"it is mounted at {mount.path}"
    if holders:
        return f"{holders[0]} is built on it"
    for process in users.processes():
        with suppress(OSError):
            for descriptor in os.listdir(f"/proc/{process}/fd"):
                if os.readlink(f"/proc/{process}/fd/{descriptor}") == device:
                    return f"process {process} ({users.program(process)}) has it open"
    return ""


def _attached() -> Iterator[tuple[str, str]]:
    names = [name for name in os.listdir(_SYSFS) if name.startswith("loop")] if os.path.isdir(_SYSFS) else []
    for name in sorted(names, key=lambda each: (len(each), each)):
        if text := backing_of(name):
            yield name, text


def _keeps_bytes(device: str) -> bool:
    """Whether detaching would lose bytes: those of a block device stay, and zeros are none.

    The descriptor is not exclusive: this only looks.
    """
    descriptor = os.open(device, _LOOK)
    try:
        if not stat.S_ISBLK(os.fstat(descriptor).st_mode):
            return True
        number, offset, limit = _STATUS.unpack(ioctl(descriptor, _GET_STATUS64, bytes(_STATUS.size)))
        if number:
            return False
        if offset or limit or os.lseek(descriptor, 0, os.SEEK_END) > _MOST_READ:
            return True
        os.lseek(descriptor, 0, os.SEEK_SET)
        while piece := os.read(descriptor, _PIECE):
            if piece.count(0) != len(piece):
                return True
        return False
    finally:
        os.close(descriptor)
