"""Why a pod's volumes are not ready, in one sentence each."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from mooring.world.actual import ActualMount, ActualVolume, Failure
from mooring.world.desired import DesiredVolume, Problem
from mooring.world.names import PodUid, VolumeName
from mooring.world.planner import Gates, Plan, Wait, is_ready, plan
from mooring.world.presence import Presence
from mooring.world.progress import Progress


class VolumeState(enum.Enum):
    """What a person sees of one volume of one pod."""

    WAITING = "waiting"
    ATTACHING = "attaching"
    STAGING = "staging"
    MOUNTING = "mounting"
    MOUNTED = "mounted"
    UNMOUNTING = "unmounting"
    UNCERTAIN = "uncertain"
    FAILED = "failed"


_RUNNING_STATES = {
    "volume_attach": VolumeState.ATTACHING,
    "mount_device": VolumeState.STAGING,
    "volume_mount": VolumeState.MOUNTING,
    "volume_fs_resize": VolumeState.MOUNTING,
    "volume_unmount": VolumeState.UNMOUNTING,
    "unmount_device": VolumeState.UNMOUNTING,
    "volume_detach": VolumeState.UNMOUNTING,
}

RunningKinds = Mapping[str | None, str]
"""Kinds of operations under way on one volume, by pod (None: the whole volume)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldUp:
    """What a running operation has been waiting for."""

    cause: str
    next_step: str = ""


class VolumeReport(msgspec.Struct, frozen=True, kw_only=True):
    """One volume of one pod: its state, and if it is not mounted, why and what to do."""

    volume: str  # its name in the pod
    name: VolumeName | None
    state: VolumeState
    cause: str | None = None
    next_step: str | None = None
    attempts: int = 0
    progress: Progress | None = None  # of a walk over its files


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pod is ready or not. `cause` is None exactly when it is ready."""

    ready: bool
    cause: str | None
    volumes: tuple[VolumeReport, ...]


def report_volume(
    pod: PodUid,
    outer: str,
    desired: DesiredVolume | None,
    actual: ActualVolume | None,
    gates: Gates,
    running: RunningKinds,
    *,
    namesakes: frozenset[PodUid] = frozenset(),
    held_up: HoldUp | None = None,
    progress: Progress | None = None,
) -> VolumeReport:
    """What is to be said of one volume of one pod; `namesakes` are pods that still hold another one of its name.

    `held_up` tells what the operation under way waits for, if that is known, and `progress` how far it is.
    """
    if (mounted := report_mounted(pod, outer, desired, actual)) is not None:
        return mounted
    subject = desired or actual
    assert subject is not None
    name = subject.name
    mount = actual.mounts.get(pod) if actual is not None else None
    failure = _failure(actual, pod)
    attempts = _attempts(failure, mount)
    wanted = desired is not None and pod in desired.mounts
    under_way = running.get(pod) or running.get(None)
    if under_way is not None and progress is not None:
        state, cause = _RUNNING_STATES[under_way], str(progress)
        return VolumeReport(
            volume=outer, name=name, state=state, cause=cause, attempts=max(1, attempts), progress=progress
        )
    cause, next_step = _cause(pod, plan(desired, actual, gates, namesakes=namesakes), failure, wanted=wanted)
    if under_way is not None and held_up is not None:
        cause, next_step = held_up.cause, held_up.next_step
    state = _state(under_way, failure, mount is not None and mount.presence is Presence.UNCERTAIN, wanted=wanted)
    return VolumeReport(
        volume=outer, name=name, state=state, cause=cause, next_step=next_step or None, attempts=attempts
    )


def report_mounted(
    pod: PodUid, outer: str, desired: DesiredVolume | None, actual: ActualVolume | None
) -> VolumeReport | None:
    """What is to be said of a volume that a pod can use; None when it cannot, and more must be known to say why."""
    if desired is None or actual is None or not is_ready(desired, actual, pod):
        return None
    attempts = _attempts(_failure(actual, pod), actual.mounts.get(pod))
    return VolumeReport(volume=outer, name=actual.name, state=VolumeState.MOUNTED, attempts=attempts)


def _attempts(failure: Failure | None, mount: ActualMount | None) -> int:
    return failure.attempts if failure is not None else (1 if mount is not None else 0)


def _failure(actual: ActualVolume | None, pod: PodUid) -> Failure | None:
    if actual is None:
        return None
    return actual.failures.get(pod) or actual.failures.get(None)


def _state(under_way: str | None, failure: Failure | None, uncertain: bool, *, wanted: bool) -> VolumeState:
    if failure is not None and failure.waiting:
        return VolumeState.WAITING
    if under_way is not None and failure is None:
        return _RUNNING_STATES[under_way]
    if uncertain:
        return VolumeState.UNCERTAIN
    if failure is not None:
        return VolumeState.FAILED
    return VolumeState.WAITING if wanted else VolumeState.UNMOUNTING


def _cause(pod: PodUid, planned: Plan, failure: Failure | None, *, wanted: bool) -> tuple[str, str]:
    """The sentence that names the true cause: a failure, a reason for waiting, or just work to be done."""
    if failure is not None:
        return f"{failure.what}: {failure.why}", failure.next_step
    for wait in planned.waits:
        if wait.pod in (pod, None):
            return describe_wait(wait), ""
    return ("it is about to be mounted" if wanted else "it is about to be unmounted"), ""


def describe_wait(wait: Wait) -> str:
    """A reason for waiting as a sentence part."""
    return f"it waits: {wait.reason.value}" + (f" ({wait.detail})" if wait.detail else "")


def report_problem(outer: str, problem: Problem) -> VolumeReport:
    """What is to be said of a volume that could not be worked out at all."""
    return VolumeReport(
        volume=outer,
        name=None,
        state=VolumeState.WAITING,
        cause=str(problem),
        next_step=problem.next_step or None,
    )


def explain(reports: tuple[VolumeReport, ...]) -> Explanation:
    """The verdict over a pod's volumes: ready, or the cause of the first one that is not."""
    waiting = [report for report in reports if report.state is not VolumeState.MOUNTED]
    if not waiting:
        return Explanation(ready=True, cause=None, volumes=reports)
    worst = min(waiting, key=lambda report: (_URGENCY[report.state], report.volume))
    return Explanation(ready=False, cause=f"volume {worst.volume!r} is not ready: {worst.cause}", volumes=reports)


_URGENCY = {
    VolumeState.FAILED: 0,
    VolumeState.UNCERTAIN: 1,
    VolumeState.WAITING: 2,
    VolumeState.ATTACHING: 3,
    VolumeState.STAGING: 3,
    VolumeState.MOUNTING: 3,
    VolumeState.UNMOUNTING: 3,
    VolumeState.MOUNTED: 4,
}
