"""What the manager tells about its work: values that metrics, events and history are made from."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from mooring.kube.objects.pod import Pod
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.operations import Operation
from mooring.world.outcomes import Outcome
from mooring.world.progress import Progress
from mooring.world.selinux import Decision
from mooring.world.spec import VolumeSpec


class Started(msgspec.Struct, frozen=True, kw_only=True):
    """An operation began."""

    operation: Operation
    at: float


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """An operation ended; the actual state of the world shows it already."""

    operation: Operation
    outcome: Outcome
    at: float
    seconds: float
    plugin: PluginName | None = None
    inner_name: str = ""
    pod: Pod | None = None  # where the pod is known
    refreshed: bool = False
    requested_at: float | None = None  # when the pod first asked for the volume
    claim: str = ""  # `namespace/name` of the claim behind it, if there is one
    driver: str = ""  # the CSI driver that serves it, if one does
    migrated: bool = False


class Reconstructed(msgspec.Struct, frozen=True, kw_only=True):
    """A volume was found on disk after a start."""

    pod: PodUid
    plugin: PluginName
    inner_name: str
    volume: VolumeName | None  # None when it could not be made sense of
    why: str = ""


class ProblemArose(msgspec.Struct, frozen=True, kw_only=True):
    """A volume of a pod could not be worked out."""

    pod: Pod
    volume: str
    why: str


class Noticed(msgspec.Struct, frozen=True, kw_only=True):
    """Something a person should know of a pod's volume although no operation failed."""

    pod: Pod
    volume: str  # its name in the pod
    reason: str  # one word, as an Event has it
    message: str
    warning: bool = True


class ForceCleaned(msgspec.Struct, frozen=True, kw_only=True):
    """The removal of what could not be made sense of was tried."""

    path: str
    why: str = ""  # it was left; empty when it is gone


class Owned(msgspec.Struct, frozen=True, kw_only=True):
    """A walk over a volume's files for a pod's group has ended; not `complete` when it failed or was stopped."""

    pod: Pod
    volume: str  # its inner name
    plugin: PluginName
    progress: Progress
    complete: bool


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """The rules for SELinux labels had something to say of a pod's use of a volume."""

    decision: Decision
    plugin: PluginName
    spec: VolumeSpec


Change = Started | Finished | Reconstructed | ProblemArose | Noticed | ForceCleaned | Owned | Labelled
Listener = Callable[[Change], None]
