"""The programs that make, check and grow file systems: how each is called, and what its exit status means."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence

from mooring.host import devices, signatures
from mooring.host.interface import Check, CheckReport, Content
from mooring.host.programs import ProgramFailed, ProgramMissing, ProgramResult, run_program

_DEADLINE = 3600.0  # seconds; a large disk is formatted or checked in minutes
_MAKE_ARGUMENTS = {
    "ext3": ("-F", "-m0"),  # also on a whole disk, and nothing reserved for root
    "ext4": ("-F", "-m0"),
    "xfs": ("-f",),
}
_CAP_SYS_RESOURCE = 24
_type_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # it becomes part of a program's name


def make_command(device: str, fs_type: str, options: Sequence[str]) -> list[str]:
    """The call that formats a device; given options come before the usual ones."""
    if _type_name.fullmatch(fs_type) is None:
        raise OSError(errno.EINVAL, f"{fs_type!r} is no type of file system", device)
    return [f"mkfs.{fs_type}", *options, *_MAKE_ARGUMENTS.get(fs_type, ()), device]


def check_command(device: str) -> list[str]:
    """The call that checks a file system and corrects what needs no decision."""
    return ["fsck", "-a", device]


def grow_command(device: str, path: str, fs_type: str) -> list[str]:
    """The call that lets a mounted file system fill its device. OSError EOPNOTSUPP for a type that does not grow."""
    match fs_type:
        case "ext2" | "ext3" | "ext4":
            return ["resize2fs", device]
        case "xfs":
            return ["xfs_growfs", "-d", path]
        case "btrfs":
            return ["btrfs", "filesystem", "resize", "max", path]
        case _:
            raise OSError(errno.EOPNOTSUPP, f"a file system of type {fs_type!r} cannot be grown", device)


def check_report(result: ProgramResult) -> CheckReport:
    """What fsck's exit status means; only 4 alone says that errors are left."""
    match result.status:
        case 0:
            check = Check.CLEAN
        case 1:
            check = Check.CORRECTED
        case 4:
            check = Check.UNCORRECTED
        case _:
            check = Check.INCOMPLETE
    return CheckReport(check=check, output=result.output)


def make_file_system(device: str, fs_type: str, options: Sequence[str]) -> None:
    devices.require_block_device(device)
    found = signatures.signature(device)
    if found.content is not Content.NOTHING:
        raise OSError(errno.EEXIST, f"it holds {found.content.value} ({found.type or 'of several kinds'})", device)
    if devices.is_open(device):
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), device)
    command = make_command(device, fs_type, options)
    result = run_program(command, deadline=_DEADLINE)
    if result.status != 0:
        raise ProgramFailed(command[0], device, result)


def check_file_system(device: str) -> CheckReport:
    devices.require_block_device(device)
    try:
        return check_report(run_program(check_command(device), deadline=_DEADLINE))
    except ProgramMissing as missing:
        return CheckReport(check=Check.NO_PROGRAM, output=str(missing))


def grow_file_system(device: str, path: str, fs_type: str) -> None:
    devices.require_block_device(device)
    command = grow_command(device, path, fs_type)
    result = run_program(command, deadline=_DEADLINE)
    if result.status == 0:
        return
    if fs_type.startswith("ext") and not _may_use_reserves():
        why = "growing an ext file system needs the capability CAP_SYS_RESOURCE, which this process does not have"
        raise PermissionError(errno.EPERM, why, device)
    raise ProgramFailed(command[0], device, result)


def _may_use_reserves() -> bool:
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"CapEff:"):
                return bool(int(line[7:], 16) >> _CAP_SYS_RESOURCE & 1)
    return True
