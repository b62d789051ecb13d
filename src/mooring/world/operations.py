"""What can be done to a volume or a pod directory, as values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from mooring.world.names import PodUid, VolumeName


@dataclass(frozen=True, slots=True)
class Attach:
    volume: VolumeName


@dataclass(frozen=True, slots=True)
class Stage:
    """Mount the device once for the node."""

    volume: VolumeName


@dataclass(frozen=True, slots=True)
class Mount:
    """Set the volume up for one pod; `refresh` when it is there already and only its content is looked at again."""

    volume: VolumeName
    pod: PodUid
    refresh: bool = False


@dataclass(frozen=True, slots=True)
class Expand:
    """Let a volume that a pod has mounted grow to the size that its claim should have."""

    volume: VolumeName
    pod: PodUid


@dataclass(frozen=True, slots=True)
class Unmount:
    volume: VolumeName
    pod: PodUid


@dataclass(frozen=True, slots=True)
class Unstage:
    volume: VolumeName


@dataclass(frozen=True, slots=True)
class Detach:
    volume: VolumeName


@dataclass(frozen=True, slots=True)
class MakePodDirectory:
    """Make the directory of a pod that has no volume whose mount would make it."""

    pod: PodUid


@dataclass(frozen=True, slots=True)
class RemovePodDirectory:
    """Take away what is left of a pod that nobody knows any more."""

    pod: PodUid


VolumeOperation = Attach | Stage | Mount | Expand | Unmount | Unstage | Detach
PodOperation = MakePodDirectory | RemovePodDirectory
Operation = VolumeOperation | PodOperation


def pod_of(operation: Operation) -> PodUid | None:
    """The pod an operation works for, if it is one alone."""
    match operation:
        case Mount() | Expand() | Unmount() | MakePodDirectory() | RemovePodDirectory():
            return operation.pod
        case Attach() | Stage() | Unstage() | Detach():
            return None
        case _:
            assert_never(operation)


MOUNT_KIND = "volume_mount"


def kind_of(operation: Operation) -> str:
    """The kubelet's name of an operation, as metrics and pauses use it."""
    match operation:
        case Attach():
            return "volume_attach"
        case Stage():
            return "mount_device"
        case Mount():
            return MOUNT_KIND
        case Expand():
            return "volume_fs_resize"
        case Unmount():
            return "volume_unmount"
        case Unstage():
            return "unmount_device"
        case Detach():
            return "volume_detach"
        case MakePodDirectory():
            return "make_pod_directory"
        case RemovePodDirectory():
            return "remove_pod_directory"
        case _:
            assert_never(operation)
