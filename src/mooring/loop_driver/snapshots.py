"""The Controller service for snapshots: what a volume holds at one moment, kept as a file of its own."""

from __future__ import annotations

from dataclasses import replace

from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode

from mooring.loop_driver.copies import Copies
from mooring.loop_driver.driver import Calls, Driver
from mooring.loop_driver.failures import Failure, require
from mooring.loop_driver.paging import ids_of, page
from mooring.loop_driver.volumes import Phase, Snapshot, snapshot_id
from mooring.stubs import csi_pb2 as csi


class Snapshots:
    def __init__(self, driver: Driver, copies: Copies) -> None:
        self._driver = driver
        self._shelf = driver.shelf
        self._copies = copies

    def calls(self) -> Calls:
        return {
            csi.CreateSnapshotRequest: self.create,
            csi.DeleteSnapshotRequest: self.delete,
            csi.ListSnapshotsRequest: self.list_all,
            csi.GetSnapshotRequest: self.get,
        }

    async def create(self, request: csi.CreateSnapshotRequest) -> csi.CreateSnapshotResponse:
        what = "take a snapshot"
        require(what, name=request.name, source_volume_id=request.source_volume_id)
        if request.parameters:
            why = f"the parameter {min(request.parameters)!r} is not known; snapshots have none"
            raise Failure(StatusCode.INVALID_ARGUMENT, f"cannot {what}", why=why)
        identity = snapshot_id(request.name)
        with self._driver.locks.holding(what, identity, request.source_volume_id):
            self._shelf.require_explained(what, identity)
            snapshot = await self._shelf.finished(self._shelf.snapshots.get(identity))
            if snapshot is None:
                snapshot = await self._make(what, request)
            elif snapshot.volume_id != request.source_volume_id:
                why = f"there is a snapshot {request.name!r} of another volume, {snapshot.volume_id!r}"
                raise Failure(StatusCode.ALREADY_EXISTS, f"cannot {what}", why=why)
        return csi.CreateSnapshotResponse(snapshot=_described(snapshot))

    async def _make(self, what: str, request: csi.CreateSnapshotRequest) -> Snapshot:
        volume = self._shelf.volume(what, request.source_volume_id)
        self._driver.require_room(what, volume.size)
        snapshot = Snapshot(
            id=snapshot_id(request.name),
            name=request.name,
            volume_id=volume.id,
            size=volume.size,
            created_at=self._driver.now(),
            phase=Phase.CREATING,
        )
        await self._copies.fill(snapshot, self._copies.of_volume(volume))
        return await self._shelf.keep(replace(snapshot, phase=Phase.READY))

    async def delete(self, request: csi.DeleteSnapshotRequest) -> csi.DeleteSnapshotResponse:
        what = "delete a snapshot"
        require(what, snapshot_id=request.snapshot_id)
        with self._driver.locks.holding(what, request.snapshot_id):
            self._shelf.require_explained(what, request.snapshot_id)
            snapshot = self._shelf.snapshots.get(request.snapshot_id)
            if snapshot is not None:
                await self._shelf.forget(snapshot)
        return csi.DeleteSnapshotResponse()

    async def get(self, request: csi.GetSnapshotRequest) -> csi.GetSnapshotResponse:
        what = "look at a snapshot"
        require(what, snapshot_id=request.snapshot_id)
        self._shelf.require_explained(what, request.snapshot_id)
        snapshot = self._shelf.snapshots.get(request.snapshot_id)
        if snapshot is None or snapshot.phase is not Phase.READY:
            why = f"there is no snapshot {request.snapshot_id!r}"
            raise Failure(StatusCode.NOT_FOUND, f"cannot {what}", why=why)
        return csi.GetSnapshotResponse(snapshot=_described(snapshot))

    async def list_all(self, request: csi.ListSnapshotsRequest) -> csi.ListSnapshotsResponse:
        """Those asked for; one that does not exist is no error but an empty list."""
        wanted = [
            each
            for each in self._shelf.ready_snapshots()
            if request.snapshot_id in ("", each.id) and request.source_volume_id in ("", each.volume_id)
        ]
        ids, token = page("list snapshots", ids_of(wanted), token=request.starting_token, most=request.max_entries)
        entries = [
            csi.ListSnapshotsResponse.Entry(snapshot=_described(self._shelf.snapshots[identity])) for identity in ids
        ]
        return csi.ListSnapshotsResponse(entries=entries, next_token=token)


def _described(snapshot: Snapshot) -> csi.Snapshot:
    seconds, nanos = divmod(snapshot.created_at, 10**9)
    return csi.Snapshot(
        snapshot_id=snapshot.id,
        source_volume_id=snapshot.volume_id,
        size_bytes=snapshot.size,
        creation_time=Timestamp(seconds=seconds, nanos=nanos),
        ready_to_use=True,
    )
