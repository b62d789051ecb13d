"""The desired state of the world: which pods need which volumes, and why some could not be worked out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import msgspec
from msgspec.structs import replace

from mooring.kube.objects.pod import Pod
from mooring.world.growth import NO_GROWTH, Growth
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.spec import VolumeSpec


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """Why something could not be worked out, worded for a person."""

    what: str
    why: str
    next_step: str = ""
    leaves_doubt: bool = True  # the pod may want what it has; else it is known not to get this

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class DesiredMount(msgspec.Struct, frozen=True, kw_only=True):
    """One pod's use of a volume."""

    pod: Pod
    spec: VolumeSpec
    outer_names: tuple[str, ...]  # the names it has in the pod; the same claim may be used twice
    requested_at: float
    revision: int = 0  # grows whenever what the volume shows may have changed
    size_limit: int = 0  # bytes for local ephemeral volumes; 0 is none
    growth: Growth = NO_GROWTH


class DesiredVolume(msgspec.Struct, frozen=True, kw_only=True):
    """A volume that at least one pod on this node needs."""

    name: VolumeName
    plugin: PluginName
    attachable: bool = False
    stageable: bool = False  # mounted once per node, then bound into each pod
    refreshes: bool = False  # its content follows objects that change
    reported_in_use: bool = False
    label: str | None = None  # of SELinux, to mount it with; None: this machine has no SELinux
    original_label: str = ""  # that its first pod asked for, be it mounted with one or not
    mounts: Mapping[PodUid, DesiredMount] = msgspec.field(default_factory=dict)

    @property
    def is_shared(self) -> bool:
        """Whether pods share it, so that only one operation may work on it at a time."""
        return self.attachable or self.stageable


def _ignore(_: VolumeName) -> None:
    return None


class DesiredStateOfWorld:
    """All wishes of this node, owned by the event loop. `changed` is called with each volume whose wish changed."""

    def __init__(self, changed: Callable[[VolumeName], None] = _ignore) -> None:
        self.changed = changed
        self.volumes: dict[VolumeName, DesiredVolume] = {}
        self._names: dict[PodUid, dict[str, VolumeName]] = {}
        self._problems: dict[PodUid, dict[str, Problem]] = {}
        # A mount that outlasts its wish must not pass for one of the next wish, whatever that one has come to want.
        self._first_revision = 0

    # -- wishes --------------------------------------------------------------------------------------------------
    def add(self, volume: DesiredVolume, pod: PodUid, mount: DesiredMount) -> None:
        """Let a pod want a volume, or renew its wish.

        Flags of a volume that exists stay as they were first set, but for one: it may turn out to need no attaching,
        for a pod may be known before what tells of its driver.
        """
        before = self.volumes.get(volume.name)
        current = replace(volume, mounts={}) if before is None else before
        if current.attachable and not volume.attachable:
            current = replace(current, attachable=False)
        known = current.mounts.get(pod)
        if known is None:
            renewed = replace(mount, revision=max(mount.revision, self._first_revision))
        else:
            renewed = _renew(known, mount, refreshes=current.refreshes)
        if renewed != known or current is not before:
            self.volumes[volume.name] = replace(current, mounts={**current.mounts, pod: renewed})
            self.changed(volume.name)
        names = self._names.setdefault(pod, {})
        for outer in mount.outer_names:
            other = names.get(outer)
            names[outer] = volume.name
            if other is not None and other not in names.values():
                self.remove(pod, other)  # the name stands for another volume now

    def remove(self, pod: PodUid, name: VolumeName) -> None:
        """Drop a pod's wish for a volume; with its last pod the volume goes, with all its flags."""
        volume = self.volumes.get(name)
        if volume is None or pod not in volume.mounts:
            return
        self._first_revision = max(self._first_revision, volume.mounts[pod].revision + 1)
        rest = {uid: mount for uid, mount in volume.mounts.items() if uid != pod}
        if rest:
            self.volumes[name] = replace(volume, mounts=rest)
        else:
            del self.volumes[name]
        names = self._names.get(pod, {})
        for outer in [outer for outer, volume_name in names.items() if volume_name == name]:
            del names[outer]
        if not names:
            self._names.pop(pod, None)
        self.changed(name)

    def drop_name(self, pod: PodUid, outer: str) -> None:
        """Forget one of the names that a volume has in a pod; the volume stays wanted under the others."""
        name = self._names[pod].pop(outer)
        volume = self.volumes[name]
        mount = volume.mounts[pod]
        fewer = replace(mount, outer_names=tuple(each for each in mount.outer_names if each != outer))
        self.volumes[name] = replace(volume, mounts={**volume.mounts, pod: fewer})

    def refresh(self, pod: PodUid, name: VolumeName) -> None:
        """Ask for the content of a mounted volume to be looked at again."""
        volume = self.volumes.get(name)
        if volume is None or pod not in volume.mounts:
            return
        mount = volume.mounts[pod]
        renewed = replace(mount, revision=mount.revision + 1)
        self.volumes[name] = replace(volume, mounts={**volume.mounts, pod: renewed})
        self.changed(name)

    def mark_reported_in_use(self, names: Iterable[VolumeName]) -> None:
        """Say which volumes the API server has acknowledged as in use: a full replacement, unknown names ignored."""
        listed = set(names)
        for name, volume in list(self.volumes.items()):
            reported = name in listed
            if volume.reported_in_use != reported:
                self.volumes[name] = replace(volume, reported_in_use=reported)
                self.changed(name)

    # -- problems ------------------------------------------------------------------------------------------------
    def set_problem(self, pod: PodUid, outer: str, problem: Problem) -> None:
        """Remember why one volume of a pod could not be worked out; it stays until that is over."""
        self._problems.setdefault(pod, {})[outer] = problem

    def clear_problem(self, pod: PodUid, outer: str) -> None:
        problems = self._problems.get(pod)
        if problems is not None:
            problems.pop(outer, None)
            if not problems:
                del self._problems[pod]

    def problems(self, pod: PodUid) -> Mapping[str, Problem]:
        return self._problems.get(pod, {})

    def is_in_doubt(self, pod: PodUid) -> bool:
        """Whether a pod may want something that could not be worked out."""
        return any(problem.leaves_doubt for problem in self.problems(pod).values())

    def forget_pod(self, pod: PodUid) -> None:
        """Drop every wish and problem of a pod."""
        for name in dict.fromkeys(self._names.get(pod, {}).values()):
            self.remove(pod, name)
        self._problems.pop(pod, None)

    # -- looking -------------------------------------------------------------------------------------------------
    def names_for_pod(self, pod: PodUid) -> Mapping[str, VolumeName]:
        """Outer name → unique volume name, for one pod."""
        return self._names.get(pod, {})

    def mount(self, pod: PodUid, name: VolumeName) -> DesiredMount | None:
        volume = self.volumes.get(name)
        return volume.mounts.get(pod) if volume is not None else None

    def pods(self) -> set[PodUid]:
        return set(self._names)

    def is_empty(self) -> bool:
        return not self.volumes and not self._names and not self._problems


def _renew(known: DesiredMount, new: DesiredMount, *, refreshes: bool) -> DesiredMount:
    """The wish a pod has after asking again: newer pod and spec.

    It is looked at again if the volume itself was written anew in the pod, or if anything changed that it may show.
    """
    outer_names = known.outer_names + tuple(name for name in new.outer_names if name not in known.outer_names)
    rewritten = known.spec.volume != new.spec.volume
    same = known.pod == new.pod and known.spec == new.spec
    if same or not (refreshes or rewritten):
        return replace(new, outer_names=outer_names, requested_at=known.requested_at, revision=known.revision)
    return replace(new, outer_names=outer_names, revision=known.revision + 1)
