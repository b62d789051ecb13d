"""The actual state of the world: what this node is known or suspected to hold."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.presence import Attachability, Presence
from mooring.world.spec import VolumeSpec


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """The last failure of an operation that has not succeeded since."""

    operation: str
    what: str
    why: str
    next_step: str
    attempts: int
    waiting: bool  # something is missing, rather than broken


class ActualMount(msgspec.Struct, frozen=True, kw_only=True):
    """One pod's mount of a volume."""

    pod: PodUid
    presence: Presence
    spec: VolumeSpec
    path: str = ""
    revision: int = -1  # of the wish it was last set up for
    reconstructed: bool = False  # found on disk, and not set up by this process since


class ActualVolume(msgspec.Struct, frozen=True, kw_only=True):
    """What this node is known or suspected to hold of one volume."""

    name: VolumeName
    plugin: PluginName
    spec: VolumeSpec
    attachment: Presence = Presence.ABSENT
    attachability: Attachability = Attachability.FALSE
    device_path: str = ""
    stage: Presence = Presence.ABSENT
    stage_path: str = ""
    stage_reconstructed: bool = False
    size: int = 0  # bytes that pods can use, as far as its claim told when it was mounted; 0 is unknown
    stays_small: bool = False  # its driver said that it does not grow while it is in use
    label: str | None = None  # of SELinux, that all that is mounted of it has; None: not known, or nothing is mounted
    mounts: Mapping[PodUid, ActualMount] = msgspec.field(default_factory=dict)
    failures: Mapping[PodUid | None, Failure] = msgspec.field(default_factory=dict)

    @property
    def is_unmounted(self) -> bool:
        """Whether nothing of the volume is or may be mounted on this node."""
        return not self.mounts and self.stage is Presence.ABSENT

    @property
    def is_vacant(self) -> bool:
        """Whether nothing of the volume is or may be on this node."""
        return self.is_unmounted and self.attachment is Presence.ABSENT


def _ignore(_: VolumeName) -> None:
    return None


class ActualStateOfWorld:
    """All that is on this node, owned by the event loop. `changed` is called with each volume that changed."""

    def __init__(self, changed: Callable[[VolumeName], None] = _ignore) -> None:
        self.changed = changed
        self.volumes: dict[VolumeName, ActualVolume] = {}
        self.directories: dict[PodUid, Presence] = {}  # of pods
        self._by_pod: dict[PodUid, dict[VolumeName, None]] = {}

    def put(self, volume: ActualVolume) -> None:
        """Replace what is known of a volume."""
        before = self.volumes.get(volume.name)
        if before == volume:
            return
        self.volumes[volume.name] = volume
        self._reindex(volume.name, before.mounts if before is not None else {}, volume.mounts)
        self.changed(volume.name)

    def drop(self, name: VolumeName) -> None:
        """Forget a volume of which nothing is left. Anything else is a mistake that must not happen."""
        volume = self.volumes.get(name)
        if volume is None:
            return
        if not volume.is_vacant:
            raise RuntimeError(f"{name!r} cannot be forgotten: it is not known to be gone")
        del self.volumes[name]
        self.changed(name)

    def clear_failure(self, name: VolumeName, part: PodUid | None) -> None:
        """Drop the failure of what is no longer wanted."""
        volume = self.volumes.get(name)
        if volume is not None and part in volume.failures:
            rest = {key: failure for key, failure in volume.failures.items() if key != part}
            self.put(replace(volume, failures=rest))

    def _reindex(
        self, name: VolumeName, before: Mapping[PodUid, ActualMount], after: Mapping[PodUid, ActualMount]
    ) -> None:
        for pod in after.keys() - before.keys():
            self._by_pod.setdefault(pod, {})[name] = None
        for pod in before.keys() - after.keys():
            names = self._by_pod[pod]
            del names[name]
            if not names:
                del self._by_pod[pod]

    # -- looking -------------------------------------------------------------------------------------------------
    def mount(self, pod: PodUid, name: VolumeName) -> ActualMount | None:
        volume = self.volumes.get(name)
        return volume.mounts.get(pod) if volume is not None else None

    def mounts_of_pod(self, pod: PodUid) -> Iterator[tuple[VolumeName, ActualMount]]:
        """Every mount a pod has or may have."""
        for name in self._by_pod.get(pod, ()):
            yield name, self.volumes[name].mounts[pod]

    def names_of_pod(self, pod: PodUid) -> Collection[VolumeName]:
        """The volumes that a pod has or may have mounted."""
        return self._by_pod.get(pod, {}).keys()

    def is_mounted(self, pod: PodUid, name: VolumeName) -> bool:
        """Whether a pod can use a volume; doubt is not yes."""
        mount = self.mount(pod, name)
        return mount is not None and mount.presence is Presence.PRESENT

    def may_hold(self, pod: PodUid) -> bool:
        """Whether any mount of a pod is or may be there; doubt is yes."""
        return pod in self._by_pod

    def pods(self) -> set[PodUid]:
        return set(self._by_pod)

    def is_empty(self) -> bool:
        return not self.volumes and not self.directories and not self._by_pod
