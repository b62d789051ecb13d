"""The devices of a `MemoryHost`: disks, what they hold, and loop devices, with the errors and the busyness of Linux."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from mooring.host import file_system_tools, mount_options
from mooring.host.interface import Check, CheckReport, Content, DeviceFacts, FileKind, Signature
from mooring.host.programs import ProgramFailed, ProgramMissing, ProgramResult
from mooring.testing.memory_files import MemoryFiles
from mooring.testing.memory_mounts import MemoryMounts
from mooring.testing.memory_tree import FileSystem, Mount, Node, failure, path_of, resolve

_LOOP_MAJOR, _DISK_MAJOR = 7, 259
_KERNEL_TYPES = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "vfat"})
_OLDER = {"ext4": {"ext2", "ext3", "ext4"}, "ext3": {"ext2", "ext3"}}  # what the code of a type mounts
_WORDS = frozenset({"acl", "commit", "data", "discard", "errors", "nodiscard", "noload", "norecovery", "nouuid"})
RunProgram = Callable[[Sequence[str]], ProgramResult]


class Disk:
    """Blocks, and what they hold: it outlives every device that shows them."""

    __slots__ = ("file_system", "signature", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.signature = Signature(content=Content.NOTHING)
        self.file_system: FileSystem | None = None


class Device:
    """A device as the kernel knows it. `disk` is None for a loop device without a file, and for character devices."""

    __slots__ = ("backing", "claims", "disk", "kind", "major", "minor", "path", "read_only")

    def __init__(self, kind: FileKind, major: int, minor: int, path: str, disk: Disk | None) -> None:
        self.kind, self.major, self.minor = kind, major, minor
        self.path = path
        self.disk = disk
        self.read_only = False
        self.claims = 0
        self.backing: Backing | None = None

    @property
    def number(self) -> int:
        return os.makedev(self.major, self.minor)

    @property
    def size(self) -> int:
        return 0 if self.disk is None else self.disk.size


class Backing:
    """The file a loop device has open: it keeps the mount busy that it was opened through."""

    __slots__ = ("_last_path", "_mount", "_node")

    def __init__(self, mount: Mount, node: Node) -> None:
        self._mount, self._node = mount, node
        self._last_path = path_of(mount, node)
        mount.holds += 1

    @property
    def path(self) -> str:
        if self._node.parent is not None or self._node is self._mount.root:
            self._last_path = path_of(self._mount, self._node)
        return self._last_path

    def close(self) -> None:
        self._mount.holds -= 1


class MemoryDevices:
    """All devices of one machine. `run(arguments)` stands for external programs and says how each of them ends."""

    def __init__(self, files: MemoryFiles, mounts: MemoryMounts, run: RunProgram) -> None:
        self._files = files
        self._mounts = mounts
        self._run = run
        self._devices: dict[Node, Device] = {}
        self._disks_of_files: dict[Node, Disk] = {}
        self._last_minor = 0

    def make(self, path: str, kind: FileKind, mode: int, size: int) -> Device:
        """Put a device there, with a number of its own."""
        node = self._files.make(path, kind, mode)
        self._last_minor += 1
        disk = Disk(size) if kind is FileKind.BLOCK_DEVICE else None
        self._devices[node] = device = Device(kind, _DISK_MAJOR, self._last_minor, path, disk)
        return device

    def fill(self, path: str, holds: Signature) -> None:
        """Let a block device hold something that nobody made here."""
        device, disk = self.block(path), self._disk(path)
        disk.signature = holds
        is_file_system = holds.content is Content.FILE_SYSTEM
        disk.file_system = self._new_file_system(holds.type, path, device, disk.size) if is_file_system else None

    def resize(self, path: str, size: int) -> None:
        self._disk(path).size = size

    def find(self, path: str) -> Device | None:
        return self._devices.get(resolve(self._mounts.root, path)[1])

    def block(self, path: str) -> Device:
        """The block device a path leads to, or the error of Linux."""
        device = self.find(path)
        if device is None or device.kind is not FileKind.BLOCK_DEVICE:
            raise failure(errno.ENOTBLK, path)
        return device

    def facts(self, path: str) -> DeviceFacts | None:
        try:
            device = self.find(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if device is None:
            return None
        return DeviceFacts(
            kind=device.kind, major=device.major, minor=device.minor, size=device.size, read_only=device.read_only
        )

    def is_open(self, path: str) -> bool:
        try:
            device = self.find(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return device is not None and self._is_claimed(device)

    def signature(self, path: str) -> Signature:
        return self._disk(path).signature

    # -- programs ------------------------------------------------------------------------------------------------
    def make_file_system(self, path: str, fs_type: str, options: Sequence[str]) -> None:
        device, disk = self.block(path), self._disk(path)
        if disk.signature.content is not Content.NOTHING:
            raise OSError(errno.EEXIST, f"it holds {disk.signature.content.value}", path)
        if self._is_claimed(device):
            raise failure(errno.EBUSY, path)
        command = file_system_tools.make_command(path, fs_type, options)
        result = self._run(command)
        if result.status == 0 and device.read_only:
            result = ProgramResult(status=1, output=os.strerror(errno.EROFS))
        if result.status != 0:
            raise ProgramFailed(command[0], path, result)
        self.fill(path, Signature(content=Content.FILE_SYSTEM, type=fs_type))

    def check_file_system(self, path: str) -> CheckReport:
        self.block(path)
        try:
            return file_system_tools.check_report(self._run(file_system_tools.check_command(path)))
        except ProgramMissing as missing:
            return CheckReport(check=Check.NO_PROGRAM, output=str(missing))

    def grow_file_system(self, path: str, mounted: str, fs_type: str) -> None:
        self.block(path)
        command = file_system_tools.grow_command(path, mounted, fs_type)
        result = self._run(command)
        file_system = self._disk(path).file_system
        if result.status == 0 and (file_system is None or file_system.type != fs_type):
            result = ProgramResult(status=1, output="Bad magic number in super-block")
        if result.status != 0 or file_system is None:
            raise ProgramFailed(command[0], path, result)
        file_system.limit = self._disk(path).size

    # -- mounting ------------------------------------------------------------------------------------------------
    def mount(self, path: str, target: str, fs_type: str, options: Sequence[str]) -> None:
        device = self.block(path)
        chosen = mount_options.parse(options)
        if fs_type not in _KERNEL_TYPES:
            raise failure(errno.ENODEV, target)
        for word in chosen.words:
            name = word.partition("=")[0]
            if name not in _WORDS:
                raise OSError(errno.EINVAL, f"Invalid argument; {fs_type}: Unknown parameter '{name}'", target)
        disk = device.disk
        file_system = None if disk is None else disk.file_system
        if device.read_only and not chosen.read_only:
            raise failure(errno.EACCES, target)
        if file_system is None or file_system.type not in _OLDER.get(fs_type, {fs_type}):
            raise failure(errno.EINVAL, target)
        if self._mounts.shows(file_system):
            if file_system.read_only is not chosen.read_only:
                raise failure(errno.EBUSY, target)
        elif device.claims:
            raise failure(errno.EBUSY, target)
        else:
            file_system.read_only, file_system.device, file_system.source = chosen.read_only, device.number, path
            file_system.options = ",".join((*chosen.super_flags, *chosen.words))
        self._mounts.mount_device(target, file_system, read_only=chosen.read_only, flags=chosen.mount_flags)

    # -- loop devices --------------------------------------------------------------------------------------------
    def attach_loop(self, file: str, read_only: bool) -> str:
        mount, node = resolve(self._mounts.root, file)
        backing = self._devices.get(node)
        if node.entries is not None:
            raise failure(errno.EISDIR if not read_only else errno.EINVAL, file)
        if not read_only and (mount.read_only and backing is None):
            raise failure(errno.EROFS, file)
        if not read_only and backing is not None and backing.read_only:
            raise failure(errno.EACCES, file)
        disk = backing.disk if backing is not None else self._disks_of_files.setdefault(node, Disk(len(node.data)))
        loop = self._free_loop()
        loop.disk, loop.read_only, loop.backing = disk, read_only, Backing(mount, node)
        return loop.path

    def loop_of(self, file: str) -> str | None:
        wanted = {file}
        with suppress(FileNotFoundError, NotADirectoryError):
            wanted.add(path_of(*resolve(self._mounts.root, file)))
        found = (loop for loop in self._loops() if loop.backing is not None and loop.backing.path in wanted)
        return next((loop.path for loop in found), None)

    def detach_loop(self, path: str) -> None:
        loop = self.block(path)
        if loop.major != _LOOP_MAJOR:
            raise failure(errno.ENOTTY, path)
        if self._is_claimed(loop):
            raise failure(errno.EBUSY, path)
        if loop.backing is None:
            raise failure(errno.ENXIO, path)
        loop.backing.close()
        loop.backing, loop.disk, loop.read_only = None, None, False

    # -- what happens to machines --------------------------------------------------------------------------------
    def forget_all(self) -> None:
        """What a reboot does: no device is claimed, and no loop device has a file."""
        for device in self._devices.values():
            device.claims = 0
        for loop in self._loops():
            loop.backing, loop.disk, loop.read_only = None, None, False

    def descriptions(self, prefix: str) -> Iterator[str]:
        """One line for each device below a directory, with everything about it that is worth comparing."""
        for device in self._devices.values():
            if not device.path.startswith(f"{prefix}/"):
                continue
            access = "ro" if device.read_only else "rw"
            line = f"{device.path} {device.major}:{device.minor} {access} {device.size}"
            if device.disk is not None:
                line += f" {device.disk.signature.content.value} {device.disk.signature.type}".rstrip()
            if device.disk is not None and device.disk.file_system is not None:
                line += f" {device.disk.file_system.limit}"
            yield line if device.backing is None else f"{line} <- {device.backing.path}"

    def _is_claimed(self, device: Device) -> bool:
        file_system = None if device.disk is None else device.disk.file_system
        is_mounted = file_system is not None and self._mounts.shows(file_system)
        return bool(device.claims) or (is_mounted and file_system is not None and file_system.device == device.number)

    def _disk(self, path: str) -> Disk:
        disk = self.block(path).disk
        if disk is None or disk.size == 0:
            raise failure(errno.ENOMEDIUM, path)
        return disk

    def _new_file_system(self, fs_type: str, path: str, device: Device, size: int) -> FileSystem:
        root = self._files.new_directory(0o755)
        if fs_type.startswith("ext") and root.entries is not None:
            found = root.entries["lost+found"] = self._files.new_directory(0o700)
            found.parent, found.name = root, "lost+found"
        return FileSystem(fs_type, path, device.number, root, size, "")

    def _loops(self) -> list[Device]:
        found = [device for device in self._devices.values() if device.major == _LOOP_MAJOR]
        return sorted(found, key=lambda loop: loop.minor)

    def _free_loop(self) -> Device:
        taken = self._loops()
        for loop in taken:
            if loop.backing is None:
                return loop
        with suppress(FileExistsError):
            self._files.make("/dev", FileKind.DIRECTORY, 0o755)
        path = f"/dev/loop{len(taken)}"
        node = self._files.make(path, FileKind.BLOCK_DEVICE, 0o660)
        self._devices[node] = loop = Device(FileKind.BLOCK_DEVICE, _LOOP_MAJOR, len(taken), path, None)
        return loop
