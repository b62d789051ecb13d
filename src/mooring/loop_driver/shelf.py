"""The driver's memory on disk: one record for each volume and snapshot, one file of blocks for each of them.

A record is written before what it tells of is done. What cannot be read is told as a finding, and nothing that may
belong to it is overwritten or removed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

import msgspec
from grpc import StatusCode

from mooring.host.durable_files import NEW
from mooring.host.interface import Host, Risk
from mooring.host.records import Damage, Record, Records
from mooring.loop_driver.failures import Failure, unknown_volume
from mooring.loop_driver.volumes import Phase, Snapshot, Volume, file_name
from mooring.world.findings import Finding

_DISK = ".img"

Kept = TypeVar("Kept", bound=Volume | Snapshot)


class Shelf:
    """All volumes and snapshots. Reading is free; changes are durable when they return."""

    def __init__(self, host: Host, directory: str) -> None:
        self.directory = directory
        self.disks = f"{directory}/disks"
        self.stages = f"{directory}/stages"  # where inline volumes are mounted, which nobody else stages
        self.volumes: dict[str, Volume] = {}
        self.snapshots: dict[str, Snapshot] = {}
        self.findings: list[Finding] = []
        self._host = host
        self._volume_records = Records(host, f"{directory}/volumes")
        self._snapshot_records = Records(host, f"{directory}/snapshots")
        self._unexplained: dict[str, str] = {}

    # -- looking ---------------------------------------------------------------------------------------------------
    def volume(self, what: str, volume_id: str) -> Volume:
        """A volume that is ready; NOT_FOUND when there is none of this id."""
        self.require_explained(what, volume_id)
        found = self.volumes.get(volume_id)
        if found is None or found.phase is not Phase.READY:
            raise unknown_volume(what, volume_id)
        return found

    def ready_volumes(self) -> list[Volume]:
        """The volumes that were asked for by name, sorted by id."""
        found = (each for each in self.volumes.values() if each.phase is Phase.READY and not each.inline)
        return sorted(found, key=lambda each: each.id)

    def ready_snapshots(self) -> list[Snapshot]:
        found = (each for each in self.snapshots.values() if each.phase is Phase.READY)
        return sorted(found, key=lambda each: each.id)

    def bytes_promised(self) -> int:
        """The sizes of all there is, with what is being made."""
        volumes, snapshots = self.volumes.values(), self.snapshots.values()
        return sum(each.size for each in volumes) + sum(each.size for each in snapshots)

    def disk(self, identity: str) -> str:
        """The path of the file that holds the blocks of a volume or snapshot."""
        return f"{self.disks}/{file_name(identity)}{_DISK}"

    def inline_stage(self, volume_id: str) -> str:
        return f"{self.stages}/{file_name(volume_id)}"

    def require_explained(self, what: str, identity: str) -> None:
        """Refuse to touch a volume or snapshot that something unreadable may belong to."""
        why = self._unexplained.get(file_name(identity))
        if why is not None:
            raise Failure(
                StatusCode.INTERNAL,
                f"cannot {what}",
                why=why,
                next_step=f"Save {self.disk(identity)!r} if you need it, remove what is damaged, and start again",
            )

    # -- changing --------------------------------------------------------------------------------------------------
    async def keep(self, thing: Kept) -> Kept:
        """Remember it so. It counts at once; when this returns it is on the disk as well."""
        known = self._known(thing)
        before = known.get(thing.id)
        known[thing.id] = thing
        body = msgspec.to_builtins(thing)
        records = self._records(thing)
        try:
            await self._host.run(
                lambda: records.write({file_name(thing.id): body}),
                risk=Risk.BULKY,
                what=f"remember {thing.id}",
            )
        except BaseException:
            if before is None:
                del known[thing.id]
            else:
                known[thing.id] = before
            raise
        return thing

    async def finished(self, thing: Kept | None) -> Kept | None:
        """The thing if it is ready; what a try left that failed is forgotten."""
        if thing is None or thing.phase is Phase.READY:
            return thing
        await self.forget(thing)
        return None

    async def forget(self, thing: Volume | Snapshot) -> None:
        """Remove the blocks, then the record; a crash in between is made good at the next start."""
        disk, records = self.disk(thing.id), self._records(thing)

        def remove() -> None:
            if self._host.look(disk) is not None:
                self._host.remove_file(disk)
            records.remove([file_name(thing.id)])

        if thing.phase is Phase.READY:
            await self.keep(replace(thing, phase=Phase.DELETING))
        await self._host.run(remove, risk=Risk.BULKY, what=f"remove {thing.id}")
        self._known(thing).pop(thing.id, None)

    def _known(self, thing: Volume | Snapshot) -> dict[str, Any]:
        return self.volumes if isinstance(thing, Volume) else self.snapshots

    def _records(self, thing: Volume | Snapshot) -> Records:
        return self._volume_records if isinstance(thing, Volume) else self._snapshot_records

    # -- starting --------------------------------------------------------------------------------------------------
    async def load(self) -> None:
        """Read all there is; what cannot be read or explained becomes a finding."""
        await self._host.run(self._load, risk=Risk.BULKY, what=f"read {self.directory}")

    def _load(self) -> None:
        for place in (self.directory, self.disks, self.stages):
            self._host.make_directories(place, 0o700)
        for volume in self._read(self._volume_records, Volume):
            self.volumes[volume.id] = volume
        for snapshot in self._read(self._snapshot_records, Snapshot):
            self.snapshots[snapshot.id] = snapshot
        known = {file_name(identity) for identity in (*self.volumes, *self.snapshots)}
        for name in self._host.names_in(self.disks):
            stem = name.removesuffix(_DISK)
            if name.endswith(NEW):  # a copy that was not finished
                self._host.remove_file(f"{self.disks}/{name}")
            elif stem not in known and stem not in self._unexplained:
                self._tell(stem, f"{self.disks}/{name}", "no record tells what this file belongs to")

    def _read(self, records: Records, kind: type[Kept]) -> list[Kept]:
        records.sweep()
        reading = records.read()
        found, damaged = [], list(reading.damaged)
        for record in reading.records:
            try:
                found.append(_decoded(record, kind))
            except (msgspec.ValidationError, ValueError) as error:
                damaged.append(Damage(path=records.path(record.name), why=str(error)))
        for damage in damaged:
            self._tell(records.name(damage.path), damage.path, f"this record cannot be used: {damage.why}")
        return found

    def _tell(self, stem: str, where: str, what: str) -> None:
        self._unexplained[stem] = f"{what} ({where})"
        next_step = f"Its blocks, if any, stay in {self.disks}/{stem}{_DISK}; save or remove both, then start again"
        self.findings.append(Finding(kind="loop-driver", where=where, what=what, next_step=next_step))


def _decoded(record: Record, kind: type[Kept]) -> Kept:
    thing = msgspec.convert(record.body, kind)
    if file_name(thing.id) != record.name:
        raise ValueError(f"it tells of {thing.id!r}, which would have another name")
    return thing
