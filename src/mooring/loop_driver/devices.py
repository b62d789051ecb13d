"""The loop devices of volumes, and their file systems: attached, mounted at a stage, grown, and let go again.

Plain calls on a host, which may hang; each looks first what is there, so that it can be asked for twice.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from grpc import StatusCode

from mooring.errors import Doubtful, Refused
from mooring.host import file_systems
from mooring.host.interface import Content, Host, MountFacts
from mooring.host.mount_points import unmount_layers
from mooring.host.programs import ProgramFailed
from mooring.loop_driver.backing import BackingFiles
from mooring.loop_driver.failures import Failure

_CHECK_TIME = 3600.0  # seconds; as long as the host gives other programs
_CHECKED = (0, 1)  # e2fsck: clean, or errors were corrected


class Devices:
    """Does what is done to the device of one volume at a time."""

    def __init__(self, host: Host, backing: BackingFiles) -> None:
        self._host = host
        self._backing = backing

    # -- loop devices ----------------------------------------------------------------------------------------------
    def attached(self, disk: str, *, read_only: bool = False) -> str:
        """The loop device of a file; one is attached if there is none."""
        return self._host.loop_of(disk) or self._host.attach_loop(disk, read_only=read_only)

    def view(self, device: str) -> str:
        """A device that shows another one and cannot be written to, as one that is bound read-only can."""
        return self._host.loop_of(device) or self._host.attach_loop(device, read_only=True)

    def drop_view(self, device: str) -> None:
        """Let go of the read-only view of a device."""
        while (view := self._host.loop_of(device)) is not None:
            self._detach(view, device)

    def release(self, disk: str) -> None:
        """Let go of the loop device of a file, and of the views of it."""
        while (device := self._host.loop_of(disk)) is not None:
            self.drop_view(device)
            self._detach(device, disk)

    def _detach(self, device: str, file: str) -> None:
        try:
            self._host.detach_loop(device)
        except OSError as error:
            if error.errno != errno.ENXIO or self._host.loop_of(file) == device:  # ENXIO: somebody was faster
                raise

    # -- stages ----------------------------------------------------------------------------------------------------
    def mount(
        self, disk: str, path: str, fs_type: str, flags: Sequence[str], *, read_only: bool, is_copy: bool, grow: bool
    ) -> None:
        """Mount the file system of a file at a directory, formatted before if the file holds nothing at all.

        What goes wrong leaves no device behind. With `grow` the file system fills the file afterwards.
        """
        with self._released_on_failure(disk):
            device = self.attached(disk, read_only=read_only)
            mounted = self._host.mount_at(path)
            if mounted is not None:
                self._require_same(mounted, device, path)
                return
            may_grow = grow and not read_only
            was_grown = may_grow and self._grow_unmounted(device, path)
            # Flags may hold passwords: they are kept out of what is said when they do not work.
            file_systems.format_and_mount(
                self._host,
                device,
                path,
                fs_type,
                [*(["ro"] if read_only else []), *(["nouuid"] if is_copy and fs_type == "xfs" else [])],
                sensitive_options=flags,
            )
            if may_grow and not was_grown:
                file_systems.grow_to_device(self._host, device, path)

    def unmount(self, disk: str, path: str) -> None:
        """Take away the mount of a file's device at a directory, and the device."""
        mounted, device = self._host.mount_at(path), self._host.loop_of(disk)
        if mounted is not None:
            self._require_same(mounted, device or "", path)
            unmount_layers(self._host, path)
        self.release(disk)

    def is_mounted(self, disk: str, path: str) -> bool:
        """Whether the file system of a file is what is mounted there."""
        mounted, device = self._host.mount_at(path), self._host.loop_of(disk)
        return mounted is not None and device is not None and _shows(self._host, mounted, device)

    @contextmanager
    def _released_on_failure(self, disk: str) -> Iterator[None]:
        """A caller that is told of a failure does not come back to take anything away."""
        try:
            yield
        except Doubtful:  # it does come back
            raise
        except BaseException:
            with suppress(OSError):  # busy: then it was staged before, and stays so
                self.release(disk)
            raise

    def _require_same(self, mounted: MountFacts, device: str, path: str) -> None:
        if not _shows(self._host, mounted, device):
            raise Failure(
                StatusCode.FAILED_PRECONDITION,
                f"cannot use {path!r}",
                why=f"something else is mounted there, {mounted.fs_type} from {mounted.source!r}",
                next_step="Find out whose it is; it is left alone",
            )

    # -- growing ---------------------------------------------------------------------------------------------------
    def grow(self, disk: str, path: str | None) -> None:
        """Let the devices of a file have its new size, and the file system that is mounted at a path fill it."""
        device = self._host.loop_of(disk)
        if device is None:
            return  # the next one is as large as the file
        self._backing.notice_size(device)
        if (view := self._host.loop_of(device)) is not None:
            self._backing.notice_size(view)
        if path is None:
            return
        try:
            file_systems.grow_to_device(self._host, device, path)
        except Refused as error:
            if not isinstance(error.__cause__, PermissionError):
                raise
            raise Failure(
                StatusCode.FAILED_PRECONDITION,
                error.what,
                why=error.why,
                next_step="It is grown by itself before it is mounted the next time: let all pods that use it end",
            ) from error

    def _grow_unmounted(self, device: str, path: str) -> bool:
        """Grow an ext file system, which needs no capability while it is not mounted; others grow when they are."""
        self._backing.notice_size(device)
        found = self._host.signature(device)
        if found.content is not Content.FILE_SYSTEM or not found.type.startswith("ext"):
            return found.content is Content.NOTHING  # which is formatted to its full size
        command = ["e2fsck", "-f", "-p", device]
        result = self._host.run_program(command, deadline=_CHECK_TIME)
        if result.status not in _CHECKED:
            raise ProgramFailed(command[0], device, result)
        self._host.grow_file_system(device, path, found.type)
        return True

    # -- holding still ---------------------------------------------------------------------------------------------
    @contextmanager
    def still(self, disk: str, path: str | None) -> Iterator[None]:
        """Keep what a file holds from changing, as far as that goes, while it is copied.

        A file system at the path is frozen. Users of a raw device may go on: what they wrote before is in the file.
        """
        device = self._host.loop_of(disk)
        if device is None:
            yield
            return
        frozen = path is not None and self.is_mounted(disk, path) and self._backing.freeze(path)
        try:
            self._backing.settle(device)
            yield
        finally:
            if frozen and path is not None:
                self._backing.thaw(path)


def _shows(host: Host, mounted: MountFacts, device: str) -> bool:
    """Whether a mount is of this device. A btrfs has a number of its own, and only its source tells."""
    if not device:
        return False
    facts = host.device(device)
    return mounted.source == device or (facts is not None and mounted.device == os.makedev(facts.major, facts.minor))
