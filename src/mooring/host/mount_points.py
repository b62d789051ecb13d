"""Clearing a mount point: everything mounted there is taken away, then the empty directory, and never what is in it."""

from __future__ import annotations

import errno

from mooring.errors import Doubtful
from mooring.host.interface import Host

_MOST_LAYERS = 16  # mounts stacked on one directory before something else must be wrong


def unmount_layers(host: Host, path: str) -> None:
    """Unmount all that is stacked on a path; what is gone already is done."""
    for _ in range(_MOST_LAYERS):
        if host.mount_at(path) is None:
            return
        try:
            host.unmount(path)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):  # somebody else was faster
                raise
    raise Doubtful(f"cannot unmount {path!r}", why=f"more than {_MOST_LAYERS} mounts are stacked on it")


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
