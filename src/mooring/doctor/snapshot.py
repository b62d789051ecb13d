"""Everything the doctor looks at, read once: all deciding is done over this value."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from mooring.host.features import KernelFeatures
from mooring.host.health import Answer
from mooring.host.interface import FileKind, FileSystemUsage
from mooring.host.mount_table import MountTable


class Flavour(enum.Enum):
    """Whose root directory it is."""

    MOORING = "mooring"
    KUBELET = "kubelet"
    MIXED = "mooring and kubelet"  # it has changed hands, and each may know pods that the other does not


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One name below the root directory, looked at without following a link or entering a mount."""

    path: str
    kind: FileKind
    mode: int = 0o755
    uid: int = 0
    gid: int = 0
    size: int = 0
    device: int = 0
    inode: int = 0
    links: int = 1
    names: tuple[str, ...] = ()  # what a directory holds, as far as it was read
    whole: bool = True  # false for a directory that was not read, or not to its end
    mounted: bool = False  # something is mounted on it, and nothing else here is known of it
    text: str = ""  # of a symbolic link
    trouble: str = ""  # why it could not be looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A process that has something open, works or is rooted below the root directory."""

    process: int
    program: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """A mount, in any mount namespace, of or on a directory of the file systems that hold the root directory."""

    process: int  # one that sees it
    program: str
    path: str  # where that process sees it
    device: int
    root: str
    own: bool = False  # it is a mount of the doctor's own namespace


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopFacts:
    """A loop device whose file lies, or lay, below the root directory."""

    device: str
    backing: str
    deleted: bool
    in_use: str = ""  # what uses it, in words
    keeps_bytes: bool = True  # detaching it would lose bytes that nothing else leads to


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """What the store's file tells, read without a lock and without a change."""

    exists: bool = False
    trouble: str = ""  # why it cannot be used
    pods: Mapping[str, str] = field(default_factory=dict)  # `namespace/name` by UID


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFacts:
    """An intent record: something of a volume is, or may be, at a path."""

    file: str
    path: str
    volume: str
    pod: str  # UID, or empty for the node's own part
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFile:
    """A small file that means something, as text; `trouble` says why it could not be read."""

    path: str
    data: bytes = b""
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knowledge:
    """Which pods there are, who says so, and who works on the root directory now."""

    pods: Mapping[str, str] = field(default_factory=dict)  # `namespace/name` by UID
    certain: bool = False  # no other pod can have anything here
    why: str = ""  # it is not certain
    names: Mapping[str, str] = field(default_factory=dict)  # also of pods that are gone
    manager: str = ""  # who manages this root directory now, in words; empty for nobody


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What the machine offers."""

    features: KernelFeatures
    file_systems: frozenset[str] = frozenset()
    programs: frozenset[str] = frozenset()  # of those that are asked for, the installed ones
    usage: FileSystemUsage | None = None
    superuser: bool = True
    user_namespaces: bool = True
    swap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """One look at a root directory and the machine it is on."""

    root: str
    flavour: Flavour
    entries: Mapping[str, Entry]
    mounts: MountTable
    knowledge: Knowledge
    machine: Machine
    boot: str = ""
    store: StoreFacts = StoreFacts()
    records: tuple[RecordFacts, ...] = ()
    answers: Mapping[str, Answer] = field(default_factory=dict)  # of mounts, by path
    covered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # names that mounts hide, by path
    empty_mounts: frozenset[int] = frozenset()  # tmpfs without anything in it, by the id of the mount
    sources: Mapping[int, str] = field(default_factory=dict)  # where else the files of a bind mount are
    uses: tuple[Use, ...] = ()
    bounds: tuple[Bound, ...] = ()
    loops: tuple[LoopFacts, ...] = ()
    silent_sockets: frozenset[str] = frozenset()  # sockets that refuse connections
    dangling: frozenset[str] = frozenset()  # links whose target does not exist
    files: Mapping[str, DataFile] = field(default_factory=dict)

    def below(self, path: str) -> str:
        """A path as it is called inside the root directory."""
        return path[len(self.root.rstrip("/")) + 1 :]
