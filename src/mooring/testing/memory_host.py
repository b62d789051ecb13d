"""A whole machine in memory: files, links, mounts, disks and loop devices, with the errors Linux would give.

It passes the same conformance suite as `LinuxHost`. It has no clock and no chance of its own, can be killed before,
after and in the middle of every call (`before_call`, `after_call`, `between_steps`), filled up, and rebooted.
"""

from __future__ import annotations

import errno
import pickle
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from mooring.host import mount_options
from mooring.host.interface import (
    CheckReport,
    DeviceFacts,
    FileFacts,
    FileKind,
    FileSystemUsage,
    Host,
    MountFacts,
    NewFile,
    Risk,
    Signature,
    TreeUsage,
)
from mooring.testing import memory_usage
from mooring.testing.memory_devices import MemoryDevices
from mooring.testing.memory_durable import MemoryDurableCalls
from mooring.testing.memory_files import UMASK, MemoryFiles
from mooring.testing.memory_health import MemoryHealthCalls
from mooring.testing.memory_mount_events import MemoryMountWatchCalls
from mooring.testing.memory_mounts import MemoryMounts
from mooring.testing.memory_ownership import MemoryOwnershipCalls
from mooring.testing.memory_tree import described, facts_of, failure, resolve, resolve_beneath, topmost

T = TypeVar("T")
P = ParamSpec("P")


class Scheduler(Protocol):
    """Decides when, and whether, a batch of calls handed to `MemoryHost.run` takes place."""

    def __call__(self, call: Callable[[], T], risk: Risk, what: str, /) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """Everything visible on a machine, by path, and its mounts and devices in order, without ids, inodes and times."""

    entries: Mapping[str, str]
    mounts: tuple[str, ...]
    devices: tuple[str, ...] = ()


def _midnight() -> float:
    return 0.0


class MemoryHost(MemoryDurableCalls, MemoryHealthCalls, MemoryOwnershipCalls, MemoryMountWatchCalls):
    """A machine with one disk at `/` that only root uses.

    `before_call(method, path)` runs before each mutating call: what it raises means that the call did not happen.
    `after_call` runs after it: what it raises hits a caller whose call did happen. `between_steps` runs after each
    part of a call that has several (a file of `write_files`, an entry of `remove_tree` or `set_ownership`).
    `program_result(arguments)` decides how an external program ends, and may raise; None means that it works.
    """

    def __init__(
        self, *, now: Callable[[], float] = _midnight, uid: int = 0, gid: int = 0, noswap: bool = True
    ) -> None:
        MemoryDurableCalls.__init__(self)
        MemoryHealthCalls.__init__(self)
        MemoryOwnershipCalls.__init__(self)
        self.now = now
        self.scheduler: Scheduler | None = None
        self._files = MemoryFiles(now, uid, gid, self._between)
        self._mounts = MemoryMounts(self._files.new_directory, noswap=noswap)
        MemoryMountWatchCalls.__init__(self)
        self._root = self._files.root = self._mounts.root
        self._devices = MemoryDevices(self._files, self._mounts, self._program)

    # -- looking -------------------------------------------------------------------------------------------------
    def look(self, path: str) -> FileFacts | None:
        try:
            mount, node = resolve(self._root, path, follow=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return facts_of(mount, node)

    def look_through(self, path: str) -> FileFacts | None:
        try:
            mount, node = resolve(self._root, path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return facts_of(mount, node)

    def names_in(self, path: str) -> list[str]:
        _, node = resolve(self._root, path)
        if node.entries is None:
            raise failure(errno.ENOTDIR, path)
        return sorted(node.entries)

    def links_in(self, path: str) -> dict[str, bool]:
        _, node = resolve(self._root, path)
        if node.entries is None:
            raise failure(errno.ENOTDIR, path)
        return {name: entry.text is not None for name, entry in node.entries.items()}

    def holds_files(self, path: str, files: Mapping[str, bytes]) -> bool:
        try:
            names = self.names_in(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        facts = (self.look(f"{path}/{name}") for name in names)
        plain = all(each is not None and each.kind is FileKind.FILE for each in facts)
        return plain and {name: self.read_file(f"{path}/{name}") for name in names} == files

    def read_file(self, path: str) -> bytes:
        _, node = resolve(self._root, path)
        if node.entries is not None:
            raise failure(errno.EISDIR, path)
        return node.data

    def read_link(self, path: str) -> str | None:
        try:
            _, node = resolve(self._root, path, follow=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if node.text is None:
            raise failure(errno.EINVAL, path)
        return node.text

    def mount_at(self, path: str) -> MountFacts | None:
        return self._mounts.facts_at(path)

    def mounts(self) -> Sequence[MountFacts]:
        return self._mounts.facts()

    def file_system_usage(self, path: str) -> FileSystemUsage:
        mount, _ = resolve(self._root, path)
        return memory_usage.file_system_usage(mount.file_system)

    def tree_usage(self, path: str, budget: int) -> TreeUsage:
        return memory_usage.tree_usage(*resolve(self._root, path, follow=False), budget)

    # -- making --------------------------------------------------------------------------------------------------
    def make_directories(self, path: str, mode: int) -> bool:
        self._before("make_directories", path)
        is_new = self._files.make_directories(path, mode)
        self._after("make_directories", path)
        return is_new

    def make_directory(self, path: str, mode: int) -> None:
        self._before("make_directory", path)
        self._files.make(path, FileKind.DIRECTORY, mode & ~UMASK)
        self._after("make_directory", path)

    def write_files(self, directory: str, files: Sequence[NewFile]) -> None:
        self._before("write_files", directory)
        self._files.write(directory, files)
        self._after("write_files", directory)

    def create_file(self, path: str, mode: int) -> None:
        self._before("create_file", path)
        self._files.make(path, FileKind.FILE, mode)
        self._after("create_file", path)

    def make_link(self, text: str, path: str, uid: int | None = None) -> None:
        self._before("make_link", path)
        if not text:
            raise failure(errno.ENOENT, path)
        node = self._files.make(path, FileKind.LINK, 0o777)
        node.text = text
        if uid is not None:
            node.uid = uid
        self._after("make_link", path)

    def make_special_file(self, path: str, kind: FileKind, mode: int = 0o644) -> None:
        """Put a socket, fifo or device there, for whoever has to tell them apart."""
        if kind in (FileKind.BLOCK_DEVICE, FileKind.CHARACTER_DEVICE):
            self._devices.make(path, kind, mode, size=0)
        else:
            self._files.make(path, kind, mode)

    def rename(self, old: str, new: str) -> None:
        self._before("rename", old)
        self._files.rename(old, new)
        self._after("rename", old)

    def change_mode(self, path: str, mode: int) -> None:
        self._before("change_mode", path)
        self._files.change_mode(path, mode)
        self._after("change_mode", path)

    # -- mounting ------------------------------------------------------------------------------------------------
    def mount_tmpfs(self, path: str, *, size: int | None = None, mode: int | None = None) -> None:
        self._before("mount_tmpfs", path)
        self._mounts.mount_tmpfs(path, size, mode)
        self._after("mount_tmpfs", path)

    def resize_tmpfs(self, path: str, size: int) -> None:
        self._before("resize_tmpfs", path)
        self._mounts.resize_tmpfs(path, size)
        self._after("resize_tmpfs", path)

    def bind(
        self,
        source: str,
        target: str,
        *,
        read_only: bool = False,
        recursive: bool = False,
        flags: Sequence[str] = (),
    ) -> None:
        self._before("bind", target)
        chosen = mount_options.parse(flags).mount_flags
        self._mounts.bind(source, target, read_only or "ro" in chosen, recursive, chosen)
        self._after("bind", target)

    def unmount(self, path: str, *, lazy: bool = False, force: bool = False) -> None:
        self._before("unmount", path)
        self._mounts.unmount(path, lazy)
        self._after("unmount", path)

    # -- inside a volume -----------------------------------------------------------------------------------------
    def look_beneath(self, root: str, relative: str) -> FileFacts | None:
        try:
            return facts_of(*resolve_beneath(resolve(self._root, root), relative))
        except FileNotFoundError:
            return None

    def make_subpath(self, root: str, relative: str, mode: int) -> None:
        self._before("make_subpath", f"{root}/{relative}")
        self._files.make_beneath(resolve(self._root, root), relative, mode)
        self._after("make_subpath", f"{root}/{relative}")

    def bind_beneath(self, root: str, relative: str, target: str, *, read_only: bool = False) -> None:
        self._before("bind_beneath", target)
        place = resolve_beneath(resolve(self._root, root), relative)
        self._mounts.bind_place(place, target, read_only, recursive=False)
        self._after("bind_beneath", target)

    # -- devices -------------------------------------------------------------------------------------------------
    def device(self, path: str) -> DeviceFacts | None:
        return self._devices.facts(path)

    def is_device_open(self, path: str) -> bool:
        return self._devices.is_open(path)

    def signature(self, device: str) -> Signature:
        return self._devices.signature(device)

    def make_file_system(self, device: str, fs_type: str, options: Sequence[str] = ()) -> None:
        self._before("make_file_system", device)
        self._devices.make_file_system(device, fs_type, options)
        self._after("make_file_system", device)

    def check_file_system(self, device: str) -> CheckReport:
        self._before("check_file_system", device)
        report = self._devices.check_file_system(device)
        self._after("check_file_system", device)
        return report

    def grow_file_system(self, device: str, path: str, fs_type: str) -> None:
        self._before("grow_file_system", device)
        self._devices.grow_file_system(device, path, fs_type)
        self._after("grow_file_system", device)

    def mount_device(self, device: str, path: str, fs_type: str, options: Sequence[str] = ()) -> None:
        self._before("mount_device", path)
        self._devices.mount(device, path, fs_type, options)
        self._after("mount_device", path)

    def attach_loop(self, file: str, *, read_only: bool = False) -> str:
        self._before("attach_loop", file)
        device = self._devices.attach_loop(file, read_only)
        self._after("attach_loop", file)
        return device

    def loop_of(self, file: str) -> str | None:
        return self._devices.loop_of(file)

    def detach_loop(self, device: str) -> None:
        self._before("detach_loop", device)
        self._devices.detach_loop(device)
        self._after("detach_loop", device)

    # -- removing ------------------------------------------------------------------------------------------------
    def remove_file(self, path: str) -> None:
        self._before("remove_file", path)
        self._files.remove_file(path)
        self._after("remove_file", path)

    def remove_directory(self, path: str) -> None:
        self._before("remove_directory", path)
        self._files.remove_directory(path)
        self._after("remove_directory", path)

    def remove_tree(self, path: str) -> None:
        self._before("remove_tree", path)
        self._files.remove_tree(path)
        self._after("remove_tree", path)

    # -- running -------------------------------------------------------------------------------------------------
    async def do(
        self, what: str, /, chore: Callable[Concatenate[Host, P], T], *arguments: P.args, **more: P.kwargs
    ) -> T:
        pickle.dumps((chore, arguments, more))  # refuses what could not be called in another process
        return await self.run(lambda: chore(self, *arguments, **more), risk=Risk.CHEAP, what=what)

    def expect_chores(self, count: int) -> None:
        return None

    async def run(self, call: Callable[[], T], *, risk: Risk, what: str, at: str = "") -> T:
        if self.scheduler is not None:
            return await self.scheduler(call, risk, what)
        return call()

    # -- what happens to machines --------------------------------------------------------------------------------
    def hold(self, path: str) -> None:
        """Keep the mount that holds a path busy, as an open file would."""
        resolve(self._root, path)[0].holds += 1

    def release(self, path: str) -> None:
        """Undo one `hold`."""
        resolve(self._root, path)[0].holds -= 1

    def make_device(self, path: str, size: int, *, read_only: bool = False, holds: Signature | None = None) -> None:
        """Put a block device there that keeps what is written to it when the machine starts again.

        A file system is made on it; of other things that it `holds` only the signature is known.
        """
        device = self._devices.make(path, FileKind.BLOCK_DEVICE, 0o660, size)
        if holds is not None:
            self._devices.fill(path, holds)
        device.read_only = read_only

    def resize_device(self, path: str, size: int) -> None:
        """Let a block device have another size, as a disk of a cloud may; its file system stays as it is."""
        self._devices.resize(path, size)

    def claim_device(self, path: str) -> None:
        """Keep a block device open for somebody else alone, as a running mkfs or a volume group does."""
        self._devices.block(path).claims += 1

    def release_device(self, path: str) -> None:
        """Undo one `claim_device`."""
        self._devices.block(path).claims -= 1

    def limit_disk(self, size: int | None) -> None:
        """Let the disk hold so many bytes and no more; None takes the limit away."""
        self._root.file_system.limit = size

    def reboot(self) -> None:
        """Lose all mounts, loop devices and what was in memory; files on the disk stay, and what other disks hold."""
        self.boots += 1
        self._devices.forget_all()
        self._mounts.forget_all()

    def snapshot(self, path: str = "/") -> Snapshot:
        """Return all that is visible below a path, in a form that compares and prints well."""
        entries: dict[str, str] = {}
        prefix = path.rstrip("/")
        pending = [(prefix, resolve(self._root, path, follow=False))]
        while pending:
            where, (mount, node) = pending.pop()
            entries[where or "/"] = described(node)
            for name, child in (node.entries or {}).items():
                pending.append((f"{where}/{name}", topmost(mount, child)))
        lines = (
            f"{facts.path} {facts.fs_type} {facts.root} {','.join(facts.options)}"
            for facts in self._mounts.facts()
            if f"{facts.path}/".startswith(f"{prefix}/")
        )
        devices = tuple(self._devices.descriptions(prefix))
        return Snapshot(entries=dict(sorted(entries.items())), mounts=tuple(lines), devices=devices)
