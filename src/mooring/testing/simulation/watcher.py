"""Watches a manager at work: every operation's start and end, and every call that changes the machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from mooring.manager.volume_manager import VolumeManager
from mooring.testing.simulation.journal import Journal
from mooring.testing.simulation.oracle import volume_path
from mooring.testing.simulation.wishes import EmptyDirWish
from mooring.testing.simulation.world_model import WorldModel
from mooring.world.changes import (
    Change,
    Finished,
    ForceCleaned,
    Noticed,
    Owned,
    ProblemArose,
    Reconstructed,
    Started,
)
from mooring.world.names import VolumeName
from mooring.world.operations import (
    MakePodDirectory,
    Mount,
    Operation,
    RemovePodDirectory,
    Unmount,
    kind_of,
    pod_of,
)
from mooring.world.presence import Presence, Result

MountKey = tuple[str, str]
"""Unique volume name and pod UID."""
_TAKING_AWAY = ("remove_file", "remove_directory", "remove_tree", "unmount")


@dataclass(frozen=True, slots=True)
class Known:
    """What a mount's operations have told of it so far."""

    presence: Presence
    reconstructed: bool = False


ABSENT = Known(Presence.ABSENT)


def after_operation(before: Known, operation: Mount | Unmount, result: Result) -> Known:
    """The same rules as mooring's, said a second time: I15 to I18."""
    if isinstance(operation, Mount):
        if result is Result.DONE:
            return Known(Presence.PRESENT)
        if result is Result.UNKNOWN and before.presence is Presence.ABSENT:
            return Known(Presence.UNCERTAIN)
        if result is Result.REFUSED and before.presence is Presence.UNCERTAIN and not before.reconstructed:
            return ABSENT
        return before
    if result is Result.DONE:
        return ABSENT
    return before if result is Result.NOT_YET else Known(Presence.UNCERTAIN, before.reconstructed)


@dataclass(slots=True)
class Watcher:
    """Judges one manager after the other against the world model."""

    model: WorldModel
    journal: Journal
    root: str
    told: bool = False  # the present manager knows the pods
    heard: bool = False  # and was told that these are all
    known: dict[MountKey, Known] = field(default_factory=dict)
    _running: dict[Operation, bool] = field(default_factory=dict)
    _manager: VolumeManager | None = None
    last_end: float = 0.0

    def watch(self, manager: VolumeManager) -> None:
        """Begin anew with another manager: what the one before had under way is gone with it."""
        self._manager = manager
        self.told = self.heard = False
        self.known.clear()
        self._running.clear()
        manager.subscribe(self._hear)

    def _hear(self, change: Change) -> None:
        match change:
            case Started():
                self._started(change.operation)
            case Finished():
                self._finished(change)
            case Reconstructed():
                self.journal.note("found", f"{change.plugin} {change.inner_name} of {change.pod}")
                if change.volume is not None:
                    self.known[change.volume, change.pod] = Known(Presence.UNCERTAIN, reconstructed=True)
            case ProblemArose():
                self.journal.note("problem", f"{change.pod.key} {change.volume}: {change.why}")
            case ForceCleaned():
                self.journal.note("cleaned", f"{change.path}: {change.why or 'gone'}")
            case Noticed():
                self.journal.note("notice", f"{change.pod.key} {change.volume}: {change.message}")
            case Owned():
                self.journal.note("owned", f"{change.pod.key} {change.volume}: {change.progress}")
            case _:
                assert_never(change)

    # -- operations ----------------------------------------------------------------------------------------------
    def _started(self, operation: Operation) -> None:
        self.journal.operations += 1
        self.journal.note("start", describe(operation))
        if isinstance(operation, Unmount | RemovePodDirectory) and not self.heard:
            self.journal.accuse("I1", f"{describe(operation)} began before all sources were heard")
        for other in self._running:
            if conflicts(operation, other):
                self.journal.accuse("I13", f"{describe(operation)} began while {describe(other)} was under way")
        wanted = self._running[operation] = self._is_wanted(operation)
        if isinstance(operation, Unmount) and not wanted:
            key = operation.volume, operation.pod
            self.known[key] = Known(Presence.UNCERTAIN, self.known.get(key, ABSENT).reconstructed)

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
        if isinstance(operation, Mount | Unmount):
            key = operation.volume, operation.pod
            self.known[key] = after_operation(self.known.get(key, ABSENT), operation, outcome.result)
            self.compare(key)

    def compare(self, key: MountKey) -> None:
        """The actual state of the world says of a mount what its operations have told, and nothing else."""
        assert self._manager is not None
        name, uid = key
        volume = self._manager.actual.volumes.get(VolumeName(name))
        mount = next((mount for pod, mount in volume.mounts.items() if pod == uid), None) if volume else None
        presence = mount.presence if mount is not None else Presence.ABSENT
        expected = self.known.get(key, ABSENT).presence
        if presence is not expected:
            what = f"{name} counts as {presence.value} for {uid}, after operations that leave it {expected.value}"
            self.journal.accuse("I15-I18", what)

    def compare_all(self) -> None:
        assert self._manager is not None
        held = {(name, pod) for name, volume in self._manager.actual.volumes.items() for pod in volume.mounts}
        for key in sorted(held | self.known.keys()):
            self.compare(key)

    def is_in_doubt(self, what: str) -> bool:
        """Whether a batch of calls works on a mount of which nobody knows if it is there."""
        for (name, uid), known in self.known.items():
            plugin, _, backing = name.rpartition("/")
            place = f"{uid}/volumes/{plugin.replace('/', '~')}/{backing.removeprefix(f'{uid}-')}"
            if known.presence is Presence.UNCERTAIN and what.endswith(place):
                return True
        return False

    # -- calls that change the machine ---------------------------------------------------------------------------
    def changing(self, method: str, path: str) -> None:
        """Called before each such call of a manager."""
        for pod, volume in self.model.volumes():
            if not isinstance(volume, EmptyDirWish) or (pod.uid, volume.name) not in self.model.user_files:
                continue
            place = volume_path(self.root, pod.uid, volume)
            if method in _TAKING_AWAY and (path == place or path.startswith(f"{place}/")):
                self.journal.accuse("I9", f"{method} {path}, where a pod that is still wanted keeps its data")


def describe(operation: Operation) -> str:
    pod = pod_of(operation)
    if isinstance(operation, MakePodDirectory | RemovePodDirectory):
        return f"{kind_of(operation)} {pod}"
    again = " again" if isinstance(operation, Mount) and operation.refresh else ""
    return f"{kind_of(operation)} {operation.volume}{again}"


def conflicts(one: Operation, other: Operation) -> bool:
    """Whether two operations may not overlap (I13); none of the volumes here is shared by pods."""
    directories = (MakePodDirectory, RemovePodDirectory)
    if isinstance(one, directories) and isinstance(other, directories):
        return one.pod == other.pod
    if isinstance(one, RemovePodDirectory) or isinstance(other, RemovePodDirectory):
        return pod_of(one) == pod_of(other)
    if isinstance(one, directories) or isinstance(other, directories):
        return False
    return one.volume == other.volume and pod_of(one) == pod_of(other)
