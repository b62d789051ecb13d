"""Giving a volume that outlives its pods to a pod's group, as its change policy says."""

from __future__ import annotations

from mooring.host.interface import FileKind, Host
from mooring.plugins.empty_dir import own, read_write

ON_ROOT_MISMATCH = "OnRootMismatch"
_GROUP_MAY_WRITE = 0o770
_SETGID = 0o2000


def give_to_group(host: Host, path: str, gid: int, policy: str | None) -> None:
    """Give the tree at a path to a group; with policy OnRootMismatch not when its root already has all it needs.

    The root is changed last, so a walk that was broken off is done again under either policy.
    """
    if policy == ON_ROOT_MISMATCH and root_matches(host, path, gid):
        return
    own(host, path, read_write(gid))


def root_matches(host: Host, path: str, gid: int) -> bool:
    """Whether a directory belongs to a group that may write to it and hands itself on to what is made in it."""
    facts = host.look_through(path)
    if facts is None or facts.kind is not FileKind.DIRECTORY or facts.gid != gid:
        return False
    wanted = _GROUP_MAY_WRITE | _SETGID
    return facts.mode & wanted == wanted
