"""fc: a disk on a Fibre Channel network, found by its number and mounted once for the node."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.errors import Refused
from mooring.host.interface import Host, Risk
from mooring.host.mount_points import clear_mount_point, unmount_layers
from mooring.kube.objects.pod import Pod
from mooring.plugins.fc_disks import NAME, FCDisks, FCPlaces, backing_name, disk_of, is_known, source_of
from mooring.plugins.interface import NO_WISHES, Attributes, ObjectRef, Offer, PluginContext, StageWishes, Trace
from mooring.plugins.local_block import remove_map_directory
from mooring.plugins.scsi_devices import ScsiDevices
from mooring.plugins.staged_volumes import AttachedByStage, StagedBinds, StagedMaps, mount_stage, refuse_users
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec


class FCPlugin:
    """The fc volume type, in a pod or in a PersistentVolume."""

    name = NAME

    def __init__(self, context: PluginContext, devices: ScsiDevices | None = None) -> None:
        host, paths = context.host, context.paths
        self._places = FCPlaces(host, paths)
        disks = FCDisks(host, devices if devices is not None else ScsiDevices(host))
        self._attacher = AttachedByStage()
        self._stager = FCStager(host, self._places, disks)
        self._binds = StagedBinds(host, paths, NAME, disk_of)
        self._maps = StagedMaps(
            host,
            paths,
            NAME,
            lambda spec: disks.find(disk_of(spec)),
            lambda spec: self._places.place(disk_of(spec), block=True),
            disk_of,
        )

    def supports(self, spec: VolumeSpec) -> bool:
        return source_of(spec) is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        """Which disk it is; of one that was found in a pod, and is gone, only the name is known."""
        source = source_of(spec)
        assert source is not None
        if not is_known(spec):
            return spec.name
        disk_of(spec)  # refused when it names none
        return backing_name(source)

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
        return ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        raise Refused(f"cannot tell what volume {volume_name!r} is", why="its name alone does not say which disk it is")

    def reconstruct_for(self, uid: PodUid, volume_name: str, *, block: bool) -> VolumeSpec:
        return self._places.found_in_pod(uid, volume_name, block=block)

    def traces(self) -> Iterable[Trace]:
        return self._places.traces()

    def place_of(self, spec: VolumeSpec) -> str:
        return self._places.place(disk_of(spec), block=spec.is_block)


class FCStager:
    """Finds a disk and mounts its file system; a raw disk is only found."""

    def __init__(self, host: Host, places: FCPlaces, disks: FCDisks) -> None:
        self._host = host
        self._places = places
        self._disks = disks

    async def stage(self, spec: VolumeSpec, device_path: str, wishes: StageWishes = NO_WISHES) -> str:
        disk = disk_of(spec)
        path = self._places.place(disk, block=spec.is_block)
        if not spec.is_block and self._host.mount_at(path) is not None:
            return path
        device = await self._disks.find(disk)
        self._host.make_directories(path, 0o750)
        if not spec.is_block:
            source = source_of(spec)
            assert source is not None
            fs_type, read_only, label = source.fs_type, is_read_only(spec), wishes.label
            await self._host.run(
                lambda: mount_stage(self._host, spec, device, path, fs_type, read_only=read_only, label=label),
                risk=Risk.HANGING,
                what=f"mount {device} for volume {spec.name}",
            )
        return path

    async def unstage(self, spec: VolumeSpec, stage_path: str) -> None:
        if not is_known(spec):
            return
        disk = disk_of(spec)
        place = self._places.place(disk, block=spec.is_block)
        await self._host.run(
            lambda: self._unmount(place, block=spec.is_block), risk=Risk.HANGING, what=f"unmount volume {spec.name}"
        )
        await self._disks.release(disk)
        # Last: as long as the directory is there, a later process lets go of the device.
        remove = remove_map_directory if spec.is_block else clear_mount_point
        await self._host.run(lambda: remove(self._host, place), risk=Risk.HANGING, what=f"remove {place}")

    def _unmount(self, place: str, *, block: bool) -> None:
        if block:
            refuse_users(self._host, place)
        else:
            unmount_layers(self._host, place)


def is_read_only(spec: VolumeSpec) -> bool:
    source = source_of(spec)
    return spec.read_only or (spec.volume is not None and source is not None and source.read_only)
