"""Who uses what lies below a root directory: processes, and mounts of it in any mount namespace."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress

from msgspec.structs import replace

from mooring.doctor.snapshot import Bound, Use
from mooring.errors import MooringError
from mooring.host.interface import MountFacts
from mooring.host.mount_table import MountTable, parse_mountinfo

_PLACES = ("cwd", "root")
_KUBELETS_SOCKETS = ("pod-resources/kubelet.sock", "device-plugins/kubelet.sock", "pods-api/kubelet.sock")
_LISTENING = "00010000"  # the flag of a socket that accepts connections, in /proc/net/unix
DEFAULT_KUBELET_ROOT = "/var/lib/kubelet"


def processes() -> Iterator[int]:
    """All processes that can be seen, but for this one."""
    own = os.getpid()
    yield from sorted(int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != own)


def program(process: int) -> str:
    try:
        with open(f"/proc/{process}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def uses(root: str) -> tuple[Use, ...]:
    """Processes that work in the root directory, are rooted there, or have something there open.

    Those of other users are seen by root alone; links that are read here never enter a file system.
    """
    found = [
        Use(process=process, program=program(process), path=path)
        for process in processes()
        for path in sorted(set(_paths(process)))
        if path == root or path.startswith(f"{root.rstrip('/')}/")
    ]
    return tuple(found)


def _paths(process: int) -> Iterator[str]:
    links = [f"/proc/{process}/{name}" for name in _PLACES]
    with suppress(OSError):
        links += [f"/proc/{process}/fd/{number}" for number in os.listdir(f"/proc/{process}/fd")]
    for link in links:
        with suppress(OSError):
            yield os.readlink(link).removesuffix(" (deleted)")


def bounds(devices: Iterable[int], own: MountTable) -> tuple[Bound, ...]:
    """Mounts of directories of these file systems, in every namespace, that are not just the file system itself.

    In other namespaces also mounts *on* such directories: whoever removes one takes away what others have mounted
    there. What other namespaces merely have copied from this one is told once.
    """
    wanted = frozenset(devices)
    here = {_key(mount) for mount in own.mounts}
    found = [_bound(os.getpid(), mount, mount) for mount in own.mounts if _is_bound(mount, wanted)]
    for process in _one_of_each_namespace():
        mounts = {mount.id: mount for mount in _mounts_of(process)}
        for mount in mounts.values():
            if _key(mount) in here:
                continue
            if _is_bound(mount, wanted):
                found.append(_bound(process, mount, mount))
            below = mounts.get(mount.parent_id)
            if below is not None and below.device in wanted:
                inside = below.root.rstrip("/") + mount.path[len(below.path.rstrip("/")) :]
                found.append(_bound(process, mount, replace(below, root=inside or "/")))
    return tuple(found)


def _is_bound(mount: MountFacts, devices: frozenset[int]) -> bool:
    return mount.device in devices and mount.root != "/"


def _key(mount: MountFacts) -> tuple[str, int, str]:
    return mount.path, mount.device, mount.root


def _bound(process: int, mount: MountFacts, shown: MountFacts) -> Bound:
    own = process == os.getpid()
    name = "" if own else program(process)
    return Bound(process=process, program=name, path=mount.path, device=shown.device, root=shown.root, own=own)


def _one_of_each_namespace() -> Iterator[int]:
    seen = {_namespace("self")}
    for process in processes():
        namespace = _namespace(str(process))
        if namespace and namespace not in seen:
            seen.add(namespace)
            yield process


def _namespace(process: str) -> str:
    with suppress(OSError):
        return os.readlink(f"/proc/{process}/ns/mnt")
    return ""


def _mounts_of(process: int) -> list[MountFacts]:
    try:
        with open(f"/proc/{process}/mountinfo", "rb") as file:
            return parse_mountinfo(file.read().decode("utf-8", "surrogateescape"))
    except (OSError, MooringError):  # it ended, or is not ours to look at
        return []


def kubelet_at(root: str) -> str:
    """Who runs as the kubelet of a root directory, in words; empty when nobody is seen to."""
    with suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as file:
        wanted = {f"{root.rstrip('/')}/{name}" for name in _KUBELETS_SOCKETS}
        for line in file:
            fields = line.rstrip("\n").split(" ", 7)
            if len(fields) == 8 and fields[3] == _LISTENING and fields[7].split(" ", 1)[-1] in wanted:
                return f"a kubelet, which listens on {fields[7].split(' ', 1)[-1]}"
    for process in processes():
        if program(process) == "kubelet" and _root_of_kubelet(process) == root:
            return f"the kubelet (process {process})"
    return ""


def _root_of_kubelet(process: int) -> str:
    try:
        with open(f"/proc/{process}/cmdline", "rb") as file:
            arguments = os.fsdecode(file.read()).split("\0")
    except OSError:
        return DEFAULT_KUBELET_ROOT
    for number, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if name.lstrip("-") == "root-dir":
            return os.path.realpath(value if equals else arguments[number + 1])
    return os.path.realpath(DEFAULT_KUBELET_ROOT)
