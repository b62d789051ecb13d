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


class HoldOpen(Step, frozen=True, kw_only=True, tag="hold open"):
    """A process keeps a file in a volume in memory open, so that it cannot be unmounted."""

    pod: str
    volume: str


class LetGo(Step, frozen=True, kw_only=True, tag="let go"):
    """Foreign mounts are taken away and open files are closed."""


class MakePath(Step, frozen=True, kw_only=True, tag="make path"):
    """A directory of the machine that hostPath volumes name comes into being."""

    path: str


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
    """The manager is killed at a call that changes the machine: after so many more of them."""

    skip: int = 0
    when: Literal["before", "during", "after"] = "before"


class Reboot(Ending, frozen=True, kw_only=True, tag="reboot"):
    """The machine loses power: the manager, all mounts and what was in memory are gone."""


# -- faults ----------------------------------------------------------------------------------------------------------
class Strike(Step, frozen=True, kw_only=True, tag="strike"):
    """A fault hits a batch of host calls: after so many more of them."""

    fault: Literal["refuse", "busy", "silent", "lost", "late", "hang", "slow", "full", "broken"]
    skip: int = 0
    seconds: float = 0.0  # how late a late or slow call is
    call: int = 0  # which call of the batch a full disk or a broken one hits


AnyStep = (
    PutPod
    | RelabelPod
    | PutVolume
    | DropVolume
    | RemovePod
    | PutObject
    | DeleteObject
    | Turn
    | Pass
    | WaitForPod
    | Settle
    | WriteFile
    | MountForeign
    | HoldOpen
    | LetGo
    | MakePath
    | LimitDisk
    | Restart
    | Crash
    | Reboot
    | Strike
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
