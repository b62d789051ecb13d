"""Mounting the file system of a block device, with the kernel's own words when it refuses."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence

from mooring.host import mount_options, syscalls
from mooring.host.devices import require_block_device
from mooring.host.features import KernelFeatures
from mooring.host.mount_limits import MountTableFull, worded
from mooring.host.mount_options import MountOptions

_LONGEST_MESSAGE = 4096
_MOST_MESSAGES = 16  # the kernel keeps eight


def mount_device(device: str, path: str, fs_type: str, options: Sequence[str], features: KernelFeatures) -> None:
    """Mount a block device on a directory. With the newer calls the mount becomes visible complete with its flags."""
    require_block_device(device)
    if not stat.S_ISDIR(os.lstat(path).st_mode):  # the calls differ in what they say, and in following a link
        raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    chosen = mount_options.parse(options)
    if features.detached_mounts:
        _mount_detached(device, path, fs_type, chosen)
    else:
        flags, data = chosen.for_mount()
        syscalls.mount(device, path, fs_type, flags, data)


def _mount_detached(device: str, path: str, fs_type: str, options: MountOptions) -> None:
    try:
        context = syscalls.fsopen(fs_type)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    try:
        mount = _configured(context, device, options)
        try:
            syscalls.move_mount(mount, path)
        except OSError as error:
            raise worded(error, path) from None
        finally:
            os.close(mount)
    except MountTableFull:
        raise
    except OSError as error:
        words = "; ".join([os.strerror(error.errno or errno.EIO), *_messages(context)])
        raise OSError(error.errno, words, path) from None
    finally:
        os.close(context)


def _configured(context: int, device: str, options: MountOptions) -> int:
    syscalls.fsconfig_string(context, "source", device)
    for name, value in options.for_fsconfig():
        if value is None:
            syscalls.fsconfig_flag(context, name)
        else:
            syscalls.fsconfig_string(context, name, value)
    syscalls.fsconfig_create(context)
    return syscalls.fsmount(context, options.for_fsmount())


def _messages(context: int) -> list[str]:
    """What the kernel has to say about a file system that is being configured: errors and warnings, oldest first."""
    found: list[str] = []
    while len(found) < _MOST_MESSAGES:
        try:
            message = os.read(context, _LONGEST_MESSAGE)
        except OSError:  # ENODATA: that was the last one
            break
        found.append(message.decode("utf-8", "replace").strip().removeprefix("e ").removeprefix("w "))
    return found
