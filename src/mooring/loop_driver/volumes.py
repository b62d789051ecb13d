"""What the driver remembers of volumes and snapshots. All of it is on disk before a call is answered."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from mooring.host.records import record_name

_file_name = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,120}")


class Phase(enum.Enum):
    """How far the life of a volume or snapshot has come."""

    CREATING = "creating"  # nobody was told of it yet: after a crash it is taken away
    READY = "ready"
    DELETING = "deleting"  # after a crash the deletion goes on


class Access(enum.Enum):
    """How a volume is handed out."""

    MOUNT = "mount"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What a volume was made from; exactly one of the two is set."""

    volume_id: str = ""
    snapshot_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Where and how a volume is staged, or was about to be."""

    path: str
    access: Access
    fs_type: str = ""
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A place where a volume is published, or was about to be."""

    path: str
    access: Access
    read_only: bool = False
    alone: bool = False  # SINGLE_NODE_SINGLE_WRITER: no other target beside it


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """That a volume is published to the node by the controller."""

    node_id: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume. Stage and targets tell where to look: what is really mounted is for the kernel to say."""

    id: str
    name: str
    size: int
    phase: Phase = Phase.READY
    fs_type: str = ""
    source: Source | None = None
    inline: bool = False  # it was made for one pod, and goes with it
    needs_growth: bool = False  # its file system may be smaller than it
    attachment: Attachment | None = None
    stage: Stage | None = None
    targets: tuple[Target, ...] = ()

    def target(self, path: str) -> Target | None:
        return next((each for each in self.targets if each.path == path), None)

    def without_target(self, path: str) -> tuple[Target, ...]:
        return tuple(each for each in self.targets if each.path != path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """What a volume held at one moment."""

    id: str
    name: str
    volume_id: str
    size: int
    created_at: int  # nanoseconds since 1970
    phase: Phase = Phase.READY


def volume_id(name: str) -> str:
    """The id of the volume of this name: the same for each try to make it."""
    return f"vol-{record_name(name)}"


def snapshot_id(name: str) -> str:
    return f"snap-{record_name(name)}"


def file_name(identity: str) -> str:
    """How files of a volume or snapshot are named: inline volumes have ids that the caller chose."""
    return identity if _file_name.fullmatch(identity) else record_name(identity)
