"""Loop devices: block devices whose blocks are a file, or another block device that is kept open that way."""

from __future__ import annotations

import errno
import os
import re
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from fcntl import ioctl

from mooring.host.devices import require_block_device

_SET_FD, _CLR_FD, _SET_STATUS64, _CONFIGURE = 0x4C00, 0x4C01, 0x4C04, 0x4C0A
_CTL_GET_FREE = 0x4C82
_READ_ONLY = 0x1
_INFO = struct.Struct("=40x12xI64s64x32x16x")  # struct loop_info64: flags and the file name, all else 0
_CONFIG_HEAD = struct.Struct("=II")  # struct loop_config: descriptor, block size
_CONFIG_TAIL = bytes(64)
_ATTEMPTS = 64  # a free device may be taken by somebody else before we have it
_PATIENCE = 5.0  # seconds that somebody who only looks at a device may keep it open
_DELETED = " (deleted)"
_CONTROL = "/dev/loop-control"
_SYSFS = "/sys/block"
_loop_name = re.compile(r"loop([0-9]+)")
_attaching = threading.Lock()


def attach(file: str, read_only: bool) -> str:
    """Attach a free loop device to a file or block device, and return its path."""
    access = os.O_RDONLY if read_only else os.O_RDWR
    backing = os.open(file, access | os.O_CLOEXEC)
    try:
        # Who asks for a device that is taken claims it for a moment, and mkfs of its owner finds it in use then.
        # Threads of this process take turns; against others only trying again helps.
        with _attaching:
            for _ in range(_ATTEMPTS):
                path = f"/dev/loop{_free_number()}"
                if _configure(path, backing, file, access):
                    return path
    finally:
        os.close(backing)
    raise OSError(errno.EBUSY, "every free loop device was taken by somebody else", file)


def of(file: str) -> str | None:
    """Return the loop device attached to the file at this path, or None."""
    wanted = {file, os.path.realpath(file)}
    for name, backing in attached():
        if backing in wanted:
            return f"/dev/{name}"
    return None


def detach(device: str) -> None:
    """Detach a loop device; when this returns its file is closed.

    The kernel only notes the wish while others have the device open. Whoever has it for itself alone, as a mount has,
    is found out before; for those who do not, this waits a little.
    """
    name = _name_of(device)
    descriptor = os.open(device, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC)
    try:
        ioctl(descriptor, _CLR_FD)
    except OSError as error:
        raise OSError(error.errno, error.strerror, device) from None
    finally:
        os.close(descriptor)
    end = time.monotonic() + _PATIENCE
    while _backing_file(name) is not None:
        if time.monotonic() > end:
            raise OSError(errno.EBUSY, "it is detached as soon as nobody has it open any more", device)
        time.sleep(0.01)


def cleaned(text: str) -> str:
    """Return the path in what the kernel says of a backing file: without white space and the mark of deletion."""
    return text.strip().removesuffix(_DELETED)


def _free_number() -> int:
    control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        return ioctl(control, _CTL_GET_FREE)
    finally:
        os.close(control)


def _configure(path: str, backing: int, file: str, access: int) -> bool:
    """Attach one device; false when somebody else was faster."""
    loop = os.open(path, access | os.O_CLOEXEC)
    flags = _READ_ONLY if access == os.O_RDONLY else 0
    info = _INFO.pack(flags, os.fsencode(file)[:63])
    try:
        try:
            ioctl(loop, _CONFIGURE, _CONFIG_HEAD.pack(backing, 0) + info + _CONFIG_TAIL)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTTY):  # EINVAL and ENOTTY: before Linux 5.8
                raise
            ioctl(loop, _SET_FD, backing)
            with suppress(OSError):  # the name is for people only
                ioctl(loop, _SET_STATUS64, info)
    except OSError as error:
        if error.errno == errno.EBUSY:
            return False
        raise OSError(error.errno, error.strerror, file) from None
    finally:
        os.close(loop)
    return True


def _name_of(device: str) -> str:
    """The kernel's name of a loop device: a path may lead to it under any name. ENOTTY for other devices."""
    number = require_block_device(device).st_rdev
    name = os.path.basename(os.path.realpath(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}"))
    if _loop_name.fullmatch(name) is None:
        raise OSError(errno.ENOTTY, "it is no loop device", device)
    return name


def attached() -> Iterator[tuple[str, str]]:
    """Each loop device that has a file, with the path of that file, lowest number first."""
    numbers = sorted(int(found[1]) for name in os.listdir(_SYSFS) if (found := _loop_name.fullmatch(name)))
    for number in numbers:
        backing = _backing_file(f"loop{number}")
        if backing is not None:
            yield f"loop{number}", backing


def _backing_file(name: str) -> str | None:
    try:
        with open(f"{_SYSFS}/{name}/loop/backing_file", "rb") as file:
            return cleaned(os.fsdecode(file.read()))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        if error.errno in (errno.ENODEV, errno.ENXIO):  # it was detached between opening and reading
            return None
        raise
