"""What to do next: a pure function from what is wanted and what is there to operations, and to reasons for waiting."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from mooring.world.actual import ActualMount, ActualVolume
from mooring.world.desired import DesiredMount, DesiredVolume
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import (
    Attach,
    Detach,
    Expand,
    MakePodDirectory,
    Mount,
    PodOperation,
    RemovePodDirectory,
    Stage,
    Unmount,
    Unstage,
    VolumeOperation,
)
from mooring.world.presence import Attachability, Presence


class Reason(enum.Enum):
    """Why something that is due is not done now."""

    SOURCES_NOT_HEARD = "not every source of pods has been heard since the start"
    WISH_UNKNOWN = "the pod is still known, and what it wants could not be worked out"
    CONTAINERS_LEFT = "containers of the pod have not ended"
    ATTACHMENT_UNKNOWN = "it was found on disk, and whether it is attached is not known yet"
    NOT_REPORTED_IN_USE = "the node's status does not list it as in use yet"
    NOT_ATTACHED = "the node's status does not list it as attached yet, which whoever attaches volumes writes there"
    PERHAPS_ELSEWHERE = (
        "only one node can have it, and no API server has answered since this start to say that another one was not"
        " given it while the machine was off"
    )
    USED_BY_ANOTHER_POD = "its access mode is ReadWriteOncePod, and another pod uses it"
    NAMESAKE_STILL_THERE = "a volume of this name and of another type, which the pod had before, is still there"
    KEPT_APART = "something of it was found on disk for a pod, and cannot be made sense of"
    OTHER_LABEL = "it is still mounted with another SELinux label, and is unmounted and mounted anew for this pod"
    DIRECTORY_BEING_REMOVED = "the directory of an earlier pod with this UID is still being removed"


class Wait(msgspec.Struct, frozen=True):
    """Something due that is held back, and why; `pod` is None when the whole volume waits."""

    pod: PodUid | None
    reason: Reason
    detail: str = ""


KeptApart = tuple[PluginName, str, PodUid]
"""Plugin, inner name and pod of something that was found on disk and could not be made sense of."""


class Gates(msgspec.Struct, frozen=True, kw_only=True):
    """What must be known about the node before something is taken away."""

    sources_heard: bool = True
    attachments_known: bool = True  # always, where no API server tells about attachments
    attaches_itself: bool = True  # else whoever attaches must first see the volume reported in use
    attached: Mapping[VolumeName, str] = msgspec.field(default_factory=dict)  # by others, with devices, as it is said
    attach_errors: Mapping[VolumeName, str] = msgspec.field(default_factory=dict)  # what others say who cannot
    status_heard: bool = True  # since the start; else that is what it said before
    begun_since_boot: frozenset[VolumeName] = frozenset()  # volumes that were here in this run of the machine
    pods_in_doubt: frozenset[PodUid] = frozenset()  # known and not terminated, wishes not all worked out
    pods_with_containers: Mapping[PodUid, str] = msgspec.field(default_factory=dict)  # and what is known of these
    pods_being_removed: frozenset[PodUid] = frozenset()
    kept_apart: frozenset[KeptApart] = frozenset()


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    operations: tuple[VolumeOperation, ...] = ()
    waits: tuple[Wait, ...] = ()


Step = VolumeOperation | Wait


def plan(
    desired: DesiredVolume | None,
    actual: ActualVolume | None,
    gates: Gates,
    *,
    namesakes: frozenset[PodUid] = frozenset(),
) -> Plan:
    """The next steps for one volume: surplus pod mounts first, then what is missing, then the device.

    `namesakes` are pods that still hold another volume of this one's inner name.
    Only the next step is planned. Its outcome changes `actual`, and planning runs again.
    """
    if desired is not None and actual is not None and has_other_label(desired, actual):
        return _planned(
            [_waits_for_label(desired, actual), *_surplus(None, actual, gates), *_leftover(None, actual, gates)]
        )
    return _planned(
        [
            *_surplus(desired, actual, gates),
            *_missing(desired, actual, gates, namesakes),
            *_too_small(desired, actual),
            *_leftover(desired, actual, gates),
        ]
    )


def _planned(steps: Sequence[Step]) -> Plan:
    if not steps:
        return _NOTHING
    return Plan(
        operations=tuple(step for step in steps if not isinstance(step, Wait)),
        waits=tuple(step for step in steps if isinstance(step, Wait)),
    )


_NOTHING = Plan()


def has_other_label(desired: DesiredVolume, actual: ActualVolume) -> bool:
    """Whether what is mounted of a volume has another SELinux label than is wanted: it is nothing that a pod wants."""
    return actual.label is not None and desired.label is not None and actual.label != desired.label


def wants(desired: DesiredVolume | None, actual: ActualVolume | None, pod: PodUid) -> bool:
    """Whether a pod wants a volume as it is mounted."""
    if desired is None or pod not in desired.mounts:
        return False
    return actual is None or not has_other_label(desired, actual)


def is_ready(desired: DesiredVolume | None, actual: ActualVolume | None, pod: PodUid) -> bool:
    """Whether a pod has a volume as it wants it; doubt is not yes."""
    return actual is not None and _is_present(actual.mounts.get(pod)) and wants(desired, actual, pod)


def _waits_for_label(desired: DesiredVolume, actual: ActualVolume) -> Wait:
    return Wait(None, Reason.OTHER_LABEL, f"{actual.label or 'none'}, and not {desired.label or 'none'}")


def _surplus(desired: DesiredVolume | None, actual: ActualVolume | None, gates: Gates) -> Iterator[Step]:
    """Pod mounts that nobody wants any more."""
    if actual is None:
        return
    wanted = desired.mounts if desired is not None else {}
    for pod in sorted(actual.mounts.keys() - wanted.keys()):
        held = _held(actual, gates, pod)
        if held is None and pod in gates.pods_with_containers:
            yield Wait(pod, Reason.CONTAINERS_LEFT, gates.pods_with_containers[pod])
        else:
            yield Wait(pod, held) if held is not None else Unmount(actual.name, pod)


def _held(actual: ActualVolume, gates: Gates, pod: PodUid | None) -> Reason | None:
    """Why nothing of this volume (for this pod) may be taken away now."""
    if not gates.sources_heard:
        return Reason.SOURCES_NOT_HEARD
    if actual.attachability is Attachability.UNCERTAIN and not gates.attachments_known:
        return Reason.ATTACHMENT_UNKNOWN
    if pod is not None and pod in gates.pods_in_doubt:
        return Reason.WISH_UNKNOWN
    return None


def _missing(
    desired: DesiredVolume | None, actual: ActualVolume | None, gates: Gates, namesakes: frozenset[PodUid]
) -> Iterator[Step]:
    """What wanted pods still lack. Attaching and staging come before any pod's mount."""
    if desired is None:
        return
    due = [pod for pod in sorted(desired.mounts) if _is_due(desired, actual, pod)]
    if not due and not (desired.stageable and _is_stage_in_doubt(actual)):
        return
    if desired.attachable and _may_be_elsewhere(desired, gates):
        yield Wait(None, Reason.PERHAPS_ELSEWHERE)
        return
    if desired.attachable and _needs_attaching(actual, gates):
        held = _cannot_attach(desired, gates)
        detail = gates.attach_errors.get(desired.name, "") if held is Reason.NOT_ATTACHED else ""
        yield Wait(None, held, detail) if held is not None else Attach(desired.name)
        return
    if desired.stageable and (actual is None or actual.stage is not Presence.PRESENT):
        yield Stage(desired.name)
        return
    for pod in due:
        held = Reason.NAMESAKE_STILL_THERE if pod in namesakes else _cannot_mount(desired, actual, gates, pod)
        refresh = actual is not None and _is_present(actual.mounts.get(pod))
        yield Wait(pod, held) if held is not None else Mount(desired.name, pod, refresh)


def _cannot_attach(desired: DesiredVolume, gates: Gates) -> Reason | None:
    """Whoever attaches withdraws its word before it looks who uses a volume, and this node says so before it looks."""
    if gates.attaches_itself:
        return None
    if not desired.reported_in_use:
        return Reason.NOT_REPORTED_IN_USE
    return Reason.NOT_ATTACHED if desired.name not in gates.attached else None


def _may_be_elsewhere(desired: DesiredVolume, gates: Gates) -> bool:
    """Whether a volume for one node may have been taken from this one while it could neither object nor hear of it.

    As long as the machine runs, what it has mounted is no news to whoever takes it by force; a machine that was off has
    nothing mounted, and must not begin to write beside another.
    """
    if gates.status_heard or desired.name in gates.begun_since_boot:
        return False
    return any(mount.spec.is_for_one_node for mount in desired.mounts.values())


def _is_stage_in_doubt(actual: ActualVolume | None) -> bool:
    """Whether the stage may be gone from under pods that have the volume: the next one must find it in place."""
    return actual is not None and actual.stage is Presence.UNCERTAIN


def _needs_attaching(actual: ActualVolume | None, gates: Gates) -> bool:
    """Whether the volume must be attached first; doubt is settled by attaching again.

    Only what was found on disk, and is attached by somebody else, is used as it is: its attachment is told later.
    """
    if actual is None or actual.attachment is Presence.ABSENT:
        return True
    if actual.attachability is Attachability.UNCERTAIN and not gates.attaches_itself:
        return False
    return actual.attachment is Presence.UNCERTAIN


def _is_due(desired: DesiredVolume, actual: ActualVolume | None, pod: PodUid) -> bool:
    mount = actual.mounts.get(pod) if actual is not None else None
    if mount is None or mount.presence is not Presence.PRESENT:
        return True
    wish = desired.mounts[pod]
    if mount.revision == wish.revision:
        return False
    return desired.refreshes or mount.spec.volume != wish.spec.volume  # else nothing that it shows has changed


def _is_present(mount: ActualMount | None) -> bool:
    return mount is not None and mount.presence is Presence.PRESENT


def _cannot_mount(desired: DesiredVolume, actual: ActualVolume | None, gates: Gates, pod: PodUid) -> Reason | None:
    if pod in gates.pods_being_removed:
        return Reason.DIRECTORY_BEING_REMOVED
    if _is_exclusive(desired.mounts[pod]):
        if _elsewhere(desired, actual, pod):
            return Reason.USED_BY_ANOTHER_POD
        if _kept_apart(desired.plugin, desired.mounts[pod].spec.name, gates) - {pod}:
            return Reason.KEPT_APART
    return None


def _kept_apart(plugin: PluginName, inner_name: str, gates: Gates) -> set[PodUid]:
    """Pods that may have a volume of this name, although nobody can tell."""
    return {pod for kept, name, pod in gates.kept_apart if (kept, name) == (plugin, inner_name)}


def _is_exclusive(mount: DesiredMount) -> bool:
    return mount.spec.is_exclusive


def _elsewhere(desired: DesiredVolume, actual: ActualVolume | None, pod: PodUid) -> bool:
    """Whether another pod has the volume, or comes first of those that want it."""
    if actual is not None and actual.mounts.keys() - {pod}:
        return True
    if actual is not None and pod in actual.mounts:
        return False
    return min(desired.mounts, key=lambda uid: (desired.mounts[uid].requested_at, uid)) != pod


def _too_small(desired: DesiredVolume | None, actual: ActualVolume | None) -> Iterator[Step]:
    """A volume that should be larger than its pods have it: grown through the first of them."""
    if desired is None or actual is None or not actual.size or actual.stays_small:
        return
    for pod in sorted(desired.mounts):
        if _is_present(actual.mounts.get(pod)) and desired.mounts[pod].growth.wanted > actual.size:
            yield Expand(desired.name, pod)
            return


def _leftover(desired: DesiredVolume | None, actual: ActualVolume | None, gates: Gates) -> Iterator[Step]:
    """The stage and the attachment of a volume that no pod wants or has."""
    if desired is not None or actual is None or actual.mounts or actual.is_vacant:
        return
    held = _held(actual, gates, None)
    if held is None and _kept_apart(actual.plugin, actual.spec.name, gates):
        held = Reason.KEPT_APART  # it may be what lies below that
    if held is not None:
        yield Wait(None, held)
    elif actual.stage is not Presence.ABSENT:
        yield Unstage(actual.name)
    else:
        yield Detach(actual.name)


def plan_pod(
    pod: PodUid,
    *,
    known: bool,
    has_wishes: bool,
    is_made_by_mounts: bool,
    directory: Presence,
    may_hold: bool,
    gates: Gates,
) -> tuple[PodOperation, ...]:
    """What to do about a pod's directory.

    It is removed when nobody knows the pod and nothing of it is or may be mounted. Mounts that are due at once make it
    by themselves; a known pod whose volumes wait, or that has none, gets it all the same, as a kubelet's pod does.
    """
    if known:
        return (MakePodDirectory(pod),) if directory is not Presence.PRESENT and not is_made_by_mounts else ()
    if may_hold or has_wishes or directory is Presence.ABSENT or not gates.sources_heard:
        return ()
    return (RemovePodDirectory(pod),)
