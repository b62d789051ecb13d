"""What an operation's end means for the actual state of the world."""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import msgspec
from msgspec.structs import replace

from mooring.world.actual import ActualMount, ActualVolume, Failure
from mooring.world.desired import DesiredVolume
from mooring.world.names import PodUid
from mooring.world.operations import (
    Attach,
    Detach,
    Expand,
    Mount,
    Stage,
    Unmount,
    Unstage,
    VolumeOperation,
    kind_of,
    pod_of,
)
from mooring.world.presence import Attachability, Presence, Result, after_setup, after_teardown
from mooring.world.spec import VolumeSpec


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is known after an operation, and what it found out."""

    result: Result
    what: str = ""
    why: str = ""
    next_step: str = ""
    path: str = ""  # where a mount or stage lies
    device_path: str = ""
    revision: int = -1  # of the wish that a mount satisfied
    spec: VolumeSpec | None = None  # that a set-up was done from, or begun from
    size: int = 0  # bytes that pods can use of it from now on; 0: nothing new is known
    stays_small: bool = False  # its driver does not let it grow while it is in use
    look_again_after: float | None = None  # seconds after which a mounted volume wants to be set up again
    label: str | None = None  # of SELinux, that a set-up mounts with; None: this machine has no SELinux

    @property
    def succeeded(self) -> bool:
        return self.result is Result.DONE


def begin(actual: ActualVolume | None, desired: DesiredVolume | None, spec: VolumeSpec | None) -> ActualVolume:
    """What is known of a volume before its first operation."""
    if actual is not None:
        return actual
    if desired is None or spec is None:
        raise RuntimeError("an operation ended on a volume that is neither wanted nor there")
    return ActualVolume(
        name=desired.name,
        plugin=desired.plugin,
        spec=spec,
        attachability=Attachability.TRUE if desired.attachable else Attachability.FALSE,
    )


def in_doubt_while_unmounting(actual: ActualVolume, pod: PodUid) -> ActualVolume:
    """What is known of a volume while it is taken away from a pod: the pod must not begin to use it again."""
    mount = actual.mounts.get(pod)
    if mount is None:
        return actual
    return replace(actual, mounts={**actual.mounts, pod: replace(mount, presence=Presence.UNCERTAIN)})


def in_doubt_after_loss(actual: ActualVolume, pod: PodUid | None) -> ActualVolume:
    """What is known of a volume once somebody else unmounted it from a pod, or its stage (None)."""
    return replace(actual, stage=Presence.UNCERTAIN) if pod is None else in_doubt_while_unmounting(actual, pod)


def told_of_attachment(actual: ActualVolume, device_path: str | None) -> ActualVolume:
    """What is known of a volume once others told whether they attached it (None: not). Only doubt is settled by it.

    Of one that they do not know, what is left on this node is taken away or used only after it was attached again.
    """
    if actual.attachability is not Attachability.UNCERTAIN:
        return actual
    if device_path is None:
        return replace(actual, attachability=Attachability.TRUE, attachment=Presence.ABSENT)
    return replace(
        actual,
        attachability=Attachability.TRUE,
        attachment=Presence.PRESENT,
        device_path=device_path or actual.device_path,
    )


def apply_outcome(actual: ActualVolume, operation: VolumeOperation, outcome: Outcome) -> ActualVolume:
    """What is known of a volume after an operation ended."""
    after = replace(actual, failures=_failures(actual, operation, outcome), spec=_spec(actual, operation, outcome))
    match operation:
        case Attach():
            found = actual.attachability is Attachability.UNCERTAIN
            presence = after_setup(actual.attachment, outcome.result, reconstructed=found)
            return replace(
                after,
                attachment=presence,
                attachability=Attachability.TRUE if outcome.succeeded else actual.attachability,
                device_path=outcome.device_path or actual.device_path,
            )
        case Stage():
            presence = after_setup(actual.stage, outcome.result, reconstructed=actual.stage_reconstructed)
            staged = replace(
                after,
                stage=presence,
                stage_path=outcome.path or actual.stage_path,
                stage_reconstructed=actual.stage_reconstructed and not outcome.succeeded,
            )
            return _labelled(staged, outcome)
        case Mount():
            mounted = replace(_sized(after, outcome), mounts=_after_mount(actual, operation.pod, outcome))
            return _labelled(mounted, outcome)
        case Expand():
            return _sized(after, outcome)
        case Unmount():
            return _unlabelled(replace(after, mounts=_after_unmount(actual, operation.pod, outcome)))
        case Unstage():
            presence = after_teardown(actual.stage, outcome.result)
            # The device path stays: a mount that follows at once still needs it.
            unstaged = replace(
                after, stage=presence, stage_path=actual.stage_path if presence is not Presence.ABSENT else ""
            )
            return _unlabelled(unstaged)
        case Detach():
            return replace(after, attachment=after_teardown(actual.attachment, outcome.result))
        case _:
            assert_never(operation)


def _labelled(actual: ActualVolume, outcome: Outcome) -> ActualVolume:
    """The volume with its SELinux label after a set-up: what is or may be mounted first decides."""
    if actual.label is None and outcome.label is not None and outcome.result in (Result.DONE, Result.UNKNOWN):
        return replace(actual, label=outcome.label)
    return _unlabelled(actual)


def _unlabelled(actual: ActualVolume) -> ActualVolume:
    """The volume without its SELinux label once nothing of it is or may be mounted."""
    return replace(actual, label=None) if actual.label is not None and actual.is_unmounted else actual


def _sized(actual: ActualVolume, outcome: Outcome) -> ActualVolume:
    return replace(actual, size=outcome.size or actual.size, stays_small=outcome.stays_small or actual.stays_small)


def _spec(actual: ActualVolume, operation: VolumeOperation, outcome: Outcome) -> VolumeSpec:
    """What was set up from a spec is that: the skeleton found on disk knows neither its claim nor its source."""
    is_setup = isinstance(operation, Attach | Stage | Mount)
    return outcome.spec if is_setup and outcome.succeeded and outcome.spec is not None else actual.spec


def _after_mount(actual: ActualVolume, pod: PodUid, outcome: Outcome) -> Mapping[PodUid, ActualMount]:
    before = actual.mounts.get(pod)
    reconstructed = before is not None and before.reconstructed
    presence = after_setup(
        before.presence if before is not None else Presence.ABSENT, outcome.result, reconstructed=reconstructed
    )
    if presence is Presence.ABSENT:
        return {uid: mount for uid, mount in actual.mounts.items() if uid != pod}
    if before is not None and not outcome.succeeded:
        return {**actual.mounts, pod: replace(before, presence=presence)}
    mount = ActualMount(
        pod=pod,
        presence=presence,
        spec=outcome.spec or actual.spec,
        path=outcome.path,
        revision=outcome.revision,
    )
    return {**actual.mounts, pod: mount}


def _after_unmount(actual: ActualVolume, pod: PodUid, outcome: Outcome) -> Mapping[PodUid, ActualMount]:
    before = actual.mounts.get(pod)
    if before is None:
        return actual.mounts
    presence = after_teardown(before.presence, outcome.result)
    if presence is Presence.ABSENT:
        return {uid: mount for uid, mount in actual.mounts.items() if uid != pod}
    return {**actual.mounts, pod: replace(before, presence=presence)}


def _failures(actual: ActualVolume, operation: VolumeOperation, outcome: Outcome) -> Mapping[PodUid | None, Failure]:
    part = pod_of(operation)
    if outcome.succeeded:
        if part not in actual.failures:
            return actual.failures
        return {key: failure for key, failure in actual.failures.items() if key != part}
    kind = kind_of(operation)
    before = actual.failures.get(part)
    attempts = before.attempts + 1 if before is not None and before.operation == kind else 1
    failure = Failure(
        operation=kind,
        what=outcome.what,
        why=outcome.why,
        next_step=outcome.next_step,
        attempts=attempts,
        waiting=outcome.result is Result.NOT_YET,
    )
    return {**actual.failures, part: failure}
