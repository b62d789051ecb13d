"""What a volume must show, worked out from a script's own values alone and by other code than mooring's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.testing.simulation.disks import PLAIN, unique_name
from mooring.testing.simulation.wishes import (
    DiskWish,
    DownwardWish,
    EmptyDirWish,
    HostPathWish,
    InlineWish,
    ObjectWish,
    PodWish,
    ProjectedWish,
    VolumeWish,
)

Objects = Mapping[tuple[str, str], Mapping[str, str]]
"""The data of each object by kind and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedFile:
    data: bytes
    mode: int
    gid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a volume shows once it is up to date; `missing` names what it cannot be set up without."""

    files: Mapping[str, ExpectedFile] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def plugin_of(wish: VolumeWish) -> str:
    match wish:
        case EmptyDirWish():
            return "kubernetes.io/empty-dir"
        case HostPathWish():
            return "kubernetes.io/host-path"
        case DownwardWish():
            return "kubernetes.io/downward-api"
        case ProjectedWish():
            return "kubernetes.io/projected"
        case ObjectWish():
            return "kubernetes.io/secret" if wish.kind == "Secret" else "kubernetes.io/configmap"
        case DiskWish():
            return wish.of.driver
        case InlineWish():
            return PLAIN


def inner_name(wish: VolumeWish) -> str:
    """What the volume is called on disk: a PersistentVolume has a name of its own."""
    return wish.disk if isinstance(wish, DiskWish) else wish.name


def volume_name(uid: str, wish: VolumeWish) -> str:
    """The unique name of a volume of a pod."""
    if isinstance(wish, DiskWish):
        return unique_name(wish.of.driver, wish.disk, uid)
    return f"{plugin_of(wish)}/{uid}-{wish.name}"


def volume_path(root: str, uid: str, wish: VolumeWish) -> str:
    """Where containers find the volume."""
    if isinstance(wish, HostPathWish):
        return wish.path
    kind = "volumeDevices" if isinstance(wish, DiskWish) and wish.of.block else "volumes"
    return f"{root}/pods/{uid}/{kind}/{plugin_of(wish).replace('/', '~')}/{inner_name(wish)}"


def is_content(wish: VolumeWish) -> bool:
    """Whether the volume shows objects or the pod itself."""
    return isinstance(wish, ObjectWish | DownwardWish | ProjectedWish)


def is_in_memory(wish: VolumeWish) -> bool:
    """Whether the volume is a file system in memory of its own."""
    match wish:
        case EmptyDirWish():
            return wish.memory
        case HostPathWish() | DiskWish() | InlineWish():
            return False
        case ObjectWish():
            return wish.kind == "Secret"
        case DownwardWish() | ProjectedWish():
            return True


def directory_mode(pod: PodWish, wish: VolumeWish) -> int:
    """The mode of the volume's own directory; a group gets it writable, and its files belong to the group."""
    plain = 0o1777 if is_in_memory(wish) else 0o777
    return plain if pod.fs_group is None else plain | 0o2770


def expected_content(pod: PodWish, wish: VolumeWish, objects: Objects) -> Expected:
    """The files that the volume's sources give. All but content volumes have none of their own."""
    match wish:
        case EmptyDirWish() | HostPathWish() | DiskWish() | InlineWish():
            return Expected()
        case ObjectWish() | DownwardWish():
            texts, missing = _part(pod, wish, objects)
        case ProjectedWish():
            texts, missing = {}, ()
            for part in wish.parts:
                more, lacking = _part(pod, part, objects)
                texts.update(more)
                missing += lacking
    if missing:
        return Expected(missing=missing)
    mode = 0o644 if wish.mode is None else wish.mode
    group = pod.fs_group or 0
    if pod.fs_group is not None:
        mode |= 0o440
    return Expected(
        files={path: ExpectedFile(data=text.encode(), mode=mode, gid=group) for path, text in texts.items()}
    )


def _part(pod: PodWish, wish: ObjectWish | DownwardWish, objects: Objects) -> tuple[dict[str, str], tuple[str, ...]]:
    if isinstance(wish, DownwardWish):
        known = _fields(pod)
        lacking = tuple(name for name in wish.items.values() if name not in known)
        return {path: known.get(name, "") for path, name in wish.items.items()}, lacking
    data = objects.get((wish.kind, wish.object))
    if data is None:
        return {}, () if wish.optional else (wish.object,)
    if not wish.items:
        return dict(data), ()
    absent = tuple(key for key in wish.items if key not in data)
    if absent and not wish.optional:
        return {}, absent[:1]
    return {path: data[key] for key, path in wish.items.items() if key in data}, ()


def _fields(pod: PodWish) -> dict[str, str]:
    """The fields of a pod that a volume can show."""
    return {
        "metadata.name": pod.name,
        "metadata.uid": pod.uid,
        "metadata.labels": f'app="{pod.label}"',
        "metadata.labels['app']": pod.label,
    }
