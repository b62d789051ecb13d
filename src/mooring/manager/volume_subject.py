"""The volumes of this node as the engine sees them: planned by the world, executed, and written back into it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
from msgspec.structs import replace

from mooring.engine.pending import Slot
from mooring.host.hanging_calls import WORK
from mooring.kube.objects.pod import Pod
from mooring.manager.intents import Intents
from mooring.manager.operation_executor import OperationExecutor
from mooring.manager.pods import PodManager, PodStates
from mooring.world import planner
from mooring.world.actual import ActualStateOfWorld, ActualVolume
from mooring.world.changes import Change, Finished, Started
from mooring.world.desired import DesiredMount, DesiredStateOfWorld, DesiredVolume
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import (
    Attach,
    Expand,
    MakePodDirectory,
    Mount,
    Operation,
    PodOperation,
    RemovePodDirectory,
    Stage,
    Unmount,
    VolumeOperation,
    kind_of,
    pod_of,
)
from mooring.world.outcomes import Outcome, apply_outcome, begin, in_doubt_while_unmounting
from mooring.world.planner import Gates
from mooring.world.presence import Presence

POD_KEY = "pod:"
"""Keys of the engine are unique volume names, and with this prefix pod UIDs."""


def pod_key(uid: PodUid) -> str:
    return f"{POD_KEY}{uid}"


class _Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What an operation set out from: the wish may be gone when it ends."""

    at: float
    volume: DesiredVolume | None = None
    mount: DesiredMount | None = None


class VolumeSubject:
    """Plans, runs and records the operations on this node's volumes and pod directories."""

    def __init__(
        self,
        desired: DesiredStateOfWorld,
        actual: ActualStateOfWorld,
        executor: OperationExecutor,
        pods: PodManager,
        states: PodStates,
        intents: Intents,
        *,
        clock: Callable[[], float],
        tell: Callable[[Change], None],
    ) -> None:
        self.desired = desired
        self.actual = actual
        self._executor = executor
        self._pods = pods
        self._states = states
        self._intents = intents
        self._clock = clock
        self._tell = tell
        self.gates = Gates(sources_heard=False)
        # What plans with nothing to do followed from: the gates, and of each volume what was wanted and what was held.
        self._settled_by = self.gates
        self._settled_wishes: dict[VolumeName, DesiredVolume] = {}
        self._settled: dict[VolumeName, ActualVolume] = {}
        self._begun: dict[Operation, _Begun] = {}
        self._in_flight: dict[PodUid, dict[VolumeOperation, str]] = {}  # by pod, with the inner name
        self.touch: Callable[[str], None] = lambda _: None
        self.pod_moved: Callable[[PodUid], None] = lambda _: None
        self.forget: Callable[[str], None] = lambda _: None

    # -- planning ------------------------------------------------------------------------------------------------
    def keys(self) -> Iterable[str]:
        """Every volume and pod directory but those of which a look would find nothing to do.

        A plan follows from values that never change. One that had nothing to do, and no reason to wait, is the same
        again as long as it would be made from the same ones; a resync that finds all as it was costs two comparisons.
        """
        wanted, held = self.desired.volumes, self.actual.volumes
        self._forget_settled_by_other_gates()
        if self._settled != held or self._settled_wishes != wanted:
            yield from wanted.keys() - held.keys()
            for name, volume in held.items():
                if self._settled.get(name) is not volume or self._settled_wishes.get(name) is not wanted.get(name):
                    yield name
        for uid in sorted(self.actual.directories.keys() - self.desired.pods()):
            if self._plan_pod(uid):
                yield pod_key(uid)

    def _forget_settled_by_other_gates(self) -> None:
        if self._settled_by is not self.gates:
            self._settled_by = self.gates
            self._settled_wishes.clear()
            self._settled.clear()

    def plan(self, key: str) -> Sequence[Operation]:
        if key.startswith(POD_KEY):
            return self._plan_pod(PodUid(key[len(POD_KEY) :]))
        name = VolumeName(key)
        desired, actual = self.desired.volumes.get(name), self.actual.volumes.get(name)
        self._settled.pop(name, None)
        self._settled_wishes.pop(name, None)
        if desired is None and actual is not None and actual.is_vacant:
            self.actual.drop(name)
            self.forget(key)
            return ()
        namesakes = self.namesakes(desired) if desired is not None else frozenset()
        planned = planner.plan(desired, actual, self.gates, namesakes=namesakes)
        if actual is not None and not planned.operations and not planned.waits:
            self._settle(name, desired, actual)
        return planned.operations

    def _settle(self, name: VolumeName, desired: DesiredVolume | None, actual: ActualVolume) -> None:
        self._forget_settled_by_other_gates()
        self._settled[name] = actual
        if desired is not None:
            self._settled_wishes[name] = desired

    def namesakes(self, desired: DesiredVolume) -> frozenset[PodUid]:
        """Pods that hold, or were being given, another volume of this one's inner name that they do not want now."""
        return frozenset([pod for pod, wish in desired.mounts.items() if self._has_namesake(pod, wish.spec.name)])

    def _has_namesake(self, pod: PodUid, inner_name: str) -> bool:
        """Whether a pod has, or may come to have, a volume of an inner name that it does not want.

        Asked of every volume at every step: that a volume is wanted is found out sooner than what its name is.
        """
        wanted = set(self.desired.names_for_pod(pod).values())
        for name in self.actual.names_of_pod(pod):
            if name not in wanted and self.actual.volumes[name].mounts[pod].spec.name == inner_name:
                return True
        return any(
            inner == inner_name and operation.volume not in wanted
            for operation, inner in self._in_flight.get(pod, {}).items()
        )

    def _plan_pod(self, uid: PodUid) -> Sequence[Operation]:
        wishes = self.desired.names_for_pod(uid)
        return planner.plan_pod(
            uid,
            known=not self._states.runtime_removed(uid),
            has_wishes=bool(wishes),
            is_made_by_mounts=any(not self.desired.volumes[name].is_shared for name in wishes.values()),
            directory=self.actual.directories.get(uid, Presence.ABSENT),
            may_hold=self.actual.may_hold(uid) or uid in self._in_flight or self._is_kept_apart(uid),
            gates=self.gates,
        )

    def _is_kept_apart(self, uid: PodUid) -> bool:
        """Whether something of a pod was found that nobody can make sense of."""
        return any(pod == uid for _, _, pod in self.gates.kept_apart)

    def slot(self, operation: Operation) -> Slot:
        match operation:
            case MakePodDirectory() | RemovePodDirectory():
                return Slot(pod_key(operation.pod))
            case Unmount():
                return Slot(operation.volume, operation.pod)
            case Mount() | Expand():
                volume = self.desired.volumes[operation.volume]
                if volume.is_shared:
                    return Slot(operation.volume, owner=operation.pod)
                return Slot(operation.volume, operation.pod)
            case _:
                return Slot(operation.volume)

    def kind(self, operation: Operation) -> str:
        return kind_of(operation)

    def attachable_in_flight(self) -> set[VolumeName]:
        """Attachable volumes that an operation works on now, even if nobody wants them any more."""
        begun = (each.volume for each in self._begun.values())
        return {volume.name for volume in begun if volume is not None and volume.attachable}

    def mounting(self, pod: PodUid) -> set[VolumeName]:
        """Volumes that are being mounted for a pod now: they may be there before it is known."""
        return {operation.volume for operation in self._begun if isinstance(operation, Mount) and operation.pod == pod}

    def is_wanted(self, work: object) -> bool:
        """Whether an operation under way is still of use. Taking something away always is."""
        return not (isinstance(work, Mount | Attach | Stage) and self._is_moot(work))

    # -- running -------------------------------------------------------------------------------------------------
    async def execute(self, operation: Operation) -> Outcome:
        WORK.set(operation)
        self._begin(operation)
        return await self._executor.execute(operation)

    def _begin(self, operation: Operation) -> None:
        now = self._clock()
        pod = pod_of(operation)
        if isinstance(operation, PodOperation):
            self._begun[operation] = _Begun(at=now)
            if isinstance(operation, RemovePodDirectory):
                self.gates = replace(self.gates, pods_being_removed=self.gates.pods_being_removed | {operation.pod})
        else:
            volume = self.desired.volumes.get(operation.volume)
            mount = volume.mounts.get(pod) if volume is not None and pod is not None else None
            self._begun[operation] = _Begun(at=now, volume=volume, mount=mount)
            if pod is not None:
                inner_name = mount.spec.name if mount is not None else ""
                self._in_flight.setdefault(pod, {})[operation] = inner_name
            held = self.actual.volumes.get(operation.volume)
            if isinstance(operation, Unmount) and held is not None and not self._may_be_wanted(operation):
                self.actual.put(in_doubt_while_unmounting(held, operation.pod))
        self._tell(Started(operation=operation, at=now))

    def _may_be_wanted(self, operation: Unmount) -> bool:
        """Whether a pod wants what is about to be unmounted, or wants something that cannot be worked out."""
        return self._wants(operation) or self.desired.is_in_doubt(operation.pod)

    def _wants(self, operation: Unmount) -> bool:
        """Whether a pod wants what an operation takes away from it, as it is mounted."""
        name = operation.volume
        return planner.wants(self.desired.volumes.get(name), self.actual.volumes.get(name), operation.pod)

    def apply(self, operation: Operation, outcome: Outcome) -> bool:
        begun = self._begun.pop(operation)
        if isinstance(operation, PodOperation):
            self._apply_directory(operation, outcome)
        else:
            self._apply_volume(operation, outcome, begun)
            self._intents.settle(operation, self.actual.volumes.get(operation.volume))
        self._tell(self._finished(operation, outcome, begun))
        return outcome.succeeded or self._is_moot(operation)

    def _is_moot(self, operation: Operation) -> bool:
        """Whether what failed is not asked for any more: its failure is nobody's, and nothing is to be tried again."""
        match operation:
            case Mount() | Expand():
                return self.desired.mount(operation.pod, operation.volume) is None
            case Unmount():
                return self._wants(operation)
            case Attach() | Stage():
                return operation.volume not in self.desired.volumes
            case RemovePodDirectory():
                return bool(self.desired.names_for_pod(operation.pod) or self.desired.problems(operation.pod))
            case _:
                return False

    def _apply_directory(self, operation: PodOperation, outcome: Outcome) -> None:
        if isinstance(operation, MakePodDirectory):
            self._note_directory(operation.pod, outcome)
            return
        if outcome.succeeded:
            self.actual.directories.pop(operation.pod, None)
            self.forget(pod_key(operation.pod))
        else:
            self.actual.directories[operation.pod] = Presence.UNCERTAIN  # parts of it may be gone
        self.gates = replace(self.gates, pods_being_removed=self.gates.pods_being_removed - {operation.pod})
        for name in dict.fromkeys(self.desired.names_for_pod(operation.pod).values()):
            self.touch(name)

    def _note_directory(self, pod: PodUid, outcome: Outcome) -> None:
        """After an attempt that makes a pod's directory, it is or may be there."""
        if self.actual.directories.get(pod) is not Presence.PRESENT:
            self.actual.directories[pod] = Presence.PRESENT if outcome.succeeded else Presence.UNCERTAIN

    def _apply_volume(self, operation: VolumeOperation, outcome: Outcome, begun: _Begun) -> None:
        before = self.actual.volumes.get(operation.volume)
        spec = outcome.spec or (begun.mount.spec if begun.mount is not None else None)
        if before is None and spec is None and begun.volume is not None and begun.volume.mounts:
            spec = next(iter(begun.volume.mounts.values())).spec
        if before is not None or begun.volume is not None:  # else the wish went before it could even begin
            begun_from = replace(outcome, spec=spec, label=begun.volume.label if begun.volume is not None else None)
            self.actual.put(apply_outcome(begin(before, begun.volume, spec), operation, begun_from))
        pod = pod_of(operation)
        if pod is None:
            return
        under_way = self._in_flight[pod]
        inner_name = under_way.pop(operation) or (before.spec.name if before is not None else "")
        if not under_way:
            del self._in_flight[pod]
        if isinstance(operation, Mount):
            self._note_directory(pod, outcome)
        if self._is_moot(operation):
            self.actual.clear_failure(operation.volume, pod)
        self._touch_namesakes(operation.volume, pod, inner_name)
        if not self.desired.names_for_pod(pod):
            self.touch(pod_key(pod))
        self.pod_moved(pod)

    def _touch_namesakes(self, name: VolumeName, pod: PodUid, inner_name: str) -> None:
        """A volume that waited for its namesake is looked at again."""
        for other in self.desired.names_for_pod(pod).values():
            wish = self.desired.mount(pod, other)
            if other != name and wish is not None and wish.spec.name == inner_name:
                self.touch(other)

    def _finished(self, operation: Operation, outcome: Outcome, begun: _Begun) -> Finished:
        now = self._clock()
        held = None if isinstance(operation, PodOperation) else self.actual.volumes.get(operation.volume)
        source = begun.volume or held
        spec = begun.mount.spec if begun.mount is not None else (held.spec if held is not None else None)
        return Finished(
            operation=operation,
            outcome=outcome,
            at=now,
            seconds=now - begun.at,
            plugin=source.plugin if source is not None else None,
            inner_name=spec.name if spec is not None else "",
            pod=begun.mount.pod if begun.mount is not None else self._concerned(operation, begun.volume),
            refreshed=isinstance(operation, Mount) and operation.refresh,
            requested_at=begun.mount.requested_at if begun.mount is not None else None,
            claim=held.spec.claim if held is not None else "",
            driver=spec.csi_driver if spec is not None else "",
            migrated=spec is not None and spec.migrated,
        )

    def _concerned(self, operation: Operation, wanted: DesiredVolume | None) -> Pod | None:
        """The pod that an operation is about; of what is done for several, the first that wants it."""
        pod = pod_of(operation)
        if pod is not None:
            return self._pods.get(pod)
        return wanted.mounts[min(wanted.mounts)].pod if wanted is not None and wanted.mounts else None
