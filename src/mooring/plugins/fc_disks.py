"""Which disk a Fibre Channel volume is, where this node shows it, and how the node's directories spell it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from mooring.errors import Doubtful, MooringError, Refused
from mooring.host.interface import Host, Risk
from mooring.host.mount_table import MountTable
from mooring.host.paths import Paths, checked_component
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import FCVolumeSource, Volume
from mooring.plugins.interface import Trace
from mooring.plugins.scsi_devices import ScsiDevices
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/fc")
_MAPS = "volumeDevices"
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class FCDisk:
    """A LUN of target ports, or a disk by its own identifiers: one of the two is empty."""

    wwns: tuple[str, ...] = ()
    lun: int = 0
    wwids: tuple[str, ...] = ()

    @property
    def directory(self) -> str:
        """Where the node keeps it, below a directory of its plugin."""
        return "-".join((*self.wwns, "lun", str(self.lun))) if self.wwns else "-".join(self.wwids)


def source_of(spec: VolumeSpec) -> FCVolumeSource | None:
    holder = spec.persistent_volume.spec if spec.persistent_volume is not None else spec.volume
    return holder.fc if holder is not None else None


def backing_name(source: FCVolumeSource) -> str:
    """What a disk is called in unique volume names, by the node and by whoever attaches: as it is written.

    Nothing for a source that names no disk.
    """
    if source.target_wwns and source.lun is not None:
        return f"[{' '.join(source.target_wwns)}]:{source.lun}"
    return f"[{' '.join(source.wwids)}]" if source.wwids else ""


def is_known(spec: VolumeSpec) -> bool:
    """Whether a spec says which disk it is: one that was found in a pod without its disk does not."""
    source = source_of(spec)
    return source is not None and bool(source.wwids or source.target_wwns)


def disk_of(spec: VolumeSpec) -> FCDisk:
    """The disk of a spec; `Refused` when it names none."""
    source = source_of(spec)
    assert source is not None
    what = f"cannot use volume {spec.name!r}"
    ids = source.target_wwns if source.lun is not None and source.target_wwns else source.wwids
    for text in ids:
        if not text or text.startswith(("-", ".")) or "/" in text or "\0" in text:
            raise Refused(what, why=f"its Fibre Channel identifier {text!r} is none")
    if source.target_wwns and source.lun is not None:
        return FCDisk(wwns=tuple(wwn.removeprefix("0x").lower() for wwn in source.target_wwns), lun=source.lun)
    if source.wwids:
        return FCDisk(wwids=tuple(wwid.replace(" ", "_") for wwid in source.wwids))
    why = "it names neither target WWNs with a LUN nor WWIDs"
    raise Refused(what, why=why, next_step="Write targetWWNs and lun, or wwids")


def parse_directory(name: str) -> FCDisk | None:
    """The disk that a directory of the node stands for, or None when its name says nothing."""
    parts = name.split("-")
    if len(parts) == 1:
        return FCDisk(wwids=(name,)) if name else None
    if parts[-2] != "lun":
        return FCDisk(wwids=tuple(parts))
    wwns = tuple(part for part in parts[:-2] if part)
    return FCDisk(wwns=wwns, lun=int(parts[-1])) if wwns and parts[-1].isdecimal() else None


class FCDisks:
    """The Fibre Channel disks that this node shows."""

    def __init__(self, host: Host, devices: ScsiDevices) -> None:
        self._host = host
        self._devices = devices

    async def find(self, disk: FCDisk) -> str:
        """The device of a disk, by the multipath device over it if there is one; looked for anew when it is missing."""
        return await self._run(lambda: self._find_or_scan(disk))

    async def release(self, disk: FCDisk) -> None:
        """Let the kernel forget the devices of a disk that nobody uses."""
        await self._run(lambda: self._release(disk))

    async def _run(self, call: Callable[[], T]) -> T:
        return await self._host.run(call, risk=Risk.HANGING, what="look at the disks of this node")

    def _find_or_scan(self, disk: FCDisk) -> str:
        parent, paths = self._look(disk)
        if parent is None:
            self._devices.scan_everything()
            parent, paths = self._look(disk)
        if parent is not None or paths:
            return parent or paths[0]
        raise Refused(
            "no Fibre Channel disk found",
            why=f"nothing in /dev/disk is {' or '.join(disk.wwns or disk.wwids)}",
            next_step="Check the zone and that the LUN is given to this node",
        )

    def _look(self, disk: FCDisk) -> tuple[str | None, list[str]]:
        """The multipath device of a disk, and all of its paths; the first that was found comes first."""
        paths: list[str] = []
        for link in self._links(disk):
            device = self._devices.device_behind(link)
            if device is not None and device not in paths:
                paths.append(device)
        parents = (self._devices.multipath_parent(path) for path in paths)
        return next((parent for parent in parents if parent is not None), None), paths

    def _links(self, disk: FCDisk) -> Iterator[str]:
        for wwn in disk.wwns:
            wanted = re.compile(rf"(?:pci-.*-fc|fc)-0x{re.escape(wwn)}-lun-{disk.lun}", re.IGNORECASE)
            for name in self._devices.names("by-path"):
                if wanted.fullmatch(name):
                    yield self._devices.link("by-path", name)
        for wwid in disk.wwids:
            name = f"scsi-{wwid}"
            if name in self._devices.names("by-id"):
                yield self._devices.link("by-id", name)

    def _release(self, disk: FCDisk) -> None:
        parent, paths = self._look(disk)
        top = parent or (paths[0] if paths else None)
        if top is None:
            return
        if self._host.is_device_open(top):
            raise Doubtful(
                f"cannot let go of device {top!r}",
                why="it is in use when it was no longer expected to be in use",
                next_step="Find out who has it mounted or open, perhaps in another mount namespace",
            )
        if parent is not None:
            paths = self._devices.slaves(parent) or paths
            self._devices.flush_map(parent)
        for device in paths:
            self._devices.flush_buffers(device)
            self._devices.delete(device)


class FCPlaces:
    """The plugin's own directories below the root directory."""

    def __init__(self, host: Host, paths: Paths) -> None:
        self._host = host
        self._paths = paths
        self._stages = paths.plugin_dir(NAME)
        self._maps = paths.plugin_devices_dir(NAME)

    def place(self, disk: FCDisk, *, block: bool) -> str:
        return f"{self._maps if block else self._stages}/{checked_component(disk.directory)}"

    def traces(self) -> Iterator[Trace]:
        """What is here, whatever pods' directories say: a crash may have left it without any."""
        for name, disk, block in self._kept():
            pods = tuple(PodUid(uid) for uid in self._names(f"{self._maps}/{name}")) if block else ()
            yield Trace(spec=skeleton(disk, name, block=block), pods=pods)

    def found_in_pod(self, uid: PodUid, name: str, *, block: bool) -> VolumeSpec:
        """The volume that a pod has by a name; of one whose disk is gone from this node only the name is known."""
        disk = self._mapped_for(uid, name) if block else self._bound_for(uid, name)
        return skeleton(disk, name, block=block)

    def _bound_for(self, uid: PodUid, name: str) -> FCDisk | None:
        try:
            bound = set(MountTable(self._host.mounts()).references(self._paths.pod_volume_dir(uid, NAME, name)))
        except MooringError as error:
            raise Doubtful(error.what, why=error.why) from error
        stages = ((place, disk) for place, disk, block in self._kept() if not block)
        return next((disk for place, disk in stages if f"{self._stages}/{place}" in bound), None)

    def _mapped_for(self, uid: PodUid, name: str) -> FCDisk | None:
        maps = [(f"{self._maps}/{place}/{uid}", disk) for place, disk, block in self._kept() if block]
        mapped = [(file, disk) for file, disk in maps if self._host.look(file) is not None]
        link = self._host.device(self._paths.pod_device(uid, NAME, name))
        same = [disk for file, disk in mapped if link is not None and self._host.device(file) == link]
        return same[0] if same else (mapped[0][1] if len(mapped) == 1 else None)

    def _kept(self) -> Iterator[tuple[str, FCDisk, bool]]:
        for root, block in ((self._stages, False), (self._maps, True)):
            for name in self._names(root):
                disk = parse_directory(name) if block or name != _MAPS else None
                if disk is not None:
                    yield name, disk, block

    def _names(self, path: str) -> list[str]:
        try:
            return self._host.names_in(path)
        except (FileNotFoundError, NotADirectoryError):
            return []


def skeleton(disk: FCDisk | None, name: str, *, block: bool) -> VolumeSpec:
    """As much of a volume as the node shows."""
    known = disk or FCDisk()
    source = FCVolumeSource(target_wwns=known.wwns, lun=known.lun if known.wwns else None, wwids=known.wwids)
    if not block:
        return VolumeSpec(volume=Volume(name=name, fc=source))
    spec = PersistentVolumeSpec(fc=source, volume_mode="Block")
    return VolumeSpec(persistent_volume=PersistentVolume(metadata=ObjectMeta(name=name), spec=spec))
