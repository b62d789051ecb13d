"""What can be done to a volume or a pod directory, as values."""

from __future__ import annotations

from typing import assert_never

import msgspec

from mooring.world.names import PodUid, VolumeName


class Attach(msgspec.Struct, frozen=True):
    volume: VolumeName


class Stage(msgspec.Struct, frozen=True):
    """Mount the device once for the node."""

    volume: VolumeName


class Mount(msgspec.Struct, frozen=True):
    """Set the volume up for one pod; `refresh` when it is there already and only its content is looked at again."""

    volume: VolumeName
    pod: PodUid
    refresh: bool = False


class Expand(msgspec.Struct, frozen=True):
    """Let a volume that a pod has mounted grow to the size that its claim should have."""

    volume: VolumeName
    pod: PodUid


class Unmount(msgspec.Struct, frozen=True):
    volume: VolumeName
    pod: PodUid


class Unstage(msgspec.Struct, frozen=True):
    volume: VolumeName


class Detach(msgspec.Struct, frozen=True):
    volume: VolumeName


class MakePodDirectory(msgspec.Struct, frozen=True):
    """Make the directory of a pod that has no volume whose mount would make it."""

    pod: PodUid


class RemovePodDirectory(msgspec.Struct, frozen=True):
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
