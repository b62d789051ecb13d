"""Staging: the device of a volume is there, and its file system is mounted, as long as the volume is staged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from grpc import StatusCode

from mooring.errors import Doubtful, MooringError
from mooring.loop_driver.devices import Devices
from mooring.loop_driver.driver import Driver
from mooring.loop_driver.failures import Failure
from mooring.loop_driver.targets import Targets
from mooring.loop_driver.volumes import Access, Stage, Volume


class Stages:
    """Stages and unstages volumes that the caller holds the lock of."""

    def __init__(self, driver: Driver, devices: Devices, targets: Targets) -> None:
        self._driver = driver
        self._shelf = driver.shelf
        self._devices = devices
        self._targets = targets

    async def stage(self, volume: Volume, stage: Stage, flags: Sequence[str]) -> Volume:
        """Stage a volume, and return what is known of it then. One that is staged so already stays."""
        before = volume.stage
        if before is not None and before != stage:
            await self._require_stale(volume, before, stage)
        if before != stage:
            volume = await self._shelf.keep(replace(volume, stage=stage))
        try:
            await self._driver.on_host(lambda: self._make(volume, stage, flags), f"stage {volume.id}")
        except Doubtful:
            raise
        except (MooringError, OSError):
            if before != stage:
                await self._shelf.keep(replace(volume, stage=before))
            raise
        if volume.needs_growth and stage.access is Access.MOUNT and not stage.read_only:
            volume = await self._shelf.keep(replace(volume, needs_growth=False))
        return volume

    async def unstage(self, volume: Volume) -> Volume:
        """Take away the stage of a volume and its device; refused while it is published."""
        stage = volume.stage
        if stage is None:
            return volume
        live = await self._driver.on_host(lambda: self._targets.live(volume), f"look at {volume.id}")
        if live:
            raise Failure(
                StatusCode.FAILED_PRECONDITION,
                f"cannot unstage volume {volume.id!r}",
                why=f"it is still published at {live[0].path!r}",
                next_step="Unpublish it there first",
            )
        await self._driver.on_host(lambda: self._clear(volume, stage), f"unstage {volume.id}")
        return await self._shelf.keep(replace(volume, stage=None, targets=()))

    def _make(self, volume: Volume, stage: Stage, flags: Sequence[str]) -> None:
        disk = self._shelf.disk(volume.id)
        if stage.access is Access.BLOCK:
            self._devices.attached(disk, read_only=stage.read_only)
            return
        self._devices.mount(
            disk,
            stage.path,
            stage.fs_type,
            flags,
            read_only=stage.read_only,
            is_copy=volume.source is not None,
            grow=volume.needs_growth,
        )

    def _clear(self, volume: Volume, stage: Stage) -> None:
        disk = self._shelf.disk(volume.id)
        if stage.access is Access.BLOCK:
            self._devices.release(disk)
        else:
            self._devices.unmount(disk, stage.path)

    async def _require_stale(self, volume: Volume, before: Stage, stage: Stage) -> None:
        """Another stage may be forgotten only when nothing of it is left, as after a start of the machine."""
        disk = self._shelf.disk(volume.id)
        is_there = await self._driver.on_host(
            lambda: self._driver.host.loop_of(disk) is not None, f"look at {volume.id}"
        )
        if not is_there:
            return
        if before.path == stage.path:
            code, why = StatusCode.ALREADY_EXISTS, f"it is staged there as {described(before)}, not {described(stage)}"
        else:
            code, why = StatusCode.FAILED_PRECONDITION, f"it is already staged at {before.path!r}"
        raise Failure(
            code, f"cannot stage volume {volume.id!r} at {stage.path!r}", why=why, next_step="Unstage it there first"
        )


def described(stage: Stage) -> str:
    kind = "a raw device" if stage.access is Access.BLOCK else stage.fs_type
    return f"{kind}, read-only" if stage.read_only else kind
