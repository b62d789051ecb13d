"""How many mounts a namespace may have, and a mount that failed because there are as many."""

from __future__ import annotations

import errno
from dataclasses import dataclass

_MAXIMUM = "/proc/sys/fs/mount-max"


@dataclass(frozen=True, slots=True, kw_only=True)
class MountRoom:
    """How many mounts this namespace has, and how many it may have; a limit of 0 is not known."""

    used: int
    limit: int


class MountTableFull(OSError):
    """A mount was refused because its namespace may have no more of them. Disks have nothing to do with it."""

    next_step = "Unmount what nobody needs, or allow more with `sysctl fs.mount-max=N`; it is tried again by itself"


def most_mounts() -> int:
    """How many mounts a namespace may have (fs.mount-max); 0 when the kernel does not tell."""
    try:
        with open(_MAXIMUM, "rb") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def worded(error: OSError, path: str) -> OSError:
    """Return what the failure of a call that only adds a mount stands for: ENOSPC is not about space there."""
    if error.errno != errno.ENOSPC:
        return error
    return MountTableFull(
        errno.ENOSPC, f"the mount table of this namespace is full (fs.mount-max={most_mounts()})", path
    )
