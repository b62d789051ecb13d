"""Where the local plugin keeps what it mounts and maps once per node, and what it expects at a volume's path."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.errors import Refused
from mooring.host.interface import FileKind, Host
from mooring.host.paths import Paths, checked_component, escape_plugin_name
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import LocalVolumeSource, PersistentVolume, PersistentVolumeSpec
from mooring.plugins.interface import Trace
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/local-volume")


def source_of(spec: VolumeSpec) -> LocalVolumeSource:
    """The source of a spec that the local plugin supports."""
    assert spec.persistent_volume is not None
    assert spec.persistent_volume.spec.local is not None
    return spec.persistent_volume.spec.local


def usable_path(spec: VolumeSpec) -> str:
    """The path of a volume, or a refusal of one that does not say for itself where it leads."""
    path = source_of(spec).path
    what = f"cannot set up volume {spec.name!r}"
    if not path.startswith("/"):
        raise Refused(what, why=f"its path {path!r} is not absolute", next_step="Write a path that begins with '/'")
    if ".." in path.split("/"):
        why = f"invalid path `{path}`: must not contain '..'"
        raise Refused(what, why=why, next_step="Write the path without going up")
    return path


def checked_kind(host: Host, spec: VolumeSpec) -> FileKind:
    """What is at a volume's path: a directory or a block device, and for a raw block volume a device alone."""
    path = usable_path(spec)
    facts = host.look_through(path)
    what = f"cannot set up volume {spec.name!r}"
    if facts is None:
        raise Refused(what, why=f"path {path!r} does not exist", next_step="Create a directory or bring the disk there")
    if spec.is_block and facts.kind is not FileKind.BLOCK_DEVICE:
        why = f"{path!r} is no block device, and volumeMode is Block ({facts.kind.value})"
        raise Refused(what, why=why, next_step="Name a block device, or use volumeMode Filesystem")
    if facts.kind not in (FileKind.DIRECTORY, FileKind.BLOCK_DEVICE):
        why = f"only directories and block devices are supported, and {path!r} is neither ({facts.kind.value})"
        raise Refused(what, why=why)
    return facts.kind


class LocalPlaces:
    """The plugin's own directories below the root directory."""

    def __init__(self, host: Host, paths: Paths) -> None:
        self._host = host
        self.mounts_dir = f"{paths.plugin_dir(NAME)}/mounts"
        # Other plugins' maps lie in a directory of two levels here; this one's has the escaped name, as a kubelet's.
        self.maps_dir = paths.plugin_devices_dir(escape_plugin_name(NAME))

    def stage(self, name: str) -> str:
        """Where the file system of a volume's device is mounted."""
        return f"{self.mounts_dir}/{checked_component(name)}"

    def map(self, name: str) -> str:
        """Where a raw block volume has one file for each pod."""
        return f"{self.maps_dir}/{checked_component(name)}"

    def traces(self) -> Iterator[Trace]:
        """What is here, whatever pods' directories say: a crash may have left it without any."""
        for name in self._directories_in(self.mounts_dir):
            yield Trace(spec=self.skeleton(name, block=False))
        for name in self._directories_in(self.maps_dir):
            pods = tuple(PodUid(uid) for uid in self._host.names_in(self.map(name)))
            yield Trace(spec=self.skeleton(name, block=True), pods=pods)

    def skeleton(self, name: str, *, block: bool) -> VolumeSpec:
        """As much of a volume as the node shows: its name and mode, and its device while that is mounted here."""
        mounted = None if block else self._host.mount_at(self.stage(name))
        source = LocalVolumeSource(path=mounted.source if mounted is not None else "")
        mode = "Block" if block else "Filesystem"
        spec = PersistentVolumeSpec(local=source, volume_mode=mode)
        return VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name=name), spec=spec))

    def _directories_in(self, place: str) -> list[str]:
        try:
            names = self._host.names_in(place)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [name for name in names if self._is_directory(f"{place}/{name}")]

    def _is_directory(self, path: str) -> bool:
        """Without looking into what is mounted there: a dead device may not answer."""
        if self._host.mount_at(path) is not None:
            return True
        facts = self._host.look(path)
        return facts is not None and facts.kind is FileKind.DIRECTORY
