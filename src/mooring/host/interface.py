"""The `Host` protocol: everything mooring ever does to a machine, as small calls that can be replayed in memory.

A host's calls are plain and blocking; each is one step that either happened or did not (or raises OSError half
way, with the same errno as Linux). Plugins do not call them on the event loop directly: they hand a function of a
module to `do` where the calls are short and about files of ours, else any function to `run`, saying what it risks.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, Protocol, TypeVar

import msgspec

from mooring.host.durable_files import DurableCalls
from mooring.host.health import HealthCalls
from mooring.host.mount_events import MountWatchCalls
from mooring.host.ownership_calls import OwnershipCalls
from mooring.host.programs import ProgramResult
from mooring.host.storage_calls import StorageCalls

T = TypeVar("T")
P = ParamSpec("P")


class Risk(enum.Enum):
    """What a batch of host calls may cost, and so where it runs."""

    CHEAP = "cheap"  # a few microseconds each, on a local file system that is ours: inline on the event loop
    BULKY = "bulky"  # may touch many files: in a small pool
    HANGING = "hanging"  # may never return (a foreign or network file system): in a thread that can be abandoned


class FileKind(enum.Enum):
    DIRECTORY = "directory"
    FILE = "file"
    LINK = "link"
    SOCKET = "socket"
    CHARACTER_DEVICE = "character device"
    BLOCK_DEVICE = "block device"
    FIFO = "fifo"


class FileFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What lstat (or stat) tells of a path. `mode` holds the permission bits including setuid, setgid, sticky."""

    kind: FileKind
    mode: int
    uid: int
    gid: int
    size: int
    device: int
    inode: int
    modified_at: float


class MountFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One mount, as the kernel sees it. `id` is never reused while the machine runs (where the kernel offers that)."""

    id: int
    parent_id: int
    path: str
    root: str  # the directory of the file system that is mounted there
    device: int
    fs_type: str
    source: str
    options: tuple[str, ...] = ()  # per mount and of the super block, split at commas outside quotes
    propagation: str = "private"


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel tells of a block or character device; a character device has no size."""

    kind: FileKind
    major: int
    minor: int
    size: int = 0  # in bytes
    read_only: bool = False


class Content(enum.Enum):
    """What a block device holds. Only a device that holds NOTHING may ever be formatted."""

    NOTHING = "nothing"
    FILE_SYSTEM = "a file system"
    PARTITIONS = "partitions"
    UNKNOWN = "unknown data"  # no file system (a member of a volume group, an encrypted disk), or several at once


class Signature(msgspec.Struct, frozen=True, kw_only=True):
    """What was found on a block device; `type` names the file system, the partition table or the other data."""

    content: Content
    type: str = ""


class Check(enum.Enum):
    """How a check of a file system ended."""

    CLEAN = "clean"
    CORRECTED = "errors were corrected"
    UNCORRECTED = "errors are left"
    INCOMPLETE = "not completed"  # the program was stopped, could not work on the device or does not know its type
    NO_PROGRAM = "no program"


class CheckReport(msgspec.Struct, frozen=True, kw_only=True):
    """How a check of a file system ended, and the last things the program said."""

    check: Check
    output: str = ""


class NewFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file to be written below a directory; `path` is relative and may contain sub-directories."""

    path: str
    data: bytes
    mode: int
    uid: int | None = None  # None keeps the owner of the process


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSystemUsage:
    """What a file system says of itself, in bytes and inodes."""

    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int
    inodes_used: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeUsage:
    """What a directory holds. When the walk was not `complete`, both are lower bounds."""

    used: int
    inodes: int
    complete: bool


class Host(StorageCalls, HealthCalls, DurableCalls, OwnershipCalls, MountWatchCalls, Protocol):
    """A machine. Paths are absolute strings. Missing things raise FileNotFoundError unless said otherwise."""

    # -- looking -------------------------------------------------------------------------------------------------
    def look(self, path: str) -> FileFacts | None:
        """lstat: the facts of the path itself (links not followed), or None when nothing is there."""
        ...

    def look_through(self, path: str) -> FileFacts | None:
        """stat: the facts of what the path leads to, or None when that does not exist."""
        ...

    def names_in(self, path: str) -> list[str]:
        """Names in a directory, sorted, without touching the entries themselves."""
        ...

    def links_in(self, path: str) -> dict[str, bool]:
        """Each name in a directory, and whether it is a symbolic link."""
        ...

    def holds_files(self, path: str, files: Mapping[str, bytes]) -> bool:
        """Whether a directory has just these files, each with just this content, and nothing else."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def read_link(self, path: str) -> str | None:
        """The text of a symbolic link, or None when there is no such path. OSError EINVAL when it is no link."""
        ...

    def mount_at(self, path: str) -> MountFacts | None:
        """The topmost mount whose root is exactly this path, or None when it is no mount point.

        Asks the kernel without entering the file system, so a dead server does not block it. A missing path is None.
        """
        ...

    def mount_by_id(self, identity: int) -> MountFacts | None:
        """The mount with this id, if it is still mounted anywhere in this namespace."""
        ...

    def mounts(self) -> Sequence[MountFacts]:
        """All mounts of this mount namespace, read at once; lower mounts of a stack come before upper ones."""
        ...

    def file_system_usage(self, path: str) -> FileSystemUsage:
        """statfs of the file system that holds the path."""
        ...

    def tree_usage(self, path: str, budget: int) -> TreeUsage:
        """Bytes and inodes below and including a directory, on its own file system; at most `budget` entries."""
        ...

    # -- making --------------------------------------------------------------------------------------------------
    def make_directories(self, path: str, mode: int) -> bool:
        """mkdir -p: missing directories get `mode` less the umask (022); existing ones stay as they are.

        Returns whether the last one was made now.
        """
        ...

    def make_directory(self, path: str, mode: int) -> None:
        """mkdir of one directory, mode less the umask; FileExistsError when something is there."""
        ...

    def write_files(self, directory: str, files: Sequence[NewFile]) -> None:
        """Write new files below a directory: sub-directories 0777 less the umask, each file's mode and owner exact.

        FileExistsError when one is there already; the files before it have been written then.
        """
        ...

    def create_file(self, path: str, mode: int) -> None:
        """Create an empty file with exactly this mode; FileExistsError when something is there."""
        ...

    def make_link(self, text: str, path: str, uid: int | None = None) -> None:
        """Create a symbolic link at `path` containing `text`, owned by uid when given."""
        ...

    def rename(self, old: str, new: str) -> None:
        """rename(2): replaces a file or link, or an empty directory, at `new` in one step."""
        ...

    def change_mode(self, path: str, mode: int) -> None:
        """chmod, following links: exactly these permission bits."""
        ...

    # -- mounting ------------------------------------------------------------------------------------------------
    def mount_tmpfs(self, path: str, *, size: int | None = None, mode: int | None = None) -> None:
        """Mount a tmpfs (nosuid/nodev not set, as the kubelet; noswap where the kernel has it)."""
        ...

    def resize_tmpfs(self, path: str, size: int) -> None:
        """Set the size limit of the tmpfs mounted at path. OSError EINVAL when none is, or it holds more than that."""
        ...

    def bind(
        self,
        source: str,
        target: str,
        *,
        read_only: bool = False,
        recursive: bool = False,
        flags: Sequence[str] = (),
    ) -> None:
        """Bind-mount `source` on `target`; it becomes visible complete with its flags.

        `flags` such as `noexec` are added to those that the mount of the source has. `recursive` takes the mounts
        below the source along, and then `read_only` and `flags` hold for each of them.
        """
        ...

    def unmount(self, path: str, *, lazy: bool = False, force: bool = False) -> None:
        """Unmount the topmost mount at path. OSError EINVAL when it is no mount point, EBUSY when in use.

        A `lazy` one is never busy: it takes the mounts below it along, and whoever uses them keeps them. With `force`
        a network file system gives up on a server that does not answer.
        """
        ...

    # -- inside a volume, whose users may change it meanwhile ------------------------------------------------------
    # Links are followed as long as they stay below the root, which absolute ones never do. Whatever leads out of it
    # is OSError EXDEV, links that lead in circles are ELOOP.
    def look_beneath(self, root: str, relative: str) -> FileFacts | None:
        """The facts of what a path inside a volume leads to, or None when that does not exist."""
        ...

    def make_subpath(self, root: str, relative: str, mode: int) -> None:
        """mkdir -p inside a volume: missing directories get exactly `mode`, existing ones stay as they are.

        NotADirectoryError when something else is in the way, be it a link that leads nowhere.
        """
        ...

    def bind_beneath(self, root: str, relative: str, target: str, *, read_only: bool = False) -> None:
        """Bind-mount what a path inside a volume leads to, without the mounts below it, on `target`."""
        ...

    # -- devices -------------------------------------------------------------------------------------------------
    # A device may be dead, and programs take their time: everything here is HANGING, except `loop_of` and `device`
    # of a device that is known to answer. Programs that fail raise `programs.ProgramFailed`, missing ones
    # `programs.ProgramMissing`; what is no block device is OSError ENOTBLK.
    def device(self, path: str) -> DeviceFacts | None:
        """The facts of the device a path leads to; None when nothing is there or it is no device."""
        ...

    def is_device_open(self, path: str) -> bool:
        """Whether a block device is mounted or claimed by another user that wants it for itself alone.

        What is no block device is not open: opening a character device may have effects.
        """
        ...

    def signature(self, device: str) -> Signature:
        """What a block device holds. OSError when it cannot be read: that is never NOTHING."""
        ...

    def make_file_system(self, device: str, fs_type: str, options: Sequence[str] = ()) -> None:
        """mkfs of a device that holds NOTHING: OSError EEXIST when it holds anything, EBUSY when it is open."""
        ...

    def check_file_system(self, device: str) -> CheckReport:
        """fsck -a: check a file system that is not mounted, and correct what can be without asking."""
        ...

    def grow_file_system(self, device: str, path: str, fs_type: str) -> None:
        """Let the file system of a device, mounted at path, fill the device; nothing happens when it does.

        OSError EOPNOTSUPP for types that do not grow, PermissionError when the process lacks a capability.
        """
        ...

    def mount_device(self, device: str, path: str, fs_type: str, options: Sequence[str] = ()) -> None:
        """Mount the file system of a block device on a directory, with the options of mount(8).

        Errors are those of mount(2), with what the kernel says about it: ENODEV for an unknown type, EINVAL for
        another type or a wrong option, EACCES for a read-only device without the option `ro`.
        """
        ...

    def attach_loop(self, file: str, *, read_only: bool = False) -> str:
        """Attach a free loop device to a file or block device, and return its path. Not idempotent: see `loop_of`."""
        ...

    def loop_of(self, file: str) -> str | None:
        """The loop device attached to the file at this path, even when that was deleted; the lowest of several."""
        ...

    def detach_loop(self, device: str) -> None:
        """Detach a loop device from its file. OSError EBUSY when it is mounted or open, ENXIO when it has no file."""
        ...

    # -- removing ------------------------------------------------------------------------------------------------
    def remove_file(self, path: str) -> None:
        """unlink: a file or link, never a directory."""
        ...

    def remove_directory(self, path: str) -> None:
        """rmdir: only an empty directory that is no mount point."""
        ...

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all below it, relative to descriptors, following no link; NotADirectoryError else.

        Refuses to cross into another mount: OSError EBUSY naming the mount point, with all outside of it gone.
        """
        ...

    # -- running -------------------------------------------------------------------------------------------------
    def run_program(self, arguments: Sequence[str], *, deadline: float, directory: str = "/") -> ProgramResult:
        """Run a program, named by its path or looked for in the usual places, to its end; HANGING.

        `programs.ProgramMissing` when there is none, `Doubtful` when it was killed at the deadline.
        """
        ...

    async def do(
        self, what: str, /, chore: Callable[Concatenate[Host, P], T], *arguments: P.args, **more: P.kwargs
    ) -> T:
        """What a chore returns or raises: a function of a module that makes a few short calls on local files of ours.

        It is called on the event loop, or in another process while there are many: all it is given and answers with
        must be plain values.
        """
        ...

    def expect_chores(self, count: int) -> None:
        """So many chores are about to come, at least: whoever shares them may prepare for it."""
        ...

    async def run(self, call: Callable[[], T], *, risk: Risk, what: str, at: str = "") -> T:
        """Run a batch of calls where its risk belongs; `Doubtful` when no answer came within the deadline.

        `at` is a path on the file system that a hanging batch would wait for.
        """
        ...
