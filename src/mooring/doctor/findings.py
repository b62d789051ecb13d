"""What the doctor says of one thing it found, and what it may do about it."""

from __future__ import annotations

import enum
import shlex
from dataclasses import dataclass
from typing import assert_never

from mooring.world.findings import Finding

CLEARS = "`mooring doctor --repair` clears it"


class Severity(enum.Enum):
    """How much something matters; what is only INFO is no reason for an exit status other than 0."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class RemoveEmptyDirectory:
    """rmdir: the kernel itself refuses it for anything that is not empty, or is mounted on."""

    path: str


@dataclass(frozen=True, slots=True)
class RemoveEmptyFile:
    """unlink of a regular file without a byte, that was made only to be mounted on or to mark something."""

    path: str
    inode: int


@dataclass(frozen=True, slots=True)
class RemoveLink:
    """unlink of a symbolic link with exactly this text."""

    path: str
    text: str


@dataclass(frozen=True, slots=True)
class RemoveSocket:
    """unlink of a socket that refuses connections, since nobody listens."""

    path: str
    inode: int


@dataclass(frozen=True, slots=True)
class UnmountEmptyTmpfs:
    """Unmount of a tmpfs that holds nothing, after it was made read-only to make sure that it stays so."""

    path: str
    mount: int


@dataclass(frozen=True, slots=True)
class UnmountBind:
    """Unmount of a bind mount whose files stay where they are, at `source`."""

    path: str
    mount: int
    source: str


@dataclass(frozen=True, slots=True)
class DetachLoop:
    """Detach a loop device that nobody uses and whose bytes stay elsewhere, or that has none but zeros."""

    device: str
    backing: str


Step = RemoveEmptyDirectory | RemoveEmptyFile | RemoveLink | RemoveSocket | UnmountEmptyTmpfs | UnmountBind | DetachLoop
Repair = tuple[Step, ...]
"""What clears one leftover, in this order. A step whose proof does not hold any more ends it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis(Finding):
    """A finding with whose it is, what it holds, and how it is cleared if that is safe."""

    severity: Severity = Severity.WARNING
    whose: str = ""  # `namespace/name` of the pod, or its UID, or what a data file tells
    holds: tuple[str, ...] = ()  # the first few things that keep it from being cleared
    repair: Repair = ()


def words(step: Step) -> str:
    """A step as the command that would do the same by hand."""
    match step:
        case RemoveEmptyDirectory(path):
            return f"rmdir {shlex.quote(path)}"
        case RemoveEmptyFile(path) | RemoveLink(path) | RemoveSocket(path):
            return f"rm {shlex.quote(path)}"
        case UnmountEmptyTmpfs(path) | UnmountBind(path):
            return f"umount {shlex.quote(path)}"
        case DetachLoop(device):
            return f"losetup -d {shlex.quote(device)}"
        case _:
            assert_never(step)


def acts_on(step: Step) -> str:
    """The path that a step changes."""
    return step.device if isinstance(step, DetachLoop) else step.path
