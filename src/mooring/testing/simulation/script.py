"""The steps of a history as values. A script is all there is to a run: the same script is the same history.

Steps that make no sense any more (a pod that is not there, a volume it does not have) do nothing, so every part of a
script is a script: that is what makes shrinking simple.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from mooring.testing.simulation.wishes import PodWish, VolumeWish


class Step(msgspec.Struct, frozen=True, kw_only=True, tag_field="step", omit_defaults=True):
    """Something that happens to the node."""


# -- pods and objects ------------------------------------------------------------------------------------------------
class PutPod(Step, frozen=True, kw_only=True, tag="put pod"):
    """A source tells of a new pod, or of another spec of one it told of before."""

    pod: PodWish


class RelabelPod(Step, frozen=True, kw_only=True, tag="relabel pod"):
    pod: str
    label: str


class PutVolume(Step, frozen=True, kw_only=True, tag="put volume"):
    """A pod gains a volume, or one of its volumes becomes another under the same name."""

    pod: str
    volume: VolumeWish


class DropVolume(Step, frozen=True, kw_only=True, tag="drop volume"):
    pod: str
    volume: str


class RemovePod(Step, frozen=True, kw_only=True, tag="remove pod"):
    pod: str


class PutObject(Step, frozen=True, kw_only=True, tag="put object"):
    kind: Literal["ConfigMap", "Secret"]
    name: str
    data: Mapping[str, str]


class DeleteObject(Step, frozen=True, kw_only=True, tag="delete object"):
    kind: Literal["ConfigMap", "Secret"]
    name: str


class PutClaim(Step, frozen=True, kw_only=True, tag="put claim"):
    """A disk and its claim appear, bound to each other; with another generation it is another claim."""

    disk: str
    generation: int = 0
    size: int = 1


class DeleteClaim(Step, frozen=True, kw_only=True, tag="delete claim"):
    disk: str


class DeleteDisk(Step, frozen=True, kw_only=True, tag="delete disk"):
    """The PersistentVolume of a disk is deleted; the disk itself and its claim stay."""

    disk: str


# -- time ------------------------------------------------------------------------------------------------------------
class Turn(Step, frozen=True, kw_only=True, tag="turn"):
    """Let everything that is ready take so many turns on the event loop; no time passes."""

    turns: int = 1


class Pass(Step, frozen=True, kw_only=True, tag="pass"):
    seconds: float


class WaitForPod(Step, frozen=True, kw_only=True, tag="wait for pod"):
    pod: str
    timeout: float


class Settle(Step, frozen=True, kw_only=True, tag="settle"):
    """All faults end and enough time passes: then everything that can be right must be right."""


# -- what containers and people do -----------------------------------------------------------------------------------
class WriteFile(Step, frozen=True, kw_only=True, tag="write file"):
    """A container writes into an emptyDir that is reported mounted."""

    pod: str
    volume: str
    file: str
    text: str


class MountForeign(Step, frozen=True, kw_only=True, tag="mount foreign"):
    """Somebody mounts something of his own inside an emptyDir."""

    pod: str
    volume: str


class Resize(Step, frozen=True, kw_only=True, tag="resize"):
    """A volume of a driver that is written in the pod is to have another size, once it is mounted."""

    pod: str
    volume: str
    size: int


class UnmountByHand(Step, frozen=True, kw_only=True, tag="unmount by hand"):
    """Somebody unmounts a volume in memory, or one of a driver, under the pod that has it."""

    pod: str
    volume: str


class HoldOpen(Step, frozen=True, kw_only=True, tag="hold open"):
    """A process keeps a file in a volume in memory open, so that it cannot be unmounted."""

    pod: str
    volume: str


class LetGo(Step, frozen=True, kw_only=True, tag="let go"):
    """Foreign mounts are taken away and open files are closed."""


class MakePath(Step, frozen=True, kw_only=True, tag="make path"):
    """A directory of the machine that hostPath volumes name comes into being."""

    path: str


class RunContainers(Step, frozen=True, kw_only=True, tag="run containers"):
    """Containers of a pod start, if all its volumes are mounted. They outlive the pod's removal and managers."""

    pod: str


class EndContainers(Step, frozen=True, kw_only=True, tag="end containers"):
    """All containers of pods of this name end."""

    pod: str


class JumpClock(Step, frozen=True, kw_only=True, tag="jump clock"):
    """Somebody sets the machine's clock."""

    seconds: float


class LimitDisk(Step, frozen=True, kw_only=True, tag="limit disk"):
    """The disk holds just so many pages of files; None is as many as ever."""

    pages: int | None = None


# -- the end of a manager, and the next ------------------------------------------------------------------------------
class Ending(Step, frozen=True, kw_only=True):
    """A manager ends and another starts. While none runs, the pods of `lost` go away."""

    lost: tuple[str, ...] = ()
    told_after: float = 0.0  # seconds until the new manager is told of the pods
    heard_after: float = 0.0  # seconds from then until all sources count as heard


class Restart(Ending, frozen=True, kw_only=True, tag="restart"):
    """The manager is stopped in order."""


class Crash(Ending, frozen=True, kw_only=True, tag="crash"):
    """The manager is killed at a call that changes the machine or asks a driver: after so many more of them.

    If no such call comes before the next crash, restart, reboot or calm, it is killed then, wherever it is.
    """

    skip: int = 0
    when: Literal["before", "during", "after"] = "before"


class Reboot(Ending, frozen=True, kw_only=True, tag="reboot"):
    """The machine loses power: the manager, all mounts and what was in memory are gone."""


class DamageRecord(Step, frozen=True, kw_only=True, tag="damage record"):
    """While the next time no manager runs, an intent record is damaged, or one that was removed comes back."""

    how: Literal["cut", "empty", "garbled", "returned"]
    which: int = 0


class BreakReads(Step, frozen=True, kw_only=True, tag="break reads"):
    """The next manager that starts cannot read some of what is on disk: so many reads fail after so many others."""

    skip: int = 0
    reads: int = 1


# -- faults ----------------------------------------------------------------------------------------------------------
class Strike(Step, frozen=True, kw_only=True, tag="strike"):
    """A fault hits a batch of host calls: after so many more of them."""

    fault: Literal["refuse", "busy", "silent", "lost", "late", "hang", "slow", "full", "broken"]
    skip: int = 0
    seconds: float = 0.0  # how late a late or slow call is
    call: int = 0  # which call of the batch a full disk or a broken one hits


class DriverStrike(Step, frozen=True, kw_only=True, tag="driver strike"):
    """A driver answers a request in its own way: after so many more of them, of one kind if `verb` is given."""

    answer: Literal["refuse", "not yet", "slow", "done", "undone", "late", "hang", "die"]
    verb: Literal["", "attach", "stage", "publish", "unpublish", "unstage", "detach", "expand"] = ""
    skip: int = 0
    seconds: float = 0.0  # how slow or late it is, or how long the driver is away after it died


class LoseDriver(Step, frozen=True, kw_only=True, tag="lose driver"):
    """A driver is not there for a while."""

    driver: str


class ReturnDriver(Step, frozen=True, kw_only=True, tag="return driver"):
    driver: str


AnyStep = (
    PutPod
    | RelabelPod
    | PutVolume
    | DropVolume
    | RemovePod
    | PutObject
    | DeleteObject
    | PutClaim
    | DeleteClaim
    | DeleteDisk
    | Turn
    | Pass
    | WaitForPod
    | Settle
    | WriteFile
    | Resize
    | MountForeign
    | UnmountByHand
    | HoldOpen
    | LetGo
    | MakePath
    | RunContainers
    | EndContainers
    | JumpClock
    | LimitDisk
    | Restart
    | Crash
    | Reboot
    | DamageRecord
    | BreakReads
    | Strike
    | DriverStrike
    | LoseDriver
    | ReturnDriver
)


class Script(msgspec.Struct, frozen=True, kw_only=True):
    """A history before it happens. `seed` also draws how long calls take, up to `latency` seconds."""

    seed: int
    latency: float = 0.0
    steps: tuple[AnyStep, ...] = ()


def to_json(script: Script) -> str:
    """The script as a person can read, keep and change it."""
    return msgspec.json.format(msgspec.json.encode(script), indent=1).decode()


def from_json(text: str | bytes) -> Script:
    """Raises msgspec.ValidationError or DecodeError with the place of what is wrong."""
    return msgspec.json.decode(text, type=Script)


def describe(step: Step) -> str:
    """One step as a line."""
    fields = msgspec.to_builtins(step)
    words = [str(fields.pop("step"))]
    words += [f"{name}={_shown(value)}" for name, value in fields.items()]
    return " ".join(words)


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_shown(each) for each in value) + "]"
    return repr(value) if isinstance(value, str) else str(value)
