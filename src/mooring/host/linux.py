"""`LinuxHost`: the machine mooring runs on.

Directories and files get the modes a umask of 022 gives. The daemon sets that umask when it starts; a host made in a
process with another one corrects each mode afterwards, which costs a call more.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from mooring.host import (
    contents,
    device_mounts,
    devices,
    file_system_tools,
    loop_devices,
    mount_options,
    removal,
    signatures,
    subpath,
    usage,
)
from mooring.host import features as kernel
from mooring.host.chores import Chores, Sharing
from mooring.host.features import KernelFeatures
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
from mooring.host.linux_health import LinuxHealthCalls
from mooring.host.linux_mount_events import LinuxMountEvents
from mooring.host.linux_ownership import LinuxOwnershipCalls
from mooring.host.linux_storage import LinuxStorageCalls
from mooring.host.mount_events import Shown
from mooring.host.mount_limits import MountRoom
from mooring.host.mounts import Mounts
from mooring.host.paths import checked_relative
from mooring.host.programs import PLACES
from mooring.host.threads import Threads

T = TypeVar("T")
P = ParamSpec("P")
_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK  # a fifo without a writer must not block
_HANDLE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_PIECE = 1 << 16
_DIRECTORY_BITS = 0o1755  # what a umask of 022 leaves; mkdir(2) takes no setuid and setgid bits
_KINDS = {
    stat.S_IFDIR: FileKind.DIRECTORY,
    stat.S_IFREG: FileKind.FILE,
    stat.S_IFLNK: FileKind.LINK,
    stat.S_IFSOCK: FileKind.SOCKET,
    stat.S_IFCHR: FileKind.CHARACTER_DEVICE,
    stat.S_IFBLK: FileKind.BLOCK_DEVICE,
    stat.S_IFIFO: FileKind.FIFO,
}


class LinuxHost(LinuxStorageCalls, LinuxHealthCalls, LinuxOwnershipCalls):
    """The machine itself. Mounts are those of the mount namespace in which the host was made."""

    def __init__(
        self,
        *,
        features: KernelFeatures | None = None,
        deadline: float = 120.0,
        pool_size: int = 4,
        search_path: str = PLACES,
        debts_directory: str | None = None,
        sharing: Sharing = Sharing.AUTO,
    ) -> None:
        LinuxStorageCalls.__init__(self, search_path)
        LinuxHealthCalls.__init__(self, debts_directory)
        LinuxOwnershipCalls.__init__(self, deadline)
        self.features = kernel.probe() if features is None else features
        self.threads = Threads(pool_size=pool_size, deadline=deadline)
        self._mounts = Mounts(self.features)
        self._umask = _process_umask()
        self.chores = Chores(self, sharing)

    # -- looking -------------------------------------------------------------------------------------------------
    def look(self, path: str) -> FileFacts | None:
        try:
            return _facts(os.lstat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def look_through(self, path: str) -> FileFacts | None:
        try:
            return _facts(os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names_in(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def links_in(self, path: str) -> dict[str, bool]:
        return contents.links_in(path)

    def holds_files(self, path: str, files: Mapping[str, bytes]) -> bool:
        return contents.holds_files(path, files)

    def read_file(self, path: str) -> bytes:
        descriptor = os.open(path, _READ)
        try:
            data = piece = os.read(descriptor, _PIECE)
            while piece:
                piece = os.read(descriptor, _PIECE)
                data += piece
            return data
        finally:
            os.close(descriptor)

    def read_link(self, path: str) -> str | None:
        try:
            return os.readlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def mount_at(self, path: str) -> MountFacts | None:
        return self._mounts.at(path)

    def mount_by_id(self, identity: int) -> MountFacts | None:
        return self._mounts.by_id(identity)

    def mounts(self) -> Sequence[MountFacts]:
        return self._mounts.all()

    def mount_id_at(self, path: str) -> int | None:
        return self._mounts.id_at(path)

    def shown_by(self, identity: int) -> Shown | None:
        return self._mounts.shown(identity)

    def mount_room(self) -> MountRoom:
        return self._mounts.room()

    def watch_mounts(self, announce: Callable[[], None]) -> LinuxMountEvents:
        return LinuxMountEvents(announce, fanotify=self.features.mount_events)

    def file_system_usage(self, path: str) -> FileSystemUsage:
        return usage.file_system_usage(path)

    def tree_usage(self, path: str, budget: int) -> TreeUsage:
        return usage.tree_usage(path, budget)

    # -- making --------------------------------------------------------------------------------------------------
    def make_directories(self, path: str, mode: int) -> bool:
        try:
            self.make_directory(path, mode)
        except FileNotFoundError:
            above = os.path.dirname(path)
            if not above or above == path:
                raise
            self.make_directories(above, mode)
            return self.make_directories(path, mode)
        except FileExistsError:
            if not _leads_to_directory(path):
                raise
            return False
        return True

    def make_directory(self, path: str, mode: int) -> None:
        mode &= _DIRECTORY_BITS
        os.mkdir(path, mode)
        if mode & self._umask:
            os.chmod(path, mode)

    def write_files(self, directory: str, files: Sequence[NewFile]) -> None:
        handle = os.open(directory, _HANDLE)
        handles = {"": handle}
        right: set[int] = set()
        try:
            for file in files:
                above, _, name = file.path.rpartition("/")
                if above and above not in handles:
                    self._open_directories(handles, checked_relative(above))
                _write_file(handles[above], name, file, right)
        except OSError as error:  # it names a path relative to a descriptor
            raise OSError(error.errno, error.strerror, f"{directory}/{file.path}") from None
        finally:
            for handle in handles.values():
                os.close(handle)

    def create_file(self, path: str, mode: int) -> None:
        descriptor = os.open(path, _NEW_FILE, mode)
        try:
            _give_mode(descriptor, mode)
        finally:
            os.close(descriptor)

    def make_link(self, text: str, path: str, uid: int | None = None) -> None:
        os.symlink(text, path)
        if uid is not None:
            os.lchown(path, uid, -1)

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def change_mode(self, path: str, mode: int) -> None:
        os.chmod(path, mode)

    # -- mounting ------------------------------------------------------------------------------------------------
    def mount_tmpfs(self, path: str, *, size: int | None = None, mode: int | None = None) -> None:
        self._mounts.mount_tmpfs(path, size, mode)

    def resize_tmpfs(self, path: str, size: int) -> None:
        self._mounts.resize_tmpfs(path, size)

    def make_writable(self, path: str) -> None:
        self._mounts.make_writable(path)

    def bind(
        self,
        source: str,
        target: str,
        *,
        read_only: bool = False,
        recursive: bool = False,
        flags: Sequence[str] = (),
    ) -> None:
        chosen = mount_options.parse([*flags, *(("ro",) if read_only else ())])
        self._mounts.bind(source, target, chosen, recursive)

    def unmount(self, path: str, *, lazy: bool = False, force: bool = False) -> None:
        self._mounts.unmount(path, lazy, force)

    # -- inside a volume -----------------------------------------------------------------------------------------
    def look_beneath(self, root: str, relative: str) -> FileFacts | None:
        try:
            with subpath.open_beneath(self.features, root, relative) as descriptor:
                return _facts(os.fstat(descriptor))
        except FileNotFoundError:
            return None

    def make_subpath(self, root: str, relative: str, mode: int) -> None:
        subpath.make_directories(self.features, root, relative, mode)

    def bind_beneath(self, root: str, relative: str, target: str, *, read_only: bool = False) -> None:
        with subpath.open_beneath(self.features, root, relative) as descriptor:
            self._mounts.bind_open(descriptor, target, read_only)

    # -- devices -------------------------------------------------------------------------------------------------
    def device(self, path: str) -> DeviceFacts | None:
        return devices.facts(path)

    def is_device_open(self, path: str) -> bool:
        return devices.is_open(path)

    def signature(self, device: str) -> Signature:
        return signatures.signature(device)

    def make_file_system(self, device: str, fs_type: str, options: Sequence[str] = ()) -> None:
        file_system_tools.make_file_system(device, fs_type, options)

    def check_file_system(self, device: str) -> CheckReport:
        return file_system_tools.check_file_system(device)

    def grow_file_system(self, device: str, path: str, fs_type: str) -> None:
        file_system_tools.grow_file_system(device, path, fs_type)

    def mount_device(self, device: str, path: str, fs_type: str, options: Sequence[str] = ()) -> None:
        device_mounts.mount_device(device, path, fs_type, options, self.features)

    def attach_loop(self, file: str, *, read_only: bool = False) -> str:
        return loop_devices.attach(file, read_only)

    def loop_of(self, file: str) -> str | None:
        return loop_devices.of(file)

    def detach_loop(self, device: str) -> None:
        loop_devices.detach(device)

    # -- removing ------------------------------------------------------------------------------------------------
    def remove_file(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def remove_tree(self, path: str) -> None:
        removal.remove_tree(path, self.features)

    # -- running -------------------------------------------------------------------------------------------------
    async def do(
        self, what: str, /, chore: Callable[Concatenate[Host, P], T], *arguments: P.args, **more: P.kwargs
    ) -> T:
        answer = self.chores.take((chore, arguments, more))
        if answer is None:
            return chore(self, *arguments, **more)
        result: T = await answer
        return result

    def expect_chores(self, count: int) -> None:
        self.chores.expect(count)

    async def run(self, call: Callable[[], T], *, risk: Risk, what: str, at: str = "") -> T:
        if risk is Risk.CHEAP:
            return call()
        return await self.threads.run(call, risk=risk, what=what, at=at)

    def close(self) -> None:
        """Give back the descriptor that watches the mount table, and end the process that shares work."""
        self.chores.close()
        self._mounts.close()

    def _open_directories(self, handles: dict[str, int], path: str) -> None:
        """Make the directories of a relative path where they are missing, and keep a handle of each."""
        above = ""
        for name in path.split("/"):
            here = f"{above}/{name}" if above else name
            if here not in handles:
                self._make_directory_in(handles[above], name)
                handles[here] = os.open(name, _HANDLE | os.O_NOFOLLOW, dir_fd=handles[above])
            above = here

    def _make_directory_in(self, directory: int, name: str) -> None:
        try:
            os.mkdir(name, 0o755, dir_fd=directory)
        except FileExistsError:
            return
        if self._umask & 0o755:
            os.chmod(name, 0o755, dir_fd=directory)


def _write_file(directory: int, name: str, file: NewFile, right: set[int]) -> None:
    """Write one of the files of a directory, all of which get the modes in `right` when they are made."""
    descriptor = os.open(name, _NEW_FILE, file.mode, dir_fd=directory)
    try:
        data = file.data
        written = os.write(descriptor, data) if data else 0
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])
        if file.uid is not None:
            os.fchown(descriptor, file.uid, -1)  # before the mode, of which it clears setuid and setgid
            os.fchmod(descriptor, file.mode)
        elif file.mode not in right and _give_mode(descriptor, file.mode):
            right.add(file.mode)
    finally:
        os.close(descriptor)


def _give_mode(descriptor: int, mode: int) -> bool:
    """Give a new file its mode, and tell whether it had it: a umask or a directory's default ACL may take bits."""
    if stat.S_IMODE(os.fstat(descriptor).st_mode) == mode:
        return True
    os.fchmod(descriptor, mode)
    return False


def _leads_to_directory(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except FileNotFoundError:  # a link that leads nowhere
        return False


def _facts(result: os.stat_result) -> FileFacts:
    mode = result.st_mode
    return FileFacts(
        kind=_KINDS[stat.S_IFMT(mode)],
        mode=mode & 0o7777,
        uid=result.st_uid,
        gid=result.st_gid,
        size=result.st_size,
        device=result.st_dev,
        inode=result.st_ino,
        modified_at=result.st_mtime,
    )


def _process_umask() -> int:
    with open("/proc/self/status", "rb") as file:
        for line in file:
            if line.startswith(b"Umask:"):
                return int(line[6:], 8)
    return 0o777  # unknown before Linux 4.7: every mode is corrected
