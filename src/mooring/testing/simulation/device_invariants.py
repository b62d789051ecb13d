"""What must hold of disks: between the truth of the drivers, the records on the machine and the manager's word."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.manager.volume_manager import VolumeManager
from mooring.testing.memory_node import MemoryNode
from mooring.testing.simulation.disks import DISKS, DRIVERS
from mooring.testing.simulation.driver_effects import STORE, Request, Thing, Verb, device_path
from mooring.testing.simulation.drivers import Drivers
from mooring.testing.simulation.faults import Faults
from mooring.testing.simulation.journal import Journal, Violation
from mooring.testing.simulation.oracle import plugin_of, volume_path
from mooring.testing.simulation.record_keeper import RecordKeeper, Told
from mooring.testing.simulation.watcher import Watcher
from mooring.testing.simulation.wishes import DiskWish, DriverWish, InlineWish, PodWish, VolumeWish
from mooring.testing.simulation.world_model import WorldModel
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.presence import Presence


class DeviceInvariants:
    """Judges every request to a driver when it arrives, and the state of all disks after each step."""

    def __init__(
        self,
        node: MemoryNode,
        model: WorldModel,
        drivers: Drivers,
        records: RecordKeeper,
        faults: Faults,
        journal: Journal,
        watcher: Watcher,
    ) -> None:
        self._watcher = watcher
        self._node = node
        self._model = model
        self._drivers = drivers
        self._records = records
        self._faults = faults
        self._journal = journal
        drivers.judge = self.judge

    @property
    def _manager(self) -> VolumeManager:
        return self._node.manager

    # -- when a request arrives ----------------------------------------------------------------------------------
    def judge(self, request: Request) -> None:
        """Accuse whoever asks a driver for what must never be asked for now."""
        for invariant, what in self._complaints(request):
            self._journal.accuse(invariant, f"{request.verb.value} of {request.thing}: {what}")

    def _complaints(self, request: Request) -> Iterator[tuple[str, str]]:
        thing, held = request.thing, self._drivers.held
        below = self._drivers.lowest(thing)
        if request.verb.sets_up:
            if below is not None and below not in held:
                yield "I6", f"{below} is not there"
            if thing not in held and not self._is_written_down(thing, self._records.written()):
                yield "record", "nothing on disk would tell of it after a crash"
            if below is not None and DRIVERS[thing.driver].attaches and request.device_path != device_path(thing.disk):
                yield "I26", f"its device path is {request.device_path!r}"
        match request.verb:
            case Verb.PUBLISH if thing.disk in DISKS and DISKS[thing.disk].exclusive:
                for other in self._drivers.things(thing.disk, "published"):
                    if other.pod != thing.pod:
                        yield "I11", f"only one pod may have it, and {other.pod} has"
            case Verb.EXPAND if thing not in held:
                yield "I18", "it is not there"
            case Verb.UNPUBLISH if self._model.is_in_use(thing.pod, thing.volume):
                yield "I3", "containers of the pod use it"
            case Verb.UNSTAGE | Verb.DETACH:
                for other in sorted(held):
                    if self._drivers.lowest(other) == thing:
                        yield "I5" if request.verb is Verb.UNSTAGE else "I6", f"{other} is still there"
            case _:
                pass

    def _is_written_down(self, thing: Thing, told: set[Told]) -> bool:
        """Whether a record tells of it or, for what lies in the pod's directory alone, that directory."""
        if not thing.block and not DRIVERS[thing.driver].is_shared:
            return self._node.host.look(thing.place(self._node.paths.root)) is not None
        return (thing.volume, thing.part) in told

    # -- between any two steps -----------------------------------------------------------------------------------
    def check_data(self) -> None:
        """I9: what containers wrote onto a disk is there."""
        for disk, files in self._model.disk_files.items():
            for file, text in files.items():
                path = f"{STORE}/{disk}/{file}"
                if self._node.host.look(path) is None or self._node.host.read_file(path) != text.encode():
                    raise Violation("I9", f"{path} is lost")

    def check_known(self) -> None:
        """I4, I7, I15, I17: what a driver has is known or suspected, written down, and counts as in use."""
        if not self._manager.reconciler_states_has_been_synced() or self._faults.unread:
            return
        if not self._drivers.held:
            return
        told = self._records.written()
        in_use = self._manager.get_volumes_in_use()
        apart = set(self._manager.recovery.volumes())
        for thing in sorted(self._drivers.held):
            name = VolumeName(thing.volume)
            if thing.disk in self._model.traceless or self._drivers.is_at_work(thing):
                continue
            if not self._is_written_down(thing, told):
                raise Violation("record", f"{thing}, and nothing on disk tells of it")
            if thing.kind == "attached" and name not in in_use:
                raise Violation("I7", f"{thing}, and the volume does not count as in use")
            if name not in apart and not self._manager.reconciler.pending.running(name) and not self._is_held(thing):
                raise Violation("I15-I18", f"{thing}, and the manager has forgotten it")

    def _is_held(self, thing: Thing) -> bool:
        volume = self._manager.actual.volumes.get(VolumeName(thing.volume))
        if volume is None:
            return False
        match thing.kind:
            case "attached":
                return volume.attachment is not Presence.ABSENT
            case "staged":
                return volume.stage is not Presence.ABSENT
            case "published":
                return PodUid(thing.pod) in volume.mounts

    def check_mounted(self) -> None:
        """I18: what is reported mounted is published, with all that must be below it."""
        for pod, volume in self._wishes():
            thing = self._thing(pod, volume)
            mounted = self._manager.get_mounted_volumes_for_pod(PodUid(pod.uid)).get(volume.name)
            if mounted is None or mounted.name != thing.volume or self._watcher.is_disturbed(pod.uid, volume):
                continue
            if not self._drivers.is_shown(thing):
                raise Violation("I18", f"{thing.place(self._node.paths.root)} counts as mounted and is not there")
            below = self._drivers.lowest(thing)
            while below is not None:
                if below not in self._drivers.held:
                    raise Violation("I18", f"{thing} counts as mounted, and below it nothing is {below.kind}")
                below = self._drivers.lowest(below)

    def _wishes(self) -> Iterator[tuple[PodWish, DriverWish]]:
        for pod, volume in self._model.volumes():
            if isinstance(volume, DiskWish | InlineWish):
                yield pod, volume

    def _thing(self, pod: PodWish, volume: VolumeWish) -> Thing:
        disk = volume.disk if isinstance(volume, DiskWish) else volume.name
        return Thing("published", PluginName(plugin_of(volume)), disk, pod.uid)

    # -- once all is calm ----------------------------------------------------------------------------------------
    def check_settled(self) -> None:
        """I19, I28: each disk is with the pods that want it, and nothing is left of the others."""
        for pod, volume in self._wishes():
            if not self._model.missing_of(volume):
                self._check_mounted_somewhere(pod, volume)
        for thing in sorted(self._drivers.held):
            if thing.disk not in self._model.traceless and not self._is_due(thing):
                raise Violation("I19", f"{thing}, and nothing wants it")

    def _check_mounted_somewhere(self, pod: PodWish, volume: DriverWish) -> None:
        thing = self._thing(pod, volume)
        if volume.name in self._manager.get_mounted_volumes_for_pod(PodUid(pod.uid)):
            place = volume_path(self._node.paths.root, pod.uid, volume)
            reported = self._manager.get_mounted_volumes_for_pod(PodUid(pod.uid))[volume.name].path
            if reported != place:
                raise Violation("I28", f"{thing} is reported at {reported} and belongs at {place}")
            return
        exclusive = isinstance(volume, DiskWish) and volume.of.exclusive
        if not (exclusive and (self._is_elsewhere(thing) or thing.disk in self._model.traceless)):
            raise Violation("I28", f"volume {volume.name!r} of {pod.uid} could be mounted and is not")

    def _is_elsewhere(self, thing: Thing) -> bool:
        """Whether another pod has a disk, or may have it and is to keep what it has."""
        if any(other.pod != thing.pod for other in self._drivers.things(thing.disk, "published")):
            return True
        volume = self._manager.actual.volumes.get(VolumeName(thing.volume))
        others = set(volume.mounts) - {PodUid(thing.pod)} if volume is not None else set()
        return any(self._model.may_keep(pod) for pod in others)

    def _is_due(self, thing: Thing) -> bool:
        if thing.kind == "published":
            wanted = self._model.wants(thing.pod, thing.volume)
            return wanted or self._model.may_keep(thing.pod)
        return bool(self._model.holders(thing.disk))

    # -- at the very end -----------------------------------------------------------------------------------------
    def repair(self) -> None:
        """Do by hand what only a person can do: look after what a damaged record told of."""
        told = {finding.where for finding in self._manager.recovery.findings() if finding.kind == "record"}
        for path in self._records.mend():
            if path not in told:
                raise Violation("finding", f"{path} is damaged, and no finding tells of it")
        order = ("published", "staged", "attached")
        for thing in sorted(self._drivers.held, key=lambda thing: (order.index(thing.kind), thing)):
            if thing.disk in self._model.traceless:
                self._drivers.undo(thing)
        for disk in sorted(self._model.traceless & DISKS.keys()):  # of which a reboot has left a directory
            self._drivers.undo(Thing("staged", DISKS[disk].driver, disk))
        self._model.traceless.clear()

    def check_empty(self) -> None:
        """I27: nothing is left with the drivers, nor written down, nor kept apart."""
        for thing in sorted(self._drivers.held):
            raise Violation("I27", f"{thing} is left")
        for name in self._records.names():
            raise Violation("I27", f"the record {name} is left")
        for leftover in self._manager.recovery.leftovers:
            raise Violation("I27", f"{leftover.path} is kept apart: {leftover.why}")
        if len(self._manager.intents):
            raise Violation("I27", "the manager believes that records are left")
