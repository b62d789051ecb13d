"""User and mount namespaces: where an ordinary user may mount."""

from __future__ import annotations

import ctypes
import os

from mooring.errors import Refused

_libc = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS = 0x00020000
NEW_USER = 0x10000000
_PRIVATE_RECURSIVE = (1 << 18) | (1 << 14)


def enter_private_mounts() -> None:
    """Give this process mounts of its own: nothing mounted from here on is seen outside."""
    _unshare(NEW_MOUNTS, "a mount namespace")
    _make_private()


def enter_user_namespace() -> None:
    """Become root of a user and mount namespace of one's own. Only for a process with a single thread."""
    uid, gid = os.getuid(), os.getgid()
    _unshare(NEW_USER | NEW_MOUNTS, "a user namespace")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"0 {uid} 1")
    _write("/proc/self/gid_map", f"0 {gid} 1")
    _make_private()


def _unshare(flags: int, what: str) -> None:
    if _libc.unshare(flags) != 0:
        code = ctypes.get_errno()
        raise Refused(
            f"cannot make {what}",
            why=os.strerror(code).lower(),
            next_step=(
                "Allow it with `sysctl kernel.unprivileged_userns_clone=1` or "
                "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or run as root"
            ),
        )


def _make_private() -> None:
    if _libc.mount(b"none", b"/", None, ctypes.c_ulong(_PRIVATE_RECURSIVE), None) != 0:
        code = ctypes.get_errno()
        raise Refused("cannot make the mounts private", why=os.strerror(code).lower())


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as stream:
        stream.write(text)
