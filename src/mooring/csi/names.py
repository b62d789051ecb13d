"""What CSI volumes are called, and where they lie: the kubelet's own recipes. Pure text."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from mooring.errors import Refused
from mooring.host.paths import Paths, checked_component
from mooring.kube.objects.storage import CSIPersistentVolumeSource
from mooring.kube.objects.volumes import CSIVolumeSource
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/csi")
SEPARATOR = "^"
DATA_FILE = "vol_data.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which volume of which driver it is."""

    driver: str
    handle: str


def volume_name(identity: Identity) -> str:
    return f"{identity.driver}{SEPARATOR}{identity.handle}"


def split_volume_name(name: str) -> Identity:
    """The driver ends at the first separator: no driver's name holds one, and a handle may."""
    driver, separator, handle = name.partition(SEPARATOR)
    if not driver or not separator or not handle:
        raise ValueError(f"{name!r} is no CSI volume: 'driver{SEPARATOR}handle' is expected")
    return Identity(driver=driver, handle=handle)


def inline_handle(uid: PodUid, name: str) -> str:
    """The handle of a volume that is written in a pod."""
    return f"csi-{_hash(uid, name)}"


def attachment_name(identity: Identity, node: str) -> str:
    """The VolumeAttachment of a volume on a node."""
    return f"csi-{_hash(identity.handle, identity.driver, node)}"


def _hash(*parts: str) -> str:
    return hashlib.sha256("".join(parts).encode()).hexdigest()


def persistent_source(spec: VolumeSpec) -> CSIPersistentVolumeSource:
    """The source of a PersistentVolume that a driver serves."""
    source = spec.persistent_volume.spec.csi if spec.persistent_volume is not None else None
    if source is None:
        raise Refused(f"cannot serve volume {spec.name!r}", why="it is no PersistentVolume of a CSI driver")
    return source


def inline_source(spec: VolumeSpec) -> CSIVolumeSource | None:
    """The source of a volume that is written in a pod."""
    return spec.volume.csi if spec.volume is not None else None


def identity_of(spec: VolumeSpec, uid: PodUid) -> Identity:
    """Which volume a spec means, for a pod."""
    inline = inline_source(spec)
    if inline is not None:
        return Identity(driver=inline.driver, handle=inline_handle(uid, spec.name))
    source = persistent_source(spec)
    return Identity(driver=source.driver, handle=source.volume_handle)


class Places:
    """Where the node and its pods have the volumes. Names that cannot be part of a path are ValueErrors."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths
        self.root = paths.plugin_dir(NAME)
        self._devices = paths.plugin_devices_dir(NAME)

    # -- directories -----------------------------------------------------------------------------------------------
    def stage_unit(self, identity: Identity) -> str:
        """What holds the stage of a volume and its data file."""
        return f"{self.root}/{checked_component(identity.driver)}/{_hash(identity.handle)}"

    def stage(self, identity: Identity) -> str:
        return f"{self.stage_unit(identity)}/globalmount"

    def pod_unit(self, uid: PodUid, name: str) -> str:
        """What holds a pod's volume and its data file."""
        return self._paths.pod_volume_dir(uid, NAME, name)

    def target(self, uid: PodUid, name: str) -> str:
        return f"{self.pod_unit(uid, name)}/mount"

    # -- raw devices -----------------------------------------------------------------------------------------------
    def block_unit(self, name: str) -> str:
        return f"{self._devices}/{checked_component(name)}"

    def block_data(self, name: str) -> str:
        return f"{self.block_unit(name)}/data"

    def block_maps(self, name: str) -> str:
        return f"{self.block_unit(name)}/dev"

    def block_stage(self, name: str) -> str:
        return f"{self._devices}/staging/{checked_component(name)}"

    def block_publish_unit(self, name: str) -> str:
        return f"{self._devices}/publish/{checked_component(name)}"

    def block_publish(self, uid: PodUid, name: str) -> str:
        return f"{self.block_publish_unit(name)}/{checked_component(uid)}"

    def pod_devices(self, uid: PodUid) -> str:
        """Where a pod's links to devices lie."""
        return self._paths.pod_device_dir(uid, NAME)

    def pod_device(self, uid: PodUid, name: str) -> str:
        return self._paths.pod_device(uid, NAME, name)
