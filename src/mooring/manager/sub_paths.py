"""The bind mounts behind `subPath`: made when a container's mounts are asked for, gone before their volume goes.

They lie at `volume-subpaths/<volume>/<container>/<index>` of the pod's directory. All calls here touch volumes that
may hang, so they run with `Risk.HANGING`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
from collections.abc import Sequence
from dataclasses import replace

from mooring.errors import Refused
from mooring.host.interface import FileFacts, FileKind, Host
from mooring.host.mount_points import unmount_layers
from mooring.host.paths import Paths
from mooring.manager.container_mounts import ContainerDevice, ContainerMount, ContainerView, SubPath
from mooring.world.names import PodUid

_CORRUPTED = frozenset(
    (
        errno.ENOTCONN,
        errno.ESTALE,
        errno.EIO,
        errno.EACCES,
        errno.EHOSTDOWN,
        errno.EWOULDBLOCK,
        errno.ENODEV,
    )
)
"""What a mount answers whose server or device has gone."""

_MOST_LAYERS = 16  # mounts stacked on one place before something else must be wrong
_IN_WORDS = {
    errno.EXDEV: "it leads out of the volume",
    errno.ELOOP: "its links lead in circles",
    errno.ENOTDIR: "something that is no directory is in its way",
}


def prepare(host: Host, views: Sequence[ContainerView]) -> list[ContainerView]:
    """Make every sub-path of the views real, and find out the numbers of their devices."""
    return [
        replace(
            view,
            mounts=tuple(_prepared(host, mount) for mount in view.mounts),
            devices=tuple(_found(host, device) for device in view.devices),
        )
        for view in views
    ]


def _prepared(host: Host, mount: ContainerMount) -> ContainerMount:
    if mount.sub_path is not None:
        try:
            show(host, mount.sub_path)
        except OSError as error:
            # Its text names paths of this machine, which do not concern whoever may read of the pod.
            what = f"cannot prepare the sub-path of volume {mount.name!r} for container {mount.container!r}"
            raise Refused(what, why=_worded(error)) from error
    return mount


def _worded(error: OSError) -> str:
    return _IN_WORDS.get(error.errno or 0) or (error.strerror or "no answer came in time").lower()


def _found(host: Host, device: ContainerDevice) -> ContainerDevice:
    what = f"cannot show volume {device.name!r} to container {device.container!r}"
    try:
        facts = host.device(device.host_path)
    except OSError as error:
        raise Refused(what, why=_worded(error)) from error
    if facts is None:
        raise Refused(what, why="its block device is not there")
    return replace(device, major=facts.major, minor=facts.minor)


# -- one sub-path ------------------------------------------------------------------------------------------------
def show(host: Host, sub_path: SubPath) -> None:
    """Let the target show what the path inside the volume leads to now; what is right already stays."""
    source = _source(host, sub_path)
    if _shows(host, sub_path.target, source):
        return
    _make_target(host, sub_path.target, is_directory=source.kind is FileKind.DIRECTORY)
    try:
        host.bind_beneath(sub_path.root, sub_path.relative, sub_path.target)
    except OSError:
        _withdraw(host, sub_path.target)
        raise


def _source(host: Host, sub_path: SubPath) -> FileFacts:
    """What the path leads to; a directory with the mode of the volume itself is made where nothing is."""
    found = host.look_beneath(sub_path.root, sub_path.relative)
    if found is None:
        root = host.look_through(sub_path.root)
        if root is not None:
            host.make_subpath(sub_path.root, sub_path.relative, root.mode)
            found = host.look_beneath(sub_path.root, sub_path.relative)
    if found is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), sub_path.root)
    return found


def _shows(host: Host, target: str, source: FileFacts) -> bool:
    """Whether the target shows this very file. A mount of anything else is taken away."""
    for _ in range(_MOST_LAYERS):
        if not _is_mounted(host, target):
            return False
        try:
            shown = host.look(target)
        except OSError as error:
            if error.errno not in _CORRUPTED:
                raise
            shown = None
        if shown is not None and (shown.device, shown.inode) == (source.device, source.inode):
            return True
        host.unmount(target, lazy=True)
    raise OSError(errno.EBUSY, "too much is mounted there", target)


def _is_mounted(host: Host, path: str) -> bool:
    try:
        return host.mount_at(path) is not None
    except OSError as error:
        if error.errno in _CORRUPTED:
            return True
        raise


def _make_target(host: Host, target: str, *, is_directory: bool) -> None:
    facts = host.look(target)
    if facts is not None and (facts.kind is FileKind.DIRECTORY) is not is_directory:
        _remove_leaf(host, target, facts)
        facts = None
    if facts is not None:
        return
    host.make_directories(posixpath.dirname(target), 0o750)
    if is_directory:
        host.make_directory(target, 0o750)
    else:
        host.create_file(target, 0o640)


def _withdraw(host: Host, target: str) -> None:
    """Remove a target that shows nothing, and the directories that held nothing else."""
    facts = host.look(target)
    if facts is not None:
        _remove_leaf(host, target, facts)
    with contextlib.suppress(OSError):
        for _ in range(3):  # of the container, of the volume, of all sub-paths
            target = posixpath.dirname(target)
            host.remove_directory(target)


def _remove_leaf(host: Host, path: str, facts: FileFacts) -> None:
    if facts.kind is FileKind.DIRECTORY:
        host.remove_directory(path)
    elif facts.size:
        raise OSError(errno.ENOTEMPTY, "a file that was made to be mounted on holds data", path)
    else:
        host.remove_file(path)


# -- all of a volume, all of a pod -------------------------------------------------------------------------------
def clean_volume(host: Host, paths: Paths, pod: PodUid, inner_name: str) -> None:
    """Unmount and remove all sub-paths of one volume of a pod; OSError with all done that could be before it."""
    above = paths.pod_subpaths_dir(pod)
    top = f"{above}/{inner_name}"
    for container in _names(host, top):
        directory = f"{top}/{container}"
        for index in _names(host, directory):
            path = f"{directory}/{index}"
            unmount_layers(host, path)
            facts = host.look(path)
            if facts is not None:
                _remove_leaf(host, path, facts)
        host.remove_directory(directory)
    host.remove_directory(top)
    try:
        host.remove_directory(above)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise


def unmount_leftovers(host: Host, paths: Paths, pod: PodUid) -> None:
    """Unmount the sub-paths of a pod whose volumes are all gone, such as those of hostPath after a restart."""
    top = paths.pod_subpaths_dir(pod)
    for volume in _names(host, top):
        for container in _names(host, f"{top}/{volume}"):
            for index in _names(host, f"{top}/{volume}/{container}"):
                unmount_layers(host, f"{top}/{volume}/{container}/{index}")


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.names_in(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
