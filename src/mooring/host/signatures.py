"""Finds out what a block device holds, with libblkid, or the `blkid` program where the library is missing.

Mistaking data for emptiness destroys it, so whatever is not certainly nothing is something: several signatures at
once are unknown data, and a device that cannot be read is an error.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache

from mooring.errors import Refused
from mooring.host.devices import require_block_device
from mooring.host.interface import Content, Signature
from mooring.host.programs import ProgramFailed, run_program

_TYPE_AND_USAGE = 1 << 5 | 1 << 7  # BLKID_SUBLKS_TYPE, BLKID_SUBLKS_USAGE
_DEADLINE = 60.0
_READ_FROM_EACH_END = 4096


def signature(device: str) -> Signature:
    """Return what a block device holds; OSError when it cannot be read."""
    require_block_device(device)
    found = _ask_program(device) if _library() is None else _ask_library(device)
    if found.content is Content.NOTHING:
        _require_readable(device)
    return found


def meaning(values: dict[str, str]) -> Signature:
    """Return what the values libblkid found mean. Partitions win: a file system beside them is a remnant."""
    if table := values.get("PTTYPE"):
        return Signature(content=Content.PARTITIONS, type=table)
    name = values.get("TYPE", "")
    if name and values.get("USAGE", "filesystem") == "filesystem":
        return Signature(content=Content.FILE_SYSTEM, type=name)
    return Signature(content=Content.UNKNOWN, type=name)


def _require_readable(device: str) -> None:
    """Read a little from both ends, so that a device whose reads fail, or that has no medium, is not called empty."""
    descriptor = os.open(device, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if size == 0:
            raise OSError(errno.ENOMEDIUM, os.strerror(errno.ENOMEDIUM), device)
        for start in (0, max(0, size - _READ_FROM_EACH_END)):
            if not os.pread(descriptor, _READ_FROM_EACH_END, start):
                raise OSError(errno.EIO, os.strerror(errno.EIO), device)
    finally:
        os.close(descriptor)


@cache
def _library() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL("libblkid.so.1", use_errno=True)
    except OSError:
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.blkid_new_probe_from_filename.argtypes = (ctypes.c_char_p,)
    library.blkid_new_probe_from_filename.restype = pointer
    library.blkid_free_probe.argtypes = (pointer,)
    library.blkid_free_probe.restype = None
    library.blkid_probe_enable_superblocks.argtypes = (pointer, number)
    library.blkid_probe_enable_partitions.argtypes = (pointer, number)
    library.blkid_probe_set_superblocks_flags.argtypes = (pointer, number)
    library.blkid_do_safeprobe.argtypes = (pointer,)
    library.blkid_probe_lookup_value.argtypes = (pointer, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), pointer)
    return library


def _ask_library(device: str) -> Signature:
    library = _library()
    assert library is not None
    probe = library.blkid_new_probe_from_filename(os.fsencode(device))
    if not probe:
        raise _failed(device)
    try:
        library.blkid_probe_enable_superblocks(probe, 1)
        library.blkid_probe_set_superblocks_flags(probe, _TYPE_AND_USAGE)
        library.blkid_probe_enable_partitions(probe, 1)
        ctypes.set_errno(0)
        match library.blkid_do_safeprobe(probe):
            case 0:
                return meaning(_values_of(library, probe))
            case 1:
                return Signature(content=Content.NOTHING)
            case -2:  # several signatures that exclude each other
                return Signature(content=Content.UNKNOWN)
            case _:
                raise _failed(device)
    finally:
        library.blkid_free_probe(probe)


def _values_of(library: ctypes.CDLL, probe: int) -> dict[str, str]:
    values: dict[str, str] = {}
    for name in ("TYPE", "USAGE", "PTTYPE"):
        data = ctypes.c_char_p()
        if library.blkid_probe_lookup_value(probe, name.encode(), ctypes.byref(data), None) == 0 and data.value:
            values[name] = data.value.decode("utf-8", "replace")
    return values


def _failed(device: str) -> OSError:
    number = ctypes.get_errno() or errno.EIO
    return OSError(number, os.strerror(number), device)


def _ask_program(device: str) -> Signature:
    command = ["blkid", "-p", "-s", "TYPE", "-s", "USAGE", "-s", "PTTYPE", "-o", "export", device]
    result = run_program(command, deadline=_DEADLINE)
    match result.status:
        case 0:
            return meaning(parse_export(result.output))
        case 2:  # also when it cannot read the device, which is looked into afterwards
            return Signature(content=Content.NOTHING)
        case 8:  # several signatures that exclude each other
            return Signature(content=Content.UNKNOWN)
        case _:
            raise ProgramFailed("blkid", device, result)


def parse_export(text: str) -> dict[str, str]:
    """Return the values in what `blkid -o export` prints, one NAME=value a line."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if not equals:
            raise Refused("cannot tell what a device holds", why=f"blkid printed {line!r}, which is no value")
        values[name] = value
    return values
