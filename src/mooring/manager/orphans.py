"""Directories of pods that are gone. Of volumes nothing is ever removed but empty directories and links to devices."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from mooring.errors import Refused
from mooring.host.interface import FileKind, Host
from mooring.host.paths import Paths
from mooring.world.names import PodUid


def remove_pod_directory(host: Host, paths: Paths, pod: PodUid) -> None:
    """Remove a pod's directory, or refuse with the first thing in it that may hold data."""
    directory = paths.pod_dir(pod)
    if host.look(directory) is None:
        return
    found = [
        *_directories_below(host, paths.pod_volumes_dir(pod)),
        *_directories_below(host, paths.pod_subpaths_dir(pod)),
        *_directories_below(host, paths.pod_devices_dir(pod)),
    ]
    files = list(_sub_path_files(host, paths.pod_subpaths_dir(pod)))
    _refuse_mounts(host, pod, [*found, *files])
    for path in files:
        host.remove_file(path)
    _remove_device_links(host, paths, pod)
    for path in reversed(found):  # children come after their directory
        _remove_empty(host, pod, path)
    for name in host.names_in(directory):
        _remove_child(host, f"{directory}/{name}")
    host.remove_directory(directory)


def _refuse_mounts(host: Host, pod: PodUid, directories: list[str]) -> None:
    for path in directories:
        if host.mount_at(path) is not None:
            raise Refused(
                f"cannot remove the directory of pod {pod!r}",
                why=f"{path} is still a mount point",
                next_step="Find out what is mounted there; nothing is removed until it is gone",
            )


def _sub_path_files(host: Host, place: str) -> Iterator[str]:
    """The empty files, exactly at `volume/container/index`, that were made so that a file can be mounted on them."""
    for volume in _names_in_directory(host, place):
        for container in _names_in_directory(host, f"{place}/{volume}"):
            for index in _names_in_directory(host, f"{place}/{volume}/{container}"):
                path = f"{place}/{volume}/{container}/{index}"
                if host.mount_at(path) is not None:
                    yield path
                    continue
                facts = host.look(path)
                if facts is not None and facts.kind is FileKind.FILE and facts.size == 0:
                    yield path


def _names_in_directory(host: Host, path: str) -> list[str]:
    """Names in a real directory that nothing is mounted on; none of anything else."""
    if host.mount_at(path) is not None:
        return []
    facts = host.look(path)
    if facts is None or facts.kind is not FileKind.DIRECTORY:
        return []
    return host.names_in(path)


def _directories_below(host: Host, place: str) -> Iterator[str]:
    """The place and every directory below it, following no link and looking into no mount."""
    if host.mount_at(place) is not None:  # asked first: looking at a mount may wait for its server
        yield place
        return
    facts = host.look(place)
    if facts is None or facts.kind is not FileKind.DIRECTORY:
        return
    yield place
    for name in host.names_in(place):
        yield from _directories_below(host, f"{place}/{name}")


def _remove_device_links(host: Host, paths: Paths, pod: PodUid) -> None:
    """Remove the links to raw devices. Anything else there may be data that went where a device was expected."""
    for directory in _directories_below(host, paths.pod_devices_dir(pod)):
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
