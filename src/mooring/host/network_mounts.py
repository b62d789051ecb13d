"""Mounts of network file systems, which mount(8) and its helper programs make.

Written against the `Host` protocol, and called with `Risk.HANGING`: a server may never answer.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.errors import Doubtful, Refused
from mooring.host.interface import Host
from mooring.host.programs import ProgramMissing

MOUNT_DEADLINE = 110.0
"""Seconds that mount(8) may take; a call that may hang is waited for a little longer than that."""


def mount_command(source: str, target: str, fs_type: str, options: Sequence[str]) -> list[str]:
    """The call of mount(8), with its parts in the kubelet's order; empty ones are left out."""
    words = ["-o", ",".join(options)] if options else []
    return ["mount", "-t", fs_type, *words, source, target]


def mount_by_program(host: Host, source: str, target: str, fs_type: str, options: Sequence[str]) -> None:
    """Mount with mount(8). `Refused` when it said no and nothing is mounted; `Doubtful` when it was killed."""
    what = f"cannot mount {source!r} at {target!r}"
    try:
        result = host.run_program(mount_command(source, target, fs_type, options), deadline=MOUNT_DEADLINE)
    except ProgramMissing as missing:
        raise Refused(what, why=missing.why, next_step=missing.next_step) from missing
    if result.status == 0 and host.mount_at(target) is not None:
        return
    if result.status == 0:
        raise Doubtful(what, why="mount reported success, and nothing is mounted there")
    said = " ".join(result.output.split()) or "nothing"
    why = f"mount failed: exit status {result.status}, it said {said!r}"
    if host.mount_at(target) is not None:
        raise Doubtful(what, why=why)
    raise Refused(what, why=why, next_step=_advice(fs_type, said))


def _advice(fs_type: str, said: str) -> str:
    if "helper program" in said or "unknown filesystem type" in said:
        return f"Install /sbin/mount.{fs_type} (in Debian the package {_PACKAGES.get(fs_type, 'of this file system')})"
    return "Check that the server exports it to this machine; it is tried again by itself"


_PACKAGES = {"nfs": "nfs-common"}
