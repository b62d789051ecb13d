"""Clearing a mount point: everything mounted there is taken away, then the empty directory, and never what is in it."""

from __future__ import annotations

import errno

from mooring.errors import Doubtful
from mooring.host.answers import has_server
from mooring.host.health import Answer, Debt
from mooring.host.interface import Host, MountFacts

_MOST_LAYERS = 16  # mounts stacked on one directory before something else must be wrong


def unmount_layers(host: Host, path: str) -> None:
    """Unmount all that is stacked on a path; what is gone already is done."""
    for _ in range(_MOST_LAYERS):
        mounted = host.mount_at(path)
        if mounted is None:
            return
        try:
            if has_server(mounted.fs_type):
                _unmount_served(host, mounted)
            else:
                host.unmount(path)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):  # somebody else was faster
                raise
    raise Doubtful(f"cannot unmount {path!r}", why=f"more than {_MOST_LAYERS} mounts are stacked on it")


def _unmount_served(host: Host, mounted: MountFacts) -> None:
    """Unmount a file system that has a server, if that does not answer from under those who wait for it.

    Force ends all requests to the server, for every mount of the file system: only the last one may use it. It is
    also the last one only whose unmounting the server could hold up.
    """
    is_last = sum(other.device == mounted.device for other in host.mounts()) <= 1
    force = is_last and host.answers(mounted.path) is not Answer.WELL
    try:
        host.unmount(mounted.path, force=force)
    except OSError as error:
        answer = host.answers(mounted.path) if error.errno == errno.EBUSY else Answer.WELL
        if answer is Answer.WELL:
            raise
        debt = Debt(
            path=mounted.path,
            source=mounted.source,
            fs_type=mounted.fs_type,
            device=mounted.device,
            why=answer.value,
        )
        host.owe(debt)
        host.unmount(mounted.path, lazy=True)


def clear_mount_point(host: Host, path: str) -> None:
    """Unmount all that is stacked on a directory and remove it, unless it then holds anything of its own."""
    unmount_layers(host, path)
    try:
        host.remove_directory(path)
    except (FileNotFoundError, NotADirectoryError):
        if host.look(path) is not None:
            raise
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        raise Doubtful(
            f"cannot remove {path!r}",
            why="nothing is mounted there any more, and yet it is not empty",
            next_step="Save what you need from it and remove it; mooring does not delete data it did not make",
        ) from error
