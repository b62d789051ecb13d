"""iscsi: a disk that another machine offers over the network, attached and mounted once for the node."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.errors import Doubtful, Refused
from mooring.host.interface import Host, Risk
from mooring.host.mount_points import unmount_layers
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import ISCSIVolumeSource
from mooring.plugins import iscsi_disk
from mooring.plugins.interface import (
    NO_WISHES,
    Attributes,
    ObjectRef,
    Objects,
    Offer,
    PluginContext,
    StageWishes,
    Trace,
)
from mooring.plugins.iscsi_disk import IscsiDisk, disk_of
from mooring.plugins.iscsi_places import NAME, IscsiPlaces
from mooring.plugins.iscsi_sessions import IscsiSessions
from mooring.plugins.scsi_devices import ScsiDevices
from mooring.plugins.staged_volumes import AttachedByStage, StagedBinds, StagedMaps, mount_stage, refuse_users
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec


class ISCSIPlugin:
    """The iscsi volume type, in a pod or in a PersistentVolume."""

    name = NAME

    def __init__(self, context: PluginContext, devices: ScsiDevices | None = None) -> None:
        host, paths = context.host, context.paths
        self._places = IscsiPlaces(host, paths)
        sessions = IscsiSessions(host, devices if devices is not None else ScsiDevices(host))
        check = _Check(context.objects)
        self._attacher = AttachedByStage()
        self._stager = ISCSIStager(host, context.objects, self._places, sessions)
        self._binds = StagedBinds(host, paths, NAME, check)
        self._maps = StagedMaps(
            host,
            paths,
            NAME,
            lambda spec: sessions.device_of(disk_of(spec)),
            lambda spec: self._places.place(disk_of(spec), block=True),
            check,
        )

    def supports(self, spec: VolumeSpec) -> bool:
        return iscsi_disk.source_of(spec) is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        """Which disk it is; of one that was found in a pod, and is gone, only the name is known."""
        source = _source(spec)
        return iscsi_disk.backing_name(source) if source.iqn else spec.name

    def offer(self, spec: VolumeSpec) -> Offer:
        read_only = is_read_only(spec)
        worker = self._maps if spec.is_block else self._binds
        return Offer(
            mounter=worker,
            stager=self._stager,
            attacher=self._attacher,
            checker=worker,
            attributes=Attributes(read_only=read_only, managed=not read_only, relabel=True),
            takes_mount_options=True,
            takes_labels=not spec.is_block,
            maps_devices=spec.is_block,
        )

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        reference = iscsi_disk.secret_reference(spec, pod.metadata.namespace)
        return (reference,) if reference is not None else ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        raise Refused(f"cannot tell what volume {volume_name!r} is", why="its name alone does not say which disk it is")

    def reconstruct_for(self, uid: PodUid, volume_name: str, *, block: bool) -> VolumeSpec:
        return self._places.found_in_pod(uid, volume_name, block=block)

    def traces(self) -> Iterable[Trace]:
        return self._places.traces()

    def place_of(self, spec: VolumeSpec) -> str:
        return self._places.place(disk_of(spec), block=spec.is_block)


class ISCSIStager:
    """Attaches a disk and mounts its file system; a raw disk is only attached."""

    def __init__(self, host: Host, objects: Objects, places: IscsiPlaces, sessions: IscsiSessions) -> None:
        self._host = host
        self._objects = objects
        self._places = places
        self._sessions = sessions

    async def stage(self, spec: VolumeSpec, device_path: str, wishes: StageWishes = NO_WISHES) -> str:
        disk, chap = disk_of(spec), iscsi_disk.chap_of(spec, self._objects)
        path = self._places.place(disk, block=spec.is_block)
        if not spec.is_block and self._host.mount_at(path) is not None:
            return path
        # Before the first session: whatever happens then, a later process finds out what it has to end.
        self._places.remember(disk, block=spec.is_block)
        try:
            device = await self._sessions.attach(disk, chap)
        except Refused:
            self._places.forget(path)
            raise
        if not spec.is_block:
            await self._mount(spec, device, path, wishes.label)
        return path

    async def _mount(self, spec: VolumeSpec, device: str, path: str, label: str) -> None:
        fs_type, read_only = _source(spec).fs_type, is_read_only(spec)
        try:
            await self._host.run(
                lambda: mount_stage(self._host, spec, device, path, fs_type, read_only=read_only, label=label),
                risk=Risk.HANGING,
                what=f"mount {device} for volume {spec.name}",
            )
        except Refused as error:  # the disk is attached all the same
            raise Doubtful(error.what, why=error.why, next_step=error.next_step) from error

    async def unstage(self, spec: VolumeSpec, stage_path: str) -> None:
        if not _source(spec).iqn:
            return  # its disk was gone from this node before it was found
        known = disk_of(spec)
        place = self._places.place(known, block=spec.is_block)
        if self._host.look(place) is None:
            return
        await self._host.run(
            lambda: unmount_layers(self._host, place), risk=Risk.HANGING, what=f"unmount volume {spec.name}"
        )
        disk = self._places.recall(place, known)
        if spec.is_block:
            refuse_users(self._host, place)
        await self._sessions.release_devices(disk)
        async with self._sessions.lock(disk.iqn):
            if self._places.users_of_sessions(disk) <= 1:
                await self._sessions.log_out(disk)
            self._places.forget(place)


class _Check:
    """What shows ahead that a volume cannot be used, for `mooring plan`."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def __call__(self, spec: VolumeSpec) -> IscsiDisk:
        iscsi_disk.chap_of(spec, self._objects)
        return disk_of(spec)


def is_read_only(spec: VolumeSpec) -> bool:
    return spec.read_only or (spec.volume is not None and _source(spec).read_only)


def _source(spec: VolumeSpec) -> ISCSIVolumeSource:
    source = iscsi_disk.source_of(spec)
    assert source is not None
    return source
