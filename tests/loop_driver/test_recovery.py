"""Drivers that are killed, machines that start again, and records that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from grpc import StatusCode
from tests.loop_driver.driver_calls import PODS, STAGE, mount, refused
from tests.loop_driver.memory_bench import STATE, Bench

from mooring.loop_driver.recovery import recover
from mooring.loop_driver.volumes import Phase, Snapshot, Volume, snapshot_id, volume_id
from mooring.stubs import csi_pb2 as csi

ONE, TWO = f"{PODS}/one", f"{PODS}/two"


class Killed(BaseException):
    """The driver ends at once, wherever it is."""


@pytest.fixture
def record(bench: Bench) -> str:
    """Where the record of the volume `data` lies."""
    return f"{STATE}/volumes/{volume_id('data')}.record"


async def test_a_driver_that_starts_again_knows_all_volumes_and_goes_on_with_them(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = await calls.create()
        await calls.stage(volume.volume_id)
        await calls.publish(volume.volume_id)
        snapshot = await calls.snapshot(volume.volume_id)
    async with bench.serving() as calls:
        assert await calls.create() == volume
        assert await calls.snapshot(volume.volume_id) == snapshot
        await calls.stage(volume.volume_id)
        await calls.publish(volume.volume_id)
        assert bench.mounts() == [STAGE, ONE]
        assert len(bench.loops()) == 1
        await calls.unpublish(volume.volume_id)
        await calls.unstage(volume.volume_id)
    assert bench.loops() == bench.mounts() == []


async def test_a_machine_that_starts_again_has_its_volumes_staged_anew(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await calls.stage(volume)
        await calls.publish(volume)
    bench.host.reboot()
    async with bench.serving() as calls:
        await refused(calls.publish(volume, f"{PODS}/two"), StatusCode.FAILED_PRECONDITION)  # not mounted any more
        await calls.stage(volume, path=PODS)  # another place is as good
        await calls.unstage(volume, path=PODS)
        await calls.delete(volume)
    assert bench.host.names_in(f"{STATE}/disks") == []


def steps(bench: Bench) -> Iterator[None]:
    """Let the driver die after one call more each time, until there are no more calls."""
    for survived in range(200):
        count = 0

        def after(method: str, path: str, last: int = survived) -> None:
            nonlocal count
            if count >= last:
                raise Killed
            count += 1

        bench.host.after_call = after
        yield
        bench.host.after_call = None
        if count < survived:
            return
    raise AssertionError("there is no end to it")


async def test_a_driver_may_die_after_every_step_and_nothing_is_lost_or_left(bench: Bench) -> None:
    for _ in steps(bench):
        bench.driver = bench.new_driver()
        with suppress(Killed):
            await _life(bench)
        bench.host.after_call = None
        async with bench.serving() as calls:  # the caller comes back and clears up
            for identity, target in ((volume_id("data"), ONE), ("csi-1", TWO)):
                await calls.unpublish(identity, target)
                await calls.unstage(identity)
                await calls.delete(identity)
            await calls.controller.DeleteSnapshot(csi.DeleteSnapshotRequest(snapshot_id=snapshot_id("before")))
        assert bench.driver.shelf.findings == []
        assert bench.loops() == bench.mounts() == bench.host.names_in(PODS) == []
        for directory in ("disks", "volumes", "snapshots", "stages"):
            if bench.host.look(f"{STATE}/{directory}") is not None:
                assert bench.host.names_in(f"{STATE}/{directory}") == []


async def _life(bench: Bench) -> None:
    """The life of two volumes, without a server: a driver that dies would take the test along."""
    from mooring.loop_driver.controller import Controller
    from mooring.loop_driver.node import Node

    await recover(bench.driver)
    calls = {**Controller(bench.driver).calls(), **Node(bench.driver).calls()}
    volume = volume_id("data")
    for request in (
        csi.CreateVolumeRequest(
            name="data", capacity_range=csi.CapacityRange(required_bytes=1 << 20), volume_capabilities=[mount()]
        ),
        csi.NodeStageVolumeRequest(volume_id=volume, staging_target_path=STAGE, volume_capability=mount()),
        csi.NodePublishVolumeRequest(
            volume_id=volume, staging_target_path=STAGE, target_path=ONE, volume_capability=mount()
        ),
        csi.CreateSnapshotRequest(source_volume_id=volume, name="before"),
        csi.NodeUnpublishVolumeRequest(volume_id=volume, target_path=ONE),
        csi.NodeUnstageVolumeRequest(volume_id=volume, staging_target_path=STAGE),
        csi.DeleteVolumeRequest(volume_id=volume),
        csi.NodePublishVolumeRequest(
            volume_id="csi-1",
            target_path=TWO,
            volume_capability=mount(),
            volume_context={"csi.storage.k8s.io/ephemeral": "true", "size": "1Mi"},
        ),
        csi.NodeUnpublishVolumeRequest(volume_id="csi-1", target_path=TWO),
    ):
        await calls[type(request)](request)


@pytest.mark.parametrize("garbage", [b"", b"garbage", b"\xff\xfe", None], ids=["empty", "text", "bytes", "cut short"])
async def test_a_record_that_cannot_be_read_is_a_finding_and_its_data_stays(
    bench: Bench, record: str, garbage: bytes | None
) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
    whole = bench.host.read_file(record)
    bench.host.put_file(record, whole[:-9] if garbage is None else garbage)
    async with bench.serving() as calls:
        (finding,) = bench.driver.shelf.findings
        words = await refused(calls.create(), StatusCode.INTERNAL)  # of the same name: it would overwrite the data
        await refused(calls.delete(volume), StatusCode.INTERNAL)
        await refused(calls.stage(volume), StatusCode.INTERNAL)
        await calls.create("other")  # the rest goes on
    assert finding.where == record
    assert volume in finding.next_step
    assert f"{STATE}/disks/{volume}.img" in words
    assert bench.host.look(f"{STATE}/disks/{volume}.img") is not None
    bench.host.put_file(record, whole)
    async with bench.serving() as calls:
        assert (await calls.create()).volume_id == volume
        assert bench.driver.shelf.findings == []


async def test_a_file_that_no_record_tells_of_is_a_finding_and_stays(bench: Bench, record: str) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
    bench.host.remove_file(record)
    async with bench.serving() as calls:
        (finding,) = bench.driver.shelf.findings
        await refused(calls.create(), StatusCode.INTERNAL)
    assert finding.where == f"{STATE}/disks/{volume}.img"
    assert bench.host.look(finding.where) is not None


async def test_what_was_not_finished_is_taken_back_and_what_was_being_deleted_goes(bench: Bench) -> None:
    await recover(bench.driver)
    shelf = bench.driver.shelf
    for name, phase in (("half", Phase.CREATING), ("going", Phase.DELETING)):
        await shelf.keep(Volume(id=volume_id(name), name=name, size=4096, phase=phase))
        await shelf.keep(Snapshot(id=snapshot_id(name), name=name, volume_id="", size=1, created_at=1, phase=phase))
        bench.host.put_file(shelf.disk(volume_id(name)), bytes(4096))
        bench.host.put_file(shelf.disk(snapshot_id(name)), b"x")
    async with bench.serving():
        pass
    for directory in ("disks", "volumes", "snapshots"):
        assert bench.host.names_in(f"{STATE}/{directory}") == []


async def test_a_frozen_file_system_is_thawed_at_the_next_start(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await calls.stage(volume)
    async with bench.serving():
        assert bench.backing.thawed == [STAGE]
