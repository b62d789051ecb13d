"""What the world outside the manager holds: pods and objects as their sources tell them, and what containers wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from mooring.testing.simulation.oracle import Expected, expected_content, is_content, plugin_of, volume_name
from mooring.testing.simulation.wishes import DiskWish, EmptyDirWish, InlineWish, PodWish, VolumeWish

Place = tuple[str, str]
"""Pod UID and the name of a volume in it."""


@dataclass(slots=True)
class Obstacle:
    """Something of somebody else that keeps a volume from being taken away."""

    uid: str
    path: str
    mounted: bool  # else just held open


@dataclass(slots=True)
class WorldModel:
    """The truth that a history is judged by. Nothing in it comes from the manager."""

    pods: dict[str, PodWish] = field(default_factory=dict)
    objects: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)
    user_files: dict[Place, dict[str, str]] = field(default_factory=dict)
    versions: dict[str, list[Expected]] = field(default_factory=dict)  # by unique volume name, all there ever were
    obstacles: list[Obstacle] = field(default_factory=list)
    claims: dict[str, int] = field(default_factory=dict)  # by disk, the generation of its claim
    volumes_of: dict[str, int] = field(default_factory=dict)  # and that which its PersistentVolume is bound to
    disk_files: dict[str, dict[str, str]] = field(default_factory=dict)  # what containers wrote onto disks
    containers: dict[str, PodWish] = field(default_factory=dict)  # by UID, as the pod was when they started
    clock_offset: float = 0.0  # seconds by which the machine's clock was set
    traceless: set[str] = field(default_factory=set)  # disks of which a record was damaged, so that they may be lost

    # -- pods ----------------------------------------------------------------------------------------------------
    def put_pod(self, pod: PodWish) -> None:
        """A pod as its source now tells it. What it had before and has no more is not continuously wanted."""
        before = self.pods.get(pod.name)
        if before is not None:
            for volume in before.volumes:
                now = pod.volume(volume.name) if before.uid == pod.uid else None
                if now is None or not _is_same_volume(volume, now):
                    self._forget(before.uid, volume.name)
        self.pods[pod.name] = pod
        self.note_versions()

    def remove_pod(self, name: str) -> PodWish | None:
        pod = self.pods.pop(name, None)
        if pod is not None:
            for volume in pod.volumes:
                self._forget(pod.uid, volume.name)
        return pod

    def _forget(self, uid: str, volume: str) -> None:
        self.user_files.pop((uid, volume), None)

    def find(self, pod: str, volume: str) -> tuple[PodWish, VolumeWish] | None:
        found = self.pods.get(pod)
        wish = found.volume(volume) if found is not None else None
        return (found, wish) if found is not None and wish is not None else None

    def by_uid(self, uid: str) -> PodWish | None:
        return next((pod for pod in self.pods.values() if pod.uid == uid), None)

    def volumes(self) -> Iterator[tuple[PodWish, VolumeWish]]:
        for pod in self.pods.values():
            for volume in pod.volumes:
                yield pod, volume

    # -- claims --------------------------------------------------------------------------------------------------
    def missing_of(self, volume: VolumeWish) -> tuple[str, ...]:
        """The name of what keeps a disk from being worked out: its claim, or the PersistentVolume behind that."""
        if not isinstance(volume, DiskWish):
            return ()
        generation = self.claims.get(volume.disk)
        bound = generation is not None and self.volumes_of.get(volume.disk) == generation
        return () if bound else (volume.disk,)

    def is_in_doubt(self, pod: PodWish) -> bool:
        """Whether not all that a pod wants can be worked out: then nothing of it is taken away."""
        return any(self.missing_of(volume) for volume in pod.volumes)

    def may_keep(self, uid: str) -> bool:
        """Whether nothing of a pod is taken away, wanted or not: its containers run, or its wishes are not known."""
        pod = self.by_uid(uid)
        return uid in self.containers or (pod is not None and self.is_in_doubt(pod))

    def is_in_use(self, uid: str, name: str) -> bool:
        """Whether containers of a pod use the volume of this unique name."""
        pod = self.containers.get(uid)
        return pod is not None and any(volume_name(uid, volume) == name for volume in pod.volumes)

    def holders(self, disk: str) -> set[str]:
        """UIDs of pods that may have a disk rightly: they want it, use it, or want something that is not known."""
        wanting = {pod.uid for pod, volume in self.volumes() if isinstance(volume, DiskWish) and volume.disk == disk}
        return wanting | {pod.uid for pod in self.pods.values() if self.is_in_doubt(pod)} | set(self.containers)

    def wants(self, uid: str, name: str) -> bool:
        """Whether a source tells of a pod that has the volume of this unique name."""
        pod = self.by_uid(uid)
        return pod is not None and any(volume_name(uid, volume) == name for volume in pod.volumes)

    # -- content -------------------------------------------------------------------------------------------------
    def note_versions(self) -> None:
        """Remember what each content volume is to show from now on, if that is something new."""
        for pod, volume in self.volumes():
            if not is_content(volume):
                continue
            expected = expected_content(pod, volume, self.objects)
            known = self.versions.setdefault(volume_name(pod.uid, volume), [])
            if not expected.missing and (not known or known[-1] != expected):
                known.append(expected)

    def lose_memory(self) -> None:
        """After a reboot: what containers wrote into memory is gone, and so is whatever stood in the way."""
        for pod, volume in self.volumes():
            if isinstance(volume, InlineWish) or (isinstance(volume, EmptyDirWish) and volume.memory):
                self.user_files.pop((pod.uid, volume.name), None)
        self.obstacles.clear()
        self.containers.clear()

    def is_obstructed(self, uid: str) -> bool:
        return any(obstacle.uid == uid for obstacle in self.obstacles)


def _is_same_volume(before: VolumeWish, now: VolumeWish) -> bool:
    if isinstance(before, EmptyDirWish) and isinstance(now, EmptyDirWish):
        return before.memory == now.memory
    if isinstance(before, DiskWish) and isinstance(now, DiskWish):
        return before.disk == now.disk
    return plugin_of(before) == plugin_of(now)
