"""Watches a manager at work: every operation's start and end, and every call that changes the machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import assert_never

from mooring.manager.volume_manager import VolumeManager
from mooring.testing.simulation.journal import Journal
from mooring.testing.simulation.oracle import volume_name, volume_path
from mooring.testing.simulation.wishes import EmptyDirWish, InlineWish, VolumeWish
from mooring.testing.simulation.world_model import WorldModel
from mooring.world.changes import (
    Change,
    Finished,
    ForceCleaned,
    Labelled,
    Noticed,
    Owned,
    ProblemArose,
    Reconstructed,
    Started,
)
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import (
    Attach,
    Detach,
    Expand,
    MakePodDirectory,
    Mount,
    Operation,
    PodOperation,
    RemovePodDirectory,
    Stage,
    Unmount,
    Unstage,
    VolumeOperation,
    kind_of,
    pod_of,
)
from mooring.world.presence import Presence, Result

PartKey = tuple[str, str]
"""Unique volume name and pod UID, or what the node itself has of the volume: `ATTACHMENT` or `STAGE`."""

ATTACHMENT, STAGE = "attachment", "stage"
_TAKING_AWAY = ("remove_file", "remove_directory", "remove_tree", "unmount")


@dataclass(frozen=True, slots=True)
class Known:
    """What the operations on a part of a volume have told of it so far."""

    presence: Presence
    reconstructed: bool = False
    outlived: bool = False  # it was made before the machine was booted, so it cannot be there any more


ABSENT = Known(Presence.ABSENT)
IN_DOUBT = Known(Presence.UNCERTAIN)


def key_of(operation: VolumeOperation) -> PartKey:
    match operation:
        case Mount() | Expand() | Unmount():
            return operation.volume, operation.pod
        case Stage() | Unstage():
            return operation.volume, STAGE
        case Attach() | Detach():
            return operation.volume, ATTACHMENT
        case _:
            assert_never(operation)


def after_operation(before: Known, operation: VolumeOperation, result: Result) -> tuple[Known, ...]:
    """The same rules as mooring's, said a second time: I15 to I18. Where more doubt is no mistake there are two."""
    if isinstance(operation, Mount | Stage | Attach):
        if result is Result.DONE:
            return (Known(Presence.PRESENT),)
        if result is Result.UNKNOWN and before.presence is Presence.ABSENT:
            return (IN_DOUBT,)
        if result is Result.REFUSED and before.presence is Presence.UNCERTAIN:
            if before.outlived or (not before.reconstructed and not isinstance(operation, Mount)):
                return ABSENT, before
            return (before,) if before.reconstructed else (ABSENT,)
        return (before,)
    if result is Result.DONE:
        return (ABSENT,)
    return (before,) if result is Result.NOT_YET else (replace(before, presence=Presence.UNCERTAIN),)


@dataclass(slots=True)
class Watcher:
    """Judges one manager after the other against the world model."""

    model: WorldModel
    journal: Journal
    root: str
    told: bool = False  # the present manager knows the pods
    heard: bool = False  # and was told that these are all
    known: dict[PartKey, Known] = field(default_factory=dict)
    boots: int = 0
    _made_in: dict[PartKey, int] = field(default_factory=dict)  # the boot in which a part was last set up
    _disturbed: dict[PartKey, bool] = field(default_factory=dict)  # unmounted by others; set up since then?
    _stock_taken: bool = False
    _running: dict[Operation, bool] = field(default_factory=dict)
    _manager: VolumeManager | None = None
    last_end: float = 0.0

    def watch(self, manager: VolumeManager) -> None:
        """Begin anew with another manager: what the one before had under way is gone with it."""
        self._manager = manager
        self.told = self.heard = self._stock_taken = False
        self.known.clear()
        self._disturbed.clear()
        self._running.clear()
        manager.subscribe(self._hear)

    def _hear(self, change: Change) -> None:
        match change:
            case Started():
                self._started(change.operation)
            case Finished():
                self._finished(change)
            case Reconstructed():
                self.journal.note("found", f"{change.plugin} {change.inner_name} of {change.pod} {change.why}".strip())
                self._adopt(change)
            case ProblemArose():
                self.journal.note("problem", f"{change.pod.key} {change.volume}: {change.why}")
            case ForceCleaned():
                self.journal.note("cleaned", f"{change.path}: {change.why or 'gone'}")
            case Noticed():
                self.journal.note("notice", f"{change.pod.key} {change.volume}: {change.message}")
            case Owned():
                self.journal.note("owned", f"{change.pod.key} {change.volume}: {change.progress}")
            case Labelled():
                self.journal.note("labelled", f"{change.spec.name}: {change.decision}")
            case _:
                assert_never(change)

    # -- operations ----------------------------------------------------------------------------------------------
    def _started(self, operation: Operation) -> None:
        self.journal.operations += 1
        self.journal.note("start", describe(operation))
        self._take_stock()
        if isinstance(operation, Unmount | Unstage | Detach | RemovePodDirectory) and not self.heard:
            self.journal.accuse("I1", f"{describe(operation)} began before all sources were heard")
        if isinstance(operation, Unmount) and self.model.is_in_use(operation.pod, operation.volume):
            self.journal.accuse("I3", f"{describe(operation)} began while containers of {operation.pod} run")
        for other in self._running:
            if conflicts(operation, other):
                self.journal.accuse("I13", f"{describe(operation)} began while {describe(other)} was under way")
        wanted = self._running[operation] = self._is_wanted(operation)
        if isinstance(operation, PodOperation):
            return
        key = key_of(operation)
        if isinstance(operation, Unmount) and not wanted and not self._is_unsure(operation):
            self.known[key] = replace(self.known.get(key, ABSENT), presence=Presence.UNCERTAIN)
        if isinstance(operation, Mount | Stage):
            self._made_in[key] = self.boots
        if isinstance(operation, Mount) and key in self._disturbed and not operation.refresh:
            self._disturbed[key] = True
            self.compare(key)  # what it sets out from is doubt, if the manager has noticed

    def _is_unsure(self, operation: Unmount) -> bool:
        """Whether the manager cannot tell what the pod wants, and so refuses what was planned before."""
        return self._manager is not None and bool(self._manager.desired.problems(operation.pod))

    def _adopt(self, change: Reconstructed) -> None:
        """What was kept apart is understood at last: it counts as found now."""
        if self._stock_taken and change.volume is not None:
            for key, presence in self._parts():
                if key[0] == change.volume and self.known.get(key, ABSENT) == ABSENT:
                    self.known[key] = Known(presence, reconstructed=True)

    def _take_stock(self) -> None:
        """Once what earlier managers left has been found: all of it is doubt, and nothing more."""
        assert self._manager is not None
        if self._stock_taken or not self._manager.reconciler_states_has_been_synced():
            return
        self._stock_taken = True
        for key, presence in self._parts():
            if presence is not Presence.UNCERTAIN:
                self.journal.accuse("I18", f"{key[0]} counts as {presence.value} for {key[1]} right after a start")
            outlived = key[1] != ATTACHMENT and self._made_in.get(key) != self.boots
            self.known[key] = Known(presence, reconstructed=True, outlived=outlived)

    def _parts(self) -> Iterator[tuple[PartKey, Presence]]:
        """Everything that the manager believes to be, or perhaps to be, on the node."""
        assert self._manager is not None
        for name, volume in self._manager.actual.volumes.items():
            for part, presence in ((ATTACHMENT, volume.attachment), (STAGE, volume.stage)):
                if presence is not Presence.ABSENT:
                    yield (name, part), presence
            for pod, mount in volume.mounts.items():
                yield (name, pod), mount.presence

    def _is_wanted(self, operation: Operation) -> bool:
        """Whether what the operation works on was wanted when it began."""
        if not self.told:
            return False
        if isinstance(operation, MakePodDirectory | RemovePodDirectory):
            pod = self.model.by_uid(operation.pod)
            return pod is not None and bool(pod.volumes)  # one without volumes just gets its directory back
        uid = pod_of(operation)
        return uid is not None and self.model.wants(uid, operation.volume)

    def _finished(self, change: Finished) -> None:
        operation, outcome = change.operation, change.outcome
        reason = f" ({outcome.what}: {outcome.why})" if not outcome.succeeded else ""
        self.journal.note("end", f"{describe(operation)} {outcome.result.value}{reason}")
        self.last_end = change.at
        wanted = self._running.pop(operation, None)
        if wanted is None:
            self.journal.accuse("I14", f"{describe(operation)} ended twice, or without having begun")
        if wanted and isinstance(operation, Unmount | RemovePodDirectory) and outcome.result is not Result.NOT_YET:
            self.journal.accuse("I3", f"{describe(operation)} ran although a source tells of a pod that wants it")
        if not isinstance(operation, PodOperation):
            key = key_of(operation)
            permitted = after_operation(self.known.get(key, ABSENT), operation, outcome.result)
            actual = self._actual(key)
            self.known[key] = next((known for known in permitted if known.presence is actual), permitted[0])
            self.compare(key)
            if self._disturbed.get(key) and outcome.succeeded:
                del self._disturbed[key]

    def _actual(self, key: PartKey) -> Presence:
        assert self._manager is not None
        name, part = key
        volume = self._manager.actual.volumes.get(VolumeName(name))
        if volume is None:
            return Presence.ABSENT
        if part in (ATTACHMENT, STAGE):
            return volume.attachment if part == ATTACHMENT else volume.stage
        mount = volume.mounts.get(PodUid(part))
        return mount.presence if mount is not None else Presence.ABSENT

    def compare(self, key: PartKey) -> None:
        """The actual state of the world says of a part what its operations have told, and nothing else."""
        presence, expected = self._actual(key), self.known.get(key, ABSENT).presence
        if key in self._disturbed and presence is Presence.UNCERTAIN and expected is Presence.PRESENT:
            self.known[key] = IN_DOUBT  # it was noticed
        elif presence is not expected:
            name, part = key
            what = f"{name} counts as {presence.value} for {part}, after operations that leave it {expected.value}"
            self.journal.accuse("I15-I18", what)

    def compare_all(self) -> None:
        self._take_stock()
        if self._stock_taken:
            for key in sorted({key for key, _ in self._parts()} | self.known.keys()):
                self.compare(key)

    def disturb(self, uid: str, volume: VolumeWish) -> None:
        """Somebody unmounts a volume of a pod: the manager may believe it mounted for a moment."""
        self._disturbed[volume_name(uid, volume), uid] = False

    def calm(self) -> None:
        """By now whatever others did has been noticed."""
        self._disturbed.clear()

    def is_disturbed(self, uid: str, volume: VolumeWish) -> bool:
        return (volume_name(uid, volume), uid) in self._disturbed

    def is_in_doubt(self, what: str) -> bool:
        """Whether a batch of calls works on a mount of which nobody knows if it is there."""
        for (name, uid), known in self.known.items():
            if uid in (ATTACHMENT, STAGE):
                continue
            plugin, _, backing = name.rpartition("/")
            place = f"{uid}/volumes/{plugin.replace('/', '~')}/{backing.removeprefix(f'{uid}-')}"
            if known.presence is Presence.UNCERTAIN and what.endswith(place):
                return True
        return False

    # -- calls that change the machine ---------------------------------------------------------------------------
    def changing(self, method: str, path: str) -> None:
        """Called before each such call of a manager."""
        for pod, volume in self.model.volumes():
            if not isinstance(volume, EmptyDirWish | InlineWish) or (pod.uid, volume.name) not in self.model.user_files:
                continue
            place = volume_path(self.root, pod.uid, volume)
            if method in _TAKING_AWAY and (path == place or path.startswith(f"{place}/")):
                self.journal.accuse("I9", f"{method} {path}, where a pod that is still wanted keeps its data")


def describe(operation: Operation) -> str:
    pod = pod_of(operation)
    if isinstance(operation, MakePodDirectory | RemovePodDirectory):
        return f"{kind_of(operation)} {pod}"
    again = " again" if isinstance(operation, Mount) and operation.refresh else ""
    for_pod = f" for {pod}" if pod is not None and str(pod) not in operation.volume else ""
    return f"{kind_of(operation)} {operation.volume}{for_pod}{again}"


def conflicts(one: Operation, other: Operation) -> bool:
    """Whether two operations may not overlap (I13): pods are only served side by side when they are unmounted."""
    directories = (MakePodDirectory, RemovePodDirectory)
    if isinstance(one, directories) and isinstance(other, directories):
        return one.pod == other.pod
    if isinstance(one, RemovePodDirectory) or isinstance(other, RemovePodDirectory):
        return pod_of(one) == pod_of(other)
    if isinstance(one, directories) or isinstance(other, directories) or one.volume != other.volume:
        return False
    both_unmount = isinstance(one, Unmount) and isinstance(other, Unmount)
    return not both_unmount or pod_of(one) == pod_of(other)
