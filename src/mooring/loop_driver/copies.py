"""Filling the file of a new volume or snapshot: with nothing, or with what another one holds at this moment."""

from __future__ import annotations

from dataclasses import dataclass

from grpc import StatusCode

from mooring.errors import MooringError
from mooring.loop_driver.devices import Devices
from mooring.loop_driver.driver import Driver
from mooring.loop_driver.failures import Failure
from mooring.loop_driver.volumes import Access, Phase, Snapshot, Source, Volume


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """Where blocks are copied from; a file system of them is mounted at `mounted_at`, if any."""

    disk: str
    size: int
    mounted_at: str | None = None


class Copies:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._shelf = driver.shelf
        self._devices = Devices(driver.host, driver.backing)

    def origin(self, what: str, source: Source) -> Origin:
        """What a source stands for; NOT_FOUND when there is no such thing."""
        if source.volume_id:
            return self.of_volume(self._shelf.volume(what, source.volume_id))
        self._shelf.require_explained(what, source.snapshot_id)
        snapshot = self._shelf.snapshots.get(source.snapshot_id)
        if snapshot is None or snapshot.phase is not Phase.READY:
            why = f"there is no snapshot {source.snapshot_id!r}"
            raise Failure(StatusCode.NOT_FOUND, f"cannot {what}", why=why)
        return Origin(disk=self._shelf.disk(snapshot.id), size=snapshot.size)

    def of_volume(self, volume: Volume) -> Origin:
        stage = volume.stage
        path = stage.path if stage is not None and stage.access is Access.MOUNT else None
        return Origin(disk=self._shelf.disk(volume.id), size=volume.size, mounted_at=path)

    async def fill(self, thing: Volume | Snapshot, origin: Origin | None) -> None:
        """Write down that a thing is being made, and make its file; when that fails all of it is gone again."""
        await self._shelf.keep(thing)
        disk = self._shelf.disk(thing.id)

        def make() -> None:
            if origin is None:
                self._driver.backing.create(disk, thing.size)
                return
            with self._devices.still(origin.disk, origin.mounted_at):
                self._driver.backing.copy(origin.disk, disk, thing.size)

        try:
            await self._driver.on_host(make, f"make {disk}")
        except (MooringError, OSError):
            await self._shelf.forget(thing)
            raise
