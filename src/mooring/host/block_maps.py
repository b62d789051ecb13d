"""Block maps: how a raw block volume is handed to a pod, and taken back.

A device is bound onto a file of the volume's global map directory, named after the pod, and a symbolic link in the
pod's own directory leads to the device. A loop device on the bound file keeps the device open, so that another one
that takes its place under the same name can never be handed to the pod.

Written against the `Host` protocol; devices may be dead, so it is called with `Risk.HANGING`.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from mooring.errors import Doubtful, Refused
from mooring.host.interface import FileKind, Host

_DEVICES = (FileKind.BLOCK_DEVICE, FileKind.CHARACTER_DEVICE)
_MOST_LAYERS = 16  # mounts stacked on one file before something else must be wrong


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockMap:
    """Where a device is mapped for one pod. `loop` is the loop device that keeps it open."""

    global_file: str
    link: str
    loop: str


def map_device(host: Host, device: str, global_dir: str, pod_dir: str, link_name: str, uid: str) -> BlockMap:
    """Map a device for a pod: bound file, link, loop device. What is there already stays."""
    global_file, link = _paths(global_dir, pod_dir, link_name, uid)
    _require_absolute("device path", device)
    facts = host.device(device)
    if facts is None or facts.kind is not FileKind.BLOCK_DEVICE:
        raise Refused(f"cannot map {device!r}", why="there is no block device at that path")
    _bind(host, device, global_dir, global_file)
    bound = host.device(global_file)
    if bound is None or (bound.major, bound.minor) != (facts.major, facts.minor):
        raise Refused(
            f"cannot map {device!r}",
            why=f"{global_file!r} already shows another device",
            next_step="Unmap the volume from the pod first",
        )
    _link(host, device, pod_dir, link)
    loop = host.loop_of(global_file) or host.attach_loop(global_file, read_only=facts.read_only)
    return BlockMap(global_file=global_file, link=link, loop=loop)


def unmap_device(host: Host, global_dir: str, pod_dir: str, link_name: str, uid: str) -> None:
    """Undo `map_device` in the opposite order of importance: loop device, link, bound file. What is gone is done."""
    global_file, link = _paths(global_dir, pod_dir, link_name, uid)
    _unlock(host, global_file)
    facts = host.look(link)
    if facts is not None and facts.kind is FileKind.LINK:
        _remove(host, link)
    _unbind(host, global_file)


def references(host: Host, global_dir: str) -> list[str]:
    """The files of a global map directory that show a device: one for each pod that the volume is mapped for."""
    try:
        names = host.names_in(global_dir)
    except (FileNotFoundError, NotADirectoryError):
        return []
    paths = [f"{global_dir}/{name}" for name in names]
    return [path for path in paths if (facts := host.look(path)) is not None and facts.kind in _DEVICES]


def _bind(host: Host, device: str, global_dir: str, global_file: str) -> None:
    host.make_directories(global_dir, 0o750)
    facts = host.look(global_file)
    if facts is not None and facts.kind in _DEVICES:
        return
    if facts is None:
        host.create_file(global_file, 0o750)
    host.bind(device, global_file)


def _link(host: Host, device: str, pod_dir: str, link: str) -> None:
    """Lead the link to the device, whatever it led to before: names change when a machine starts again."""
    host.make_directories(pod_dir, 0o750)
    facts = host.look(link)
    if facts is not None:
        if facts.kind is FileKind.LINK and host.read_link(link) == device:
            return
        host.remove_file(link)
    host.make_link(device, link)


def _unlock(host: Host, global_file: str) -> None:
    while (loop := host.loop_of(global_file)) is not None:
        try:
            host.detach_loop(loop)
        except OSError:
            if host.loop_of(global_file) == loop:
                raise


def _unbind(host: Host, global_file: str) -> None:
    for _ in range(_MOST_LAYERS):
        if host.mount_at(global_file) is None:
            _remove(host, global_file)
            return
        try:
            host.unmount(global_file)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOENT):  # somebody else was faster
                raise
    raise Doubtful(f"cannot unmap {global_file!r}", why=f"more than {_MOST_LAYERS} mounts are stacked on it")


def _remove(host: Host, path: str) -> None:
    try:
        host.remove_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return


def _paths(global_dir: str, pod_dir: str, link_name: str, uid: str) -> tuple[str, str]:
    _require_absolute("global map path", global_dir)
    _require_absolute("pod map path", pod_dir)
    for what, name in (("link name", link_name), ("pod UID", uid)):
        if name in ("", ".", "..") or "/" in name:
            raise Refused("cannot map a block volume", why=f"the {what} {name!r} is no file name")
    return f"{global_dir}/{uid}", f"{pod_dir}/{link_name}"


def _require_absolute(what: str, path: str) -> None:
    if not path.startswith("/"):
        why = f"the {what} {path!r} is not absolute" if path else f"the {what} is empty"
        raise Refused("cannot map a block volume", why=why)
