"""Directories of pods that are gone. Of volumes nothing is ever removed but empty directories and links to devices."""

from __future__ import annotations

import contextlib
import errno
import posixpath
from collections.abc import Iterator, Sequence

from mooring.errors import Refused
from mooring.host.interface import FileKind, Host
from mooring.host.paths import Paths
from mooring.world.names import PodUid


def remove_pod_directory(host: Host, paths: Paths, pod: PodUid) -> None:
    """Remove a pod's directory, or refuse with the first thing in it that may hold data."""
    directory = paths.pod_dir(pod)
    if host.look(directory) is None:
        return
    there = set(host.names_in(directory))
    places = (paths.pod_volumes_dir(pod), paths.pod_subpaths_dir(pod), paths.pod_devices_dir(pod))
    if there.isdisjoint(map(posixpath.basename, places[1:])):
        _remove_empty_volumes(host, pod, places[0], there)
    volumes, sub_paths, devices = (
        list(_directories_below(host, pod, place)) if posixpath.basename(place) in there else [] for place in places
    )
    for path in _sub_path_files(host, pod, paths.pod_subpaths_dir(pod)) if sub_paths else ():
        host.remove_file(path)
    _remove_device_links(host, devices)
    for path in reversed([*volumes, *sub_paths, *devices]):  # children come after their directory
        _remove_empty(host, pod, path)
    for name in sorted(there):
        _remove_child(host, f"{directory}/{name}")
    host.remove_directory(directory)


def _remove_empty_volumes(host: Host, pod: PodUid, place: str, there: set[str]) -> None:
    """Remove what a teardown leaves: directories of volume types with nothing in them, and nothing mounted on them."""
    name = posixpath.basename(place)
    if name not in there:
        return
    _refuse_mount(host, pod, place)
    with contextlib.suppress(OSError):  # what holds something is looked into with more care
        for volume_type in _names_in_directory(host, place):
            host.remove_directory(f"{place}/{volume_type}")
        host.remove_directory(place)
        there.remove(name)


def _refuse_mount(host: Host, pod: PodUid, path: str) -> None:
    """Ask this first: looking at a mount may wait for its server."""
    if host.mount_id_at(path) is not None:
        raise Refused(
            f"cannot remove the directory of pod {pod!r}",
            why=f"{path} is still a mount point",
            next_step="Find out what is mounted there; nothing is removed until it is gone",
        )


def _sub_path_files(host: Host, pod: PodUid, place: str) -> list[str]:
    """The empty files, exactly at `volume/container/index`, that were made so that a file can be mounted on them."""
    found = []
    for volume in _names_in_directory(host, place):
        for container in _names_in_directory(host, f"{place}/{volume}"):
            for index in _names_in_directory(host, f"{place}/{volume}/{container}"):
                path = f"{place}/{volume}/{container}/{index}"
                _refuse_mount(host, pod, path)
                facts = host.look(path)
                if facts is not None and facts.kind is FileKind.FILE and facts.size == 0:
                    found.append(path)
    return found


def _names_in_directory(host: Host, path: str) -> list[str]:
    """Names in a real directory; none of anything else."""
    facts = host.look(path)
    return host.names_in(path) if facts is not None and facts.kind is FileKind.DIRECTORY else []


def _directories_below(host: Host, pod: PodUid, place: str) -> Iterator[str]:
    """The place and every directory below it, following no link; refused where something is mounted."""
    _refuse_mount(host, pod, place)
    facts = host.look(place)
    if facts is None or facts.kind is not FileKind.DIRECTORY:
        return
    yield place
    for name in host.names_in(place):
        yield from _directories_below(host, pod, f"{place}/{name}")


def _remove_device_links(host: Host, directories: Sequence[str]) -> None:
    """Remove the links to raw devices. Anything else there may be data that went where a device was expected."""
    for directory in directories:
        for name in host.names_in(directory):
            facts = host.look(f"{directory}/{name}")
            if facts is not None and facts.kind is FileKind.LINK:
                host.remove_file(f"{directory}/{name}")


def _remove_empty(host: Host, pod: PodUid, path: str) -> None:
    try:
        host.remove_directory(path)
    except OSError as error:
        if error.errno != errno.ENOTEMPTY:
            raise
        raise Refused(
            f"cannot remove the directory of pod {pod!r}",
            why=f"{path} still holds {_first_name(host, path)!r}",
            next_step="Save what you need from it and remove it; mooring does not delete data it did not make",
        ) from error


def _first_name(host: Host, path: str) -> str:
    names = host.names_in(path)
    return names[0] if names else "something"


def _remove_child(host: Host, path: str) -> None:
    facts = host.look(path)
    if facts is None:
        return
    if facts.kind is FileKind.DIRECTORY:
        host.remove_tree(path)
    else:
        host.remove_file(path)
