"""Where the iSCSI plugin keeps what it mounts and maps once per node, and what can be read back from there.

Each disk has a directory with a record of it, `iscsi.json`, from before its first session until after the last one
was ended. While the disk is mounted there the record is covered, and the directory's name tells enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from mooring.errors import Doubtful, MooringError
from mooring.host.interface import Host, NewFile
from mooring.host.mount_points import clear_mount_point
from mooring.host.mount_table import MountTable
from mooring.host.paths import Paths, checked_component
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import ISCSIVolumeSource, Volume
from mooring.plugins.interface import Trace
from mooring.plugins.iscsi_disk import (
    RECORD,
    IscsiDisk,
    decode_record,
    encode_record,
    parse_directory,
    source_of_disk,
)
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/iscsi")
_NEW_RECORD = f"{RECORD}.new"
_UNKNOWN = ISCSIVolumeSource(target_portal="", iqn="")


@dataclass(frozen=True, slots=True)
class _Kept:
    """A directory of a disk."""

    path: str
    disk: IscsiDisk
    block: bool


class IscsiPlaces:
    """The plugin's own directories below the root directory."""

    def __init__(self, host: Host, paths: Paths) -> None:
        self._host = host
        self._paths = paths
        self._stages = paths.plugin_dir(NAME)
        self._maps = paths.plugin_devices_dir(NAME)

    def place(self, disk: IscsiDisk, *, block: bool) -> str:
        """Where a disk is mounted, or has one file for each pod that has it as a raw device."""
        for part in disk.directory.split("/", 1):
            checked_component(part)
        return f"{self._maps if block else self._stages}/{disk.directory}"

    # -- records -------------------------------------------------------------------------------------------------
    def remember(self, disk: IscsiDisk, *, block: bool) -> None:
        """Write the record of a disk, unless it is there; it is whole or not there at all."""
        place = self.place(disk, block=block)
        if self._host.mount_at(place) is not None or self._host.look(f"{place}/{RECORD}") is not None:
            return
        self._host.make_directories(place, 0o750)
        if self._host.look(f"{place}/{_NEW_RECORD}") is not None:
            self._host.remove_file(f"{place}/{_NEW_RECORD}")
        self._host.write_files(place, [NewFile(path=_NEW_RECORD, data=encode_record(disk), mode=0o600)])
        self._host.rename(f"{place}/{_NEW_RECORD}", f"{place}/{RECORD}")

    def recall(self, place: str, disk: IscsiDisk) -> IscsiDisk:
        """The disk that the record in a directory tells of, or else the one that is known already."""
        try:
            return decode_record(self._host.read_file(f"{place}/{RECORD}"), disk)
        except OSError:
            return disk

    def forget(self, place: str) -> None:
        """Remove the directory of a disk with its record."""
        if self._host.look(place) is None:
            return
        for name in (RECORD, _NEW_RECORD):
            with suppress(FileNotFoundError):
                self._host.remove_file(f"{place}/{name}")
        clear_mount_point(self._host, place)
        above = place.rpartition("/")[0]
        if not self._host.names_in(above):
            with suppress(OSError):  # another disk may be given a place there right now
                self._host.remove_directory(above)

    def users_of_sessions(self, disk: IscsiDisk) -> int:
        """How many disks of this node use, or are about to use, the sessions that a disk uses."""
        prefix = f"{disk.portals[0]}-{disk.iqn}-lun-"
        return sum(1 for kept in self._kept() if kept.path.rpartition("/")[2].startswith(prefix))

    # -- reading back --------------------------------------------------------------------------------------------
    def traces(self) -> Iterator[Trace]:
        """What is here, whatever pods' directories say: a crash may have left it without any."""
        for kept in self._kept():
            names = self._names(kept.path) if kept.block else []
            pods = tuple(PodUid(name) for name in names if name not in (RECORD, _NEW_RECORD))
            yield Trace(spec=skeleton(kept.disk, kept.disk.name, block=kept.block), pods=pods)

    def found_in_pod(self, uid: PodUid, name: str, *, block: bool) -> VolumeSpec:
        """The volume that a pod has by a name; of one whose disk is gone from this node only the name is known."""
        disk = self._mapped_for(uid, name) if block else self._bound_for(uid, name)
        return skeleton(disk, name, block=block)

    def _bound_for(self, uid: PodUid, name: str) -> IscsiDisk | None:
        path = self._paths.pod_volume_dir(uid, NAME, name)
        try:
            bound = set(MountTable(self._host.mounts()).references(path))
        except MooringError as error:
            raise Doubtful(error.what, why=error.why) from error
        kept = [kept for kept in self._kept() if not kept.block]
        return next((each.disk for each in kept if each.path in bound or each.disk.name == name), None)

    def _mapped_for(self, uid: PodUid, name: str) -> IscsiDisk | None:
        kept = [kept for kept in self._kept() if kept.block and uid in self._names(kept.path)]
        named = [each.disk for each in kept if each.disk.name == name]
        link = self._host.device(self._paths.pod_device(uid, NAME, name))
        same = [each.disk for each in kept if link is not None and self._host.device(f"{each.path}/{uid}") == link]
        return next(iter([*named, *same]), None)

    def _kept(self) -> Iterator[_Kept]:
        for root, block in ((self._stages, False), (self._maps, True)):
            for interface in self._names(root):
                for directory in self._names(f"{root}/{interface}") if interface.startswith("iface-") else ():
                    disk = parse_directory(interface, directory)
                    if disk is not None:
                        path = f"{root}/{interface}/{directory}"
                        covered = not block and self._host.mount_at(path) is not None
                        yield _Kept(path, disk if covered else self.recall(path, disk), block)

    def _names(self, path: str) -> list[str]:
        try:
            return self._host.names_in(path)
        except (FileNotFoundError, NotADirectoryError):
            return []


def skeleton(disk: IscsiDisk | None, name: str, *, block: bool) -> VolumeSpec:
    """As much of a volume as the node shows."""
    source = _UNKNOWN if disk is None else source_of_disk(replace(disk, name=name))
    if not block:
        return VolumeSpec(volume=Volume(name=name, iscsi=source))
    spec = PersistentVolumeSpec(iscsi=source, volume_mode="Block")
    return VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name=name), spec=spec))
