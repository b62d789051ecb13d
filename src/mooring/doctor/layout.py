"""Which part of a pod or of the node a path below the root directory belongs to. Pure text."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fnmatch import fnmatchcase

from mooring.host.paths import unescape_plugin_name

CONTENT_PLUGINS = frozenset(f"kubernetes.io/{name}" for name in ("configmap", "secret", "downward-api", "projected"))
SECRET_PLUGINS = frozenset(("kubernetes.io/secret", "kubernetes.io/projected"))


class Area(enum.Enum):
    """What kind of thing lies at a place; the values are words for people."""

    VOLUME = "volume"
    DEVICE = "link to a block device"
    SUB_PATH = "sub-path"
    PLUGIN_DATA = "notes of a plugin"
    CONTAINER = "container directory"
    POD_FILE = "file of the pod"
    STAGE = "staged volume"


@dataclass(frozen=True, slots=True)
class Unit:
    """Something that is a leftover as a whole or not at all: no part of a volume goes while another part stays."""

    path: str
    area: Area
    pod: str = ""  # UID; empty for the node's own part
    plugin: str = ""
    name: str = ""  # of the volume or container


_POD_AREAS = {  # how many names below the pod's directory lead to one thing
    "volumes": (Area.VOLUME, 3),
    "volumeDevices": (Area.DEVICE, 3),
    "volume-subpaths": (Area.SUB_PATH, 4),
    "plugins": (Area.PLUGIN_DATA, 3),
    "containers": (Area.CONTAINER, 2),
}
_STAGES = tuple(
    tuple(pattern.split("/"))
    for pattern in (
        "kubernetes.io/csi/volumeDevices/staging/*",
        "kubernetes.io/csi/volumeDevices/publish/*",
        "kubernetes.io/csi/volumeDevices/*",
        "kubernetes.io/csi/*/*",
        "kubernetes.io/iscsi/volumeDevices/iface-*/*",
        "kubernetes.io/iscsi/iface-*/*",
        "kubernetes.io/flexvolume/*/*/mounts/*",
        "kubernetes.io/*/volumeDevices/*",
        "kubernetes.io/*/mounts/*",
        "kubernetes.io/fc/*",
        "kubernetes.io~*/volumeDevices/*",
    )
)
_STRUCTURE = frozenset(("staging", "publish", "volumeDevices", "mounts"))


def unit_of(relative: str) -> Unit | None:
    """The unit that a path relative to the root directory is or belongs to; None for what lies above units."""
    parts = relative.split("/")
    if parts[0] == "pods" and len(parts) > 2:
        return _pod_unit(parts)
    if parts[0] == "plugins":
        return _stage_unit(parts)
    return None


def pod_of(relative: str) -> str:
    """The UID of the pod whose directory a path is or lies in, or nothing."""
    parts = relative.split("/")
    return parts[1] if parts[0] == "pods" and len(parts) > 1 else ""


def _pod_unit(parts: list[str]) -> Unit | None:
    uid, kind = parts[1], parts[2]
    area, depth = _POD_AREAS.get(kind, (Area.POD_FILE, 1))
    if len(parts) < 2 + depth:
        return None
    path = "/".join(parts[: 2 + depth])
    if area in (Area.VOLUME, Area.DEVICE, Area.PLUGIN_DATA):
        return Unit(path, area, pod=uid, plugin=unescape_plugin_name(parts[3]), name=parts[4])
    return Unit(path, area, pod=uid, name=parts[3] if depth > 1 else kind)


def _stage_unit(parts: list[str]) -> Unit | None:
    for pattern in _STAGES:
        depth = len(pattern)
        names = parts[1 : depth + 1]
        if len(names) < depth or (names[-1] in _STRUCTURE and depth < 5):
            continue
        if all(fnmatchcase(name, each) for name, each in zip(names, pattern, strict=True)):
            plugin = names[0].replace("~", "/") if "~" in names[0] else f"{names[0]}/{names[1]}"
            return Unit("/".join(parts[: depth + 1]), Area.STAGE, plugin=plugin, name=names[-1])
    return None


def is_placeholder(unit: Unit, inner: str) -> bool:
    """Whether a file at `inner` of a unit (empty for the unit itself) was made by the manager and means nothing empty.

    `inner` is the path relative to the unit. Files in volumes are never of this kind, except the data file of CSI.
    """
    match unit.area:
        case Area.SUB_PATH:
            return not inner and unit.path.rpartition("/")[2].isdigit()
        case Area.PLUGIN_DATA:
            return inner == "ready"
        case Area.CONTAINER:
            return bool(inner) and "/" not in inner  # a termination log that nothing was written to
        case Area.POD_FILE:
            return not inner and unit.name == "etc-hosts"
        case Area.VOLUME:
            return unit.plugin == "kubernetes.io/csi" and inner == "vol_data.json"
        case Area.STAGE:
            return inner.rpartition("/")[2] == "vol_data.json" or (bool(inner) and "/volumeDevices/" in unit.path)
        case Area.DEVICE:
            return False
