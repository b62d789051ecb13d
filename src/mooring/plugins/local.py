"""local: a directory or a disk of this very node as a PersistentVolume that outlives its pods.

A directory is bound into each pod. A block device gets a file system, if it holds nothing at all, which is mounted
once for the node and bound into each pod from there; as a raw block volume it is mapped instead.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable

from mooring.errors import Doubtful, Refused
from mooring.host.file_systems import MountProblem, format_and_mount
from mooring.host.interface import FileKind, Host, MountFacts, Risk
from mooring.host.mount_points import clear_mount_point
from mooring.host.resolution import resolved
from mooring.kube.objects.pod import Pod
from mooring.plugins.interface import NO_WISHES, Attributes, ObjectRef, Offer, PluginContext, StageWishes, Trace
from mooring.plugins.local_block import LocalMapper, remove_map_directory
from mooring.plugins.local_mounter import LocalMounter, references
from mooring.plugins.local_places import NAME, LocalPlaces, checked_kind, source_of, usable_path
from mooring.world.spec import VolumeSpec

log = logging.getLogger(__name__)

_DEVICE_PER_SUBVOLUME = "btrfs"  # its mounts show a number that is not the device's


class LocalPlugin:
    """The local volume type, written in a PersistentVolume."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        self._places = LocalPlaces(context.host, context.paths)
        self._stager = LocalStager(context.host, self._places)
        self._mounter = LocalMounter(context)
        self._mapper = LocalMapper(context.host, context.paths, self._places)

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.persistent_volume is not None and spec.persistent_volume.spec.local is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        return spec.name

    def offer(self, spec: VolumeSpec) -> Offer:
        attributes = Attributes(read_only=spec.read_only, managed=not spec.read_only, relabel=True)
        worker = self._mapper if spec.is_block else self._mounter
        return Offer(
            mounter=worker,
            stager=self._stager,
            checker=worker,
            attributes=attributes,
            takes_mount_options=True,
            maps_devices=spec.is_block,
        )

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        return ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        return self._places.skeleton(volume_name, block=block)

    def traces(self) -> Iterable[Trace]:
        return self._places.traces()


class LocalStager:
    """Mounts a device once for the node. A directory is its own stage, and a raw device needs no mount."""

    def __init__(self, host: Host, places: LocalPlaces) -> None:
        self._host = host
        self._places = places

    async def stage(self, spec: VolumeSpec, device_path: str, wishes: StageWishes = NO_WISHES) -> str:
        what = f"stage volume {spec.name} from {source_of(spec).path}"
        return await self._host.run(lambda: self._stage(spec), risk=Risk.HANGING, what=what, at=source_of(spec).path)

    def _stage(self, spec: VolumeSpec) -> str:
        path = self._places.stage(spec.name)
        mounted = self._host.mount_at(path)
        try:
            kind = checked_kind(self._host, spec)
        except Refused as error:
            if mounted is None:
                raise
            raise Doubtful(error.what, why=error.why, next_step=error.next_step) from error  # of an earlier try
        if spec.is_block:
            return self._places.map(spec.name)
        if kind is FileKind.DIRECTORY:
            return usable_path(spec)
        device = resolved(self._host, usable_path(spec))
        if mounted is None:
            self._mount(spec, device, path)
        elif not self._shows(mounted, device):
            raise Doubtful(
                f"cannot mount device {device!r} for volume {spec.name!r}",
                why=f"{mounted.source!r} is mounted at {path!r}, from an earlier volume of this name",
                next_step="Remove the pods that use it first",
            )
        return path

    def _mount(self, spec: VolumeSpec, device: str, path: str) -> None:
        self._host.make_directories(path, 0o750)
        options = sorted({*spec.mount_options, *(("ro",) if spec.read_only else ())})
        try:
            format_and_mount(self._host, device, path, source_of(spec).fs_type or "", options)
        except MountProblem as error:
            clear_mount_point(self._host, path)
            what = f"local: failed to mount device {device} at {path}"
            why = f"{error.what}: {error.why}"
            raise MountProblem(error.kind, what, why=why, next_step=error.next_step) from error

    def _shows(self, mounted: MountFacts, device: str) -> bool:
        facts = self._host.device(device)
        if facts is None or mounted.fs_type == _DEVICE_PER_SUBVOLUME:
            return True
        return mounted.device == os.makedev(facts.major, facts.minor)

    async def unstage(self, spec: VolumeSpec, stage_path: str) -> None:
        """Take away what the node has of a volume, found by its name: a directory's own path is never touched."""
        await self._host.run(lambda: self._unstage(spec), risk=Risk.HANGING, what=f"unmount volume {spec.name}")

    def _unstage(self, spec: VolumeSpec) -> None:
        path = self._places.stage(spec.name)
        mounted = self._host.mount_at(path)
        device = mounted.source if mounted is not None else source_of(spec).path
        if mounted is not None:
            self._refuse_users(resolved(self._host, path), f"/plugins/{NAME}/mounts/{spec.name}")
        clear_mount_point(self._host, path)
        remove_map_directory(self._host, self._places.map(spec.name))
        if device.startswith("/") and self._is_mounted_elsewhere(spec, device):
            raise Doubtful(
                f"cannot let go of device {device!r}",
                why="it is in use when it was no longer expected to be in use",
                next_step="Find out who has it mounted or open, perhaps in another mount namespace",
            )

    def _refuse_users(self, path: str, tail: str) -> None:
        """Refuse to unmount what is still bound somewhere; the stage itself seen elsewhere does not count."""
        others = [other for other in references(self._host, path) if not other.endswith(tail)]
        if others:
            raise Doubtful(
                f"cannot unmount {path!r}",
                why=f"the device mount path is still mounted by other references: {', '.join(others)}",
                next_step="Unmount them; it is tried again by itself",
            )

    def _is_mounted_elsewhere(self, spec: VolumeSpec, device: str) -> bool:
        if spec.is_block:
            return False  # whoever else may open a raw device is its users' affair
        if self._host.server_of(device):
            return False  # a directory of a network file system, which may not even answer
        facts = self._host.look_through(device)
        return facts is not None and facts.kind is FileKind.BLOCK_DEVICE and self._host.is_device_open(device)
