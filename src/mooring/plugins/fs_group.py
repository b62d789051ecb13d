"""Giving a volume that outlives its pods to a pod's group: by changing its files, or by showing them otherwise."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence

from mooring.errors import Doubtful, Refused
from mooring.host.interface import FileKind, Host, Risk
from mooring.host.ownership_calls import GroupSwap, OwnershipWalk
from mooring.plugins.empty_dir import check_owned, read_write
from mooring.plugins.interface import Setup
from mooring.world.pod_facts import ON_ROOT_MISMATCH

_GROUP_MAY_WRITE = 0o770
_SETGID = 0o2000
_WALK_INSTEAD = "Take the annotation 'mooring.dev/fsgroup: idmapped' away, and its files are changed instead"


async def give_to_group(host: Host, path: str, request: Setup) -> None:
    """Give the tree at a path, which has no links, to the pod's group as its change policy says.

    With policy OnRootMismatch nothing is done when the root already has all it needs. The root is changed last, so a
    walk that was broken off is done again under either policy.
    """
    group = request.fs_group
    if group is None:
        return
    what = f"look at the root of volume {request.spec.name}"
    if request.fs_group_policy == ON_ROOT_MISMATCH and await host.run(
        lambda: root_matches(host, path, group), risk=Risk.HANGING, what=what, at=path
    ):
        return
    wanted = read_write(group)
    walk = request.walk if request.walk is not None else OwnershipWalk(clock=asyncio.get_running_loop().time)
    try:
        report = await host.own_tree(path, wanted, walk)
    except OSError as error:
        if error.errno != errno.ECANCELED:
            raise
        why = f"the walk was stopped after {walk.visited:,} entries, since the pod does not want the volume any more"
        raise Doubtful(f"cannot give volume {request.spec.name!r} to group {group}", why=why) from error
    check_owned(report, wanted)


def root_matches(host: Host, path: str, gid: int) -> bool:
    """Whether a directory belongs to a group that may write to it and hands itself on to what is made in it."""
    facts = host.look_through(path)
    if facts is None or facts.kind is not FileKind.DIRECTORY or facts.gid != gid:
        return False
    wanted = _GROUP_MAY_WRITE | _SETGID
    return facts.mode & wanted == wanted


def refuse_idmapped(request: Setup) -> None:
    """What a plugin says whose volumes are mounted for a pod by somebody else, without an idmap."""
    if request.idmapped and request.fs_group is not None:
        raise Refused(
            f"cannot show volume {request.spec.name!r} as owned by group {request.fs_group}",
            why="its type has no idmapped mounts",
            next_step=_WALK_INSTEAD,
        )


def bind_for_pod(
    host: Host, source: str, target: str, request: Setup, *, read_only: bool, flags: Sequence[str] = ()
) -> None:
    """Bind a volume for a pod, with the group of its root shown as the pod's where that is asked for."""
    facts = host.look_through(source) if request.idmapped and request.fs_group is not None and not read_only else None
    if facts is None or request.fs_group is None or facts.gid == request.fs_group:
        host.bind(source, target, read_only=read_only, flags=flags)
        return
    try:
        host.bind_swapped(source, target, GroupSwap(on_disk=facts.gid, shown=request.fs_group), flags=flags)
    except OSError as error:
        raise Refused(
            f"cannot show volume {request.spec.name!r} as owned by group {request.fs_group}",
            why=_REASONS.get(error.errno or 0, error.strerror or str(error)),
            next_step=_WALK_INSTEAD,
        ) from error


_REASONS = {
    errno.EOPNOTSUPP: "this kernel has no idmapped mounts",
    errno.EINVAL: "its file system has no idmapped mounts",
    errno.EPERM: "this process may not make idmapped mounts of it, or it is one already",
}
