"""Where volumes are published: a directory or file is made, bound onto, and taken away again."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from grpc import StatusCode

from mooring.errors import Refused
from mooring.host import mount_options
from mooring.host.interface import FileKind, Host
from mooring.host.mount_points import clear_mount_point, unmount_layers
from mooring.loop_driver.devices import Devices
from mooring.loop_driver.failures import Failure
from mooring.loop_driver.volumes import Access, Stage, Target, Volume


class Targets:
    """Binds the stage or the device of a volume to targets; plain calls on a host, which may hang."""

    def __init__(self, host: Host, devices: Devices) -> None:
        self._host = host
        self._devices = devices

    def live(self, volume: Volume) -> tuple[Target, ...]:
        """The targets at which something is mounted: a machine that started again has lost them all."""
        return tuple(each for each in volume.targets if self._host.mount_at(each.path) is not None)

    def publish(self, disk: str, stage: Stage, target: Target, flags: Sequence[str]) -> None:
        """Let the volume be seen at a target. What is there already stays, and a failure leaves nothing there."""
        if self._host.mount_at(target.path) is not None:
            return
        source = self._device(disk, target) if target.access is Access.BLOCK else self._mounted_stage(disk, stage)
        self._make(target)
        try:
            self._host.bind(
                source,
                target.path,
                read_only=target.read_only,
                flags=mount_options.parse(flags).mount_flags if target.access is Access.MOUNT else (),
            )
        except OSError as error:
            self.clear(target.path)
            raise Refused(f"cannot publish at {target.path!r}", why=error.strerror or str(error)) from error

    def unpublish(self, disk: str, target: Target, others: Sequence[Target]) -> None:
        """Take a target away, and the read-only view of a device with the last one that showed it."""
        self.clear(target.path)
        device = self._host.loop_of(disk)
        if device is not None and not any(each.access is Access.BLOCK and each.read_only for each in others):
            self._devices.drop_view(device)

    def clear(self, path: str) -> None:
        """Unmount what is at a target, and remove it; only what a driver makes there is removed."""
        unmount_layers(self._host, path)
        facts = self._host.look(path)
        if facts is None:
            return
        if facts.kind is FileKind.FILE and facts.size == 0:
            self._host.remove_file(path)
        else:
            clear_mount_point(self._host, path)

    def _device(self, disk: str, target: Target) -> str:
        device = self._host.loop_of(disk)
        if device is None:
            raise _not_staged(target)
        return self._devices.view(device) if target.read_only else device

    def _mounted_stage(self, disk: str, stage: Stage) -> str:
        if not self._devices.is_mounted(disk, stage.path):
            raise Failure(
                StatusCode.FAILED_PRECONDITION,
                "cannot publish a volume",
                why=f"it is not mounted at {stage.path!r}, where it was staged",
                next_step="Stage it again",
            )
        return stage.path

    def _make(self, target: Target) -> None:
        try:
            with suppress(FileExistsError):
                if target.access is Access.BLOCK:
                    self._host.create_file(target.path, 0o600)
                else:
                    self._host.make_directory(target.path, 0o750)
        except (FileNotFoundError, NotADirectoryError):
            raise Failure(
                StatusCode.FAILED_PRECONDITION,
                f"cannot publish at {target.path!r}",
                why="the directory above it does not exist",
                next_step="Make it: a driver makes the target only",
            ) from None


def _not_staged(target: Target) -> Failure:
    return Failure(
        StatusCode.FAILED_PRECONDITION,
        f"cannot publish at {target.path!r}",
        why="the volume has no device: it is not staged",
        next_step="Stage it again",
    )
