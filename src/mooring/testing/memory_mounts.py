"""The mount table of a `MemoryHost`: what is mounted where, stacked as the kernel stacks it, ids never used twice."""

from __future__ import annotations

import errno
from collections.abc import Callable

from mooring.host.interface import FileKind, MountFacts
from mooring.host.mount_limits import worded
from mooring.host.ownership_calls import GroupSwap
from mooring.testing.memory_tree import (
    PAGE,
    FileSystem,
    Mount,
    Node,
    Place,
    failure,
    path_in_file_system,
    path_of,
    resolve,
    topmost,
)

_DISK_DEVICE = 0x801  # 8:1, what the first partition of the first disk has
_FLAGS = ("nosuid", "nodev", "noexec", "noatime", "nodiratime")  # in the kernel's order


class MemoryMounts:
    """All mounts of one machine. The first is its disk at `/`, which stays when the others vanish."""

    def __init__(self, new_directory: Callable[[int], Node], *, noswap: bool) -> None:
        self._new_directory = new_directory
        self._noswap = noswap
        self._last_id = 1
        self._last_device = 0x20
        disk = FileSystem("ext4", "/dev/sda1", _DISK_DEVICE, new_directory(0o755), None, "")
        self.root = Mount(1, None, disk.root, disk, disk.root, read_only=False)
        self._mounts: dict[int, Mount] = {1: self.root}
        self.most = 100_000  # mounts, as Linux has it unless it is told otherwise

    @property
    def count(self) -> int:
        return len(self._mounts)

    def facts(self) -> list[MountFacts]:
        """All mounts, each after the one it is mounted on."""
        return [_facts_of(mount) for mount in self._mounts.values()]

    def at(self, path: str) -> Mount | None:
        """The topmost mount whose root is exactly this path."""
        try:
            mount, node = resolve(self.root, path, follow=False)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return mount if node is mount.root else None

    def facts_at(self, path: str) -> MountFacts | None:
        mount = self.at(path)
        return None if mount is None else _facts_of(mount)

    def facts_by_id(self, identity: int) -> MountFacts | None:
        mount = self._mounts.get(identity)
        return None if mount is None else _facts_of(mount)

    def mount_tmpfs(self, path: str, size: int | None, mode: int | None) -> None:
        parent, point = resolve(self.root, path)
        if point.kind is not FileKind.DIRECTORY:
            raise failure(errno.ENOTDIR, path)
        root = self._new_directory(0o1777 if mode is None else mode)
        parts = [] if not size else [_size_option(size)]
        if root.mode != 0o1777:
            parts.append(f"mode={root.mode:03o}")
        if self._noswap:
            parts.append("noswap")
        tmpfs = FileSystem("tmpfs", "tmpfs", self.new_device(), root, _rounded(size) if size else None, ",".join(parts))
        self._attach(parent, point, tmpfs, root, read_only=False)

    def new_device(self) -> int:
        """The number of a file system that has no device."""
        self._last_device += 1
        return self._last_device

    def resize_tmpfs(self, path: str, size: int) -> None:
        mount = self._required(path)
        tmpfs = mount.file_system
        if tmpfs.type != "tmpfs" or (size and _rounded(size) < tmpfs.used):
            raise failure(errno.EINVAL, path)
        tmpfs.limit = _rounded(size) if size else None
        kept = [option for option in tmpfs.options.split(",") if not option.startswith("size=")]
        tmpfs.options = ",".join([_size_option(size), *kept] if size else kept)

    def mount_device(self, path: str, file_system: FileSystem, *, read_only: bool, flags: tuple[str, ...]) -> None:
        parent, point = resolve(self.root, path, follow=False)
        if point.kind is not FileKind.DIRECTORY:
            raise failure(errno.ENOTDIR, path)
        mount = self._attach(parent, point, file_system, file_system.root, read_only=read_only)
        mount.flags = flags

    def shows(self, file_system: FileSystem) -> bool:
        """Whether a file system is mounted anywhere."""
        return any(mount.file_system is file_system for mount in self._mounts.values())

    def bind(self, source: str, target: str, read_only: bool, recursive: bool, flags: tuple[str, ...]) -> None:
        self.bind_place(resolve(self.root, source), target, read_only, recursive, flags)

    def bind_swapped(self, source: str, target: str, swap: GroupSwap, read_only: bool, flags: tuple[str, ...]) -> None:
        place = resolve(self.root, source)
        if place[0].swap:
            raise failure(errno.EPERM, source)
        self.bind_place(place, target, read_only, recursive=False, flags=flags)
        self._required(target).swap = {swap.on_disk: swap.shown, swap.shown: swap.on_disk}

    def bind_place(
        self, place: Place, target: str, read_only: bool, recursive: bool, flags: tuple[str, ...] = ()
    ) -> None:
        seen, root = place
        parent, point = resolve(self.root, target)
        if (root.entries is None) is not (point.entries is None):
            raise failure(errno.ENOTDIR, target)
        below = [mount for mount in self._mounts.values() if recursive and mount.parent is seen]
        top = self._attach(parent, point, seen.file_system, root, read_only=read_only or seen.read_only)
        top.flags = (*seen.flags, *flags)
        top.swap = seen.swap
        for mount in below:
            if mount is not top and _is_below(mount.point, root):
                self._clone(mount, top, read_only, flags)

    def unmount(self, path: str, lazy: bool) -> None:
        mount = self._required(path)
        if mount is self.root or (not lazy and (mount.children or mount.holds)):
            raise failure(errno.EBUSY, path)
        self._drop(mount)

    def _drop(self, mount: Mount) -> None:
        for child in [child for child in self._mounts.values() if child.parent is mount]:
            self._drop(child)
        mount.detach()
        del self._mounts[mount.id]

    def forget_all(self) -> None:
        """What a reboot does: only the disk is mounted, and what was in memory is gone."""
        for mount in reversed(list(self._mounts.values())):
            if mount is not self.root:
                mount.detach()
        self._mounts = {self.root.id: self.root}
        self.root.holds = 0

    def make_writable(self, path: str) -> None:
        self._required(path).read_only = False

    def _required(self, path: str) -> Mount:
        mount, node = resolve(self.root, path, follow=False)
        if node is not mount.root:
            raise failure(errno.EINVAL, path)
        return mount

    def _attach(self, parent: Mount, point: Node, file_system: FileSystem, root: Node, *, read_only: bool) -> Mount:
        if len(self._mounts) >= self.most:
            raise worded(failure(errno.ENOSPC, ""), path_of(parent, point))
        self._last_id += 1
        mount = Mount(self._last_id, parent, point, file_system, root, read_only)
        mount.attach()
        self._mounts[mount.id] = mount
        return mount

    def _clone(self, original: Mount, parent: Mount, read_only: bool, flags: tuple[str, ...]) -> None:
        pending = [(original, parent)]
        while pending:
            mount, onto = pending.pop()
            children = [child for child in self._mounts.values() if child.parent is mount]
            where, point = topmost(onto, mount.point)
            copy = self._attach(where, point, mount.file_system, mount.root, read_only=read_only or mount.read_only)
            copy.flags = (*mount.flags, *flags)
            copy.swap = mount.swap
            pending.extend((child, copy) for child in reversed(children))


def _facts_of(mount: Mount) -> MountFacts:
    file_system = mount.file_system
    options = ["ro" if mount.read_only else "rw", *(flag for flag in _FLAGS if flag in mount.flags)]
    options += [] if {"noatime", "strictatime"} & set(mount.flags) else ["relatime"]
    options += ["nosymfollow"] if "nosymfollow" in mount.flags else []
    options.append("ro" if file_system.read_only else "rw")
    options += file_system.options.split(",") if file_system.options else []
    return MountFacts(
        id=mount.id,
        parent_id=0 if mount.parent is None else mount.parent.id,
        path=path_of(mount, mount.root),
        root=path_in_file_system(file_system, mount.root),
        device=file_system.device,
        fs_type=file_system.type,
        source=file_system.source,
        options=tuple(dict.fromkeys(options)),
    )


def _is_below(node: Node, directory: Node) -> bool:
    current: Node | None = node
    while current is not None:
        if current is directory:
            return True
        current = current.parent
    return False


def _rounded(size: int) -> int:
    return (size + PAGE - 1) // PAGE * PAGE


def _size_option(size: int) -> str:
    return f"size={_rounded(size) // 1024}k"
