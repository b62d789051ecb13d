"""The drivers that simulated nodes have, the disks behind them, and the claims that pods reach these by."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.kube.objects.meta import ObjectMeta, ObjectReference
from mooring.kube.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
)
from mooring.kube.objects.volumes import FlexVolumeSource
from mooring.world.names import PluginName

NAMESPACE = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """What a driver does: every combination of attaching and staging, for directories, raw devices and pods' own."""

    attaches: bool = False
    stages: bool = False
    forgetful: bool = False  # the name of a directory tells it nothing: only a record knows the volume
    leaves: bool = False  # when it goes its plugin goes with it, as a FlexVolume driver's does

    @property
    def is_shared(self) -> bool:
        """Whether pods share its volumes: they are attached or staged once for the node."""
        return self.attaches or self.stages


FULL, ATTACHING, STAGING, PLAIN = (
    PluginName(f"simulated/{name}") for name in ("full", "attaching", "staging", "plain")
)
DRIVERS: dict[PluginName, Abilities] = {
    FULL: Abilities(attaches=True, stages=True, forgetful=True),
    ATTACHING: Abilities(attaches=True, leaves=True),
    STAGING: Abilities(stages=True),
    PLAIN: Abilities(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Disk:
    """A disk of a driver; its name is also that of its PersistentVolume and of its claim."""

    name: str
    driver: PluginName
    block: bool = False  # volumeMode Block
    exclusive: bool = False  # ReadWriteOncePod


DISKS: dict[str, Disk] = {
    disk.name: disk
    for disk in (
        Disk(name="full", driver=FULL),
        Disk(name="full-block", driver=FULL, block=True),
        Disk(name="full-once", driver=FULL, exclusive=True),
        Disk(name="attached", driver=ATTACHING),
        Disk(name="attached-block", driver=ATTACHING, block=True, exclusive=True),
        Disk(name="staged", driver=STAGING),
        Disk(name="staged-once", driver=STAGING, exclusive=True),
        Disk(name="staged-block", driver=STAGING, block=True),
        Disk(name="plain", driver=PLAIN),
        Disk(name="plain-block", driver=PLAIN, block=True),
    )
}


def unique_name(driver: PluginName, inner_name: str, uid: str) -> str:
    """The unique name of a driver's volume for a pod."""
    return f"{driver}/{inner_name}" if DRIVERS[driver].is_shared else f"{driver}/{uid}-{inner_name}"


def make_persistent_volume(disk: Disk, generation: int, size: int) -> PersistentVolume:
    """The disk as an object, bound to its claim of that generation."""
    return PersistentVolume(
        metadata=ObjectMeta(name=disk.name),
        spec=PersistentVolumeSpec(
            capacity={"storage": f"{size}Gi"},
            access_modes=("ReadWriteOncePod" if disk.exclusive else "ReadWriteMany",),
            volume_mode="Block" if disk.block else "Filesystem",
            claim_ref=ObjectReference(namespace=NAMESPACE, name=disk.name, uid=_claim_uid(disk, generation)),
            flex_volume=FlexVolumeSource(driver=disk.driver),
        ),
    )


def make_claim(disk: Disk, generation: int) -> PersistentVolumeClaim:
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=disk.name, namespace=NAMESPACE, uid=_claim_uid(disk, generation)),
        spec=PersistentVolumeClaimSpec(volume_name=disk.name),
        status=PersistentVolumeClaimStatus(phase="Bound"),
    )


def skeleton(driver: PluginName, name: str, *, block: bool) -> PersistentVolume:
    """What a directory's name alone tells of a disk."""
    mode = "Block" if block else "Filesystem"
    return PersistentVolume(
        metadata=ObjectMeta(name=name),
        spec=PersistentVolumeSpec(volume_mode=mode, flex_volume=FlexVolumeSource(driver=driver)),
    )


def _claim_uid(disk: Disk, generation: int) -> str:
    return f"claim-{disk.name}-{generation}"
