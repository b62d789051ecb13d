"""Asking a file system whether it answers, and finding out who should."""

from __future__ import annotations

import errno
import os
import threading
from contextlib import suppress

from mooring.host.health import Answer
from mooring.host.interface import MountFacts

_GONE = {errno.ENOTCONN, errno.ESTALE, errno.EIO, errno.EHOSTDOWN, errno.ENODEV, errno.ECONNABORTED, errno.ETIMEDOUT}
_NETWORK = ("nfs", "cifs", "smb3", "ceph", "9p", "afs", "fuse")
_STATES = {"T": "stopped", "t": "stopped by a debugger", "D": "stuck in the kernel", "Z": "dead"}


def has_server(fs_type: str) -> bool:
    """Whether something outside the kernel answers for file systems of a type."""
    return fs_type.startswith(_NETWORK) and fs_type != "fusectl"


class Asking:
    """Asks file systems, each in a thread that is left behind when it hangs, and never twice at once."""

    def __init__(self) -> None:
        self._under_way: dict[str, threading.Thread] = {}

    def ask(self, path: str, patience: float) -> Answer:
        """Ask the file system at a path for its attributes and usage."""
        before = self._under_way.get(path)
        if before is not None and before.is_alive():
            return Answer.SILENT
        found: list[Answer] = []
        asking = threading.Thread(target=_look, args=(path, found), name="mooring-asking", daemon=True)
        self._under_way[path] = asking
        asking.start()
        asking.join(patience)
        if not found:
            return Answer.SILENT
        self._under_way.pop(path, None)
        return found[0]


def _look(path: str, found: list[Answer]) -> None:
    try:
        os.stat(path)
        os.statvfs(path)
    except OSError as error:
        found.append(Answer.BROKEN if error.errno in _GONE else Answer.WELL)
    else:
        found.append(Answer.WELL)


def server_of(mount: MountFacts) -> str:
    """Who serves a file system, in words; empty when the kernel itself does."""
    if not has_server(mount.fs_type):
        return ""
    if mount.fs_type.startswith("fuse"):
        return f"{_fuse_daemon(mount.device)} of {mount.source!r}"
    server = mount.source.removeprefix("//").split("/")[0].rstrip(":")
    return f"the {mount.fs_type} server {server!r} of {mount.source!r}"


def _fuse_daemon(device: int) -> str:
    process = fuse_process(os.minor(device))
    if process is None:
        return "the FUSE daemon (not found among the processes)"
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:
            name, _, rest = file.read().partition("(")[2].rpartition(")")
    except OSError:
        return f"the FUSE daemon (process {process}, gone)"
    state = _STATES.get(rest.strip()[:1])
    return f"the FUSE daemon {name!r} (process {process}{f', {state}' if state else ''})"


def fuse_process(connection: int) -> int | None:
    """The process that serves a FUSE connection, as far as the kernel tells (since Linux 6.15)."""
    wanted = f"fuse_connection:\t{connection}\n"
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with suppress(OSError):  # it ended, or is not ours to look at
            for number in os.listdir(f"/proc/{name}/fd"):
                if os.readlink(f"/proc/{name}/fd/{number}") == "/dev/fuse":
                    with open(f"/proc/{name}/fdinfo/{number}", encoding="ascii") as file:
                        if wanted in file.readlines():
                            return int(name)
    return None
