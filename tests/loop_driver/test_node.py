"""Staging and publishing with the loop driver, at a real socket and on a machine in memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest
from grpc import StatusCode, aio
from tests.loop_driver.driver_calls import MEBIBYTE, PODS, STAGE, Mode, block, inline, mount, refused
from tests.loop_driver.memory_bench import STATE, Bench

from mooring.errors import Refused
from mooring.host.interface import FileKind, Risk
from mooring.host.programs import ProgramResult
from mooring.stubs import csi_pb2 as csi

T = TypeVar("T")


async def test_a_volume_goes_through_its_life_and_leaves_nothing(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        for _ in range(2):  # each step may be asked for twice
            await calls.stage(volume)
        for target in (f"{PODS}/one", f"{PODS}/two", f"{PODS}/one"):
            await calls.publish(volume, target)
        assert bench.mounts() == [STAGE, f"{PODS}/one", f"{PODS}/two"]
        for target in (f"{PODS}/one", f"{PODS}/two", f"{PODS}/one"):
            await calls.unpublish(volume, target)
        assert bench.host.names_in(PODS) == []
        for _ in range(2):
            await calls.unstage(volume)
        assert bench.loops() == bench.mounts() == []
        await calls.delete(volume)
    assert bench.host.names_in(f"{STATE}/disks") == bench.host.names_in(f"{STATE}/volumes") == []


async def test_a_raw_device_is_bound_onto_a_file(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await calls.stage(volume, block())
        await calls.publish(volume, capability=block())
        facts = bench.host.device(f"{PODS}/one")
        usage = (await calls.stats(volume)).usage
        await calls.unpublish(volume)
        await calls.unstage(volume)
    assert facts is not None
    assert facts.kind is FileKind.BLOCK_DEVICE
    assert [(each.unit, each.total) for each in usage] == [(csi.VolumeUsage.BYTES, MEBIBYTE)]
    assert bench.loops() == []
    assert bench.host.names_in(PODS) == []


async def test_a_raw_device_published_read_only_is_one_that_cannot_be_written(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await calls.stage(volume, block())
        await calls.publish(volume, f"{PODS}/one", block())
        await calls.publish(volume, f"{PODS}/two", block(), readonly=True)
        writer, reader = bench.host.device(f"{PODS}/one"), bench.host.device(f"{PODS}/two")
        await calls.unpublish(volume, f"{PODS}/two")
        left = bench.loops()
        await calls.unpublish(volume, f"{PODS}/one")
        await calls.unstage(volume)
    assert writer is not None
    assert reader is not None
    assert (writer.read_only, reader.read_only) == (False, True)
    assert len(left) == 1
    assert bench.loops() == []


async def test_readers_get_a_read_only_bind(bench: Bench) -> None:
    reader = mount(mode=Mode.MULTI_NODE_READER_ONLY)
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await calls.stage(volume, reader)
        await calls.publish(volume, capability=reader)
        await refused(calls.publish(volume), StatusCode.ALREADY_EXISTS)  # now as a writer
    mounted = bench.host.mount_at(f"{PODS}/one")
    assert mounted is not None
    assert "ro" in mounted.options


async def test_what_comes_in_the_wrong_order_is_refused(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await refused(calls.stage("never-was"), StatusCode.NOT_FOUND)
        await refused(calls.publish("never-was"), StatusCode.NOT_FOUND)
        await refused(calls.publish(volume), StatusCode.FAILED_PRECONDITION)  # not staged
        await calls.stage(volume)
        await refused(calls.publish(volume, stage=""), StatusCode.FAILED_PRECONDITION)
        await refused(calls.publish(volume, stage="/elsewhere"), StatusCode.INVALID_ARGUMENT)
        await refused(calls.publish(volume, capability=block()), StatusCode.INVALID_ARGUMENT)
        await refused(calls.publish(volume, "/no/such/parent"), StatusCode.FAILED_PRECONDITION)
        await refused(calls.stage(volume, mount("xfs")), StatusCode.ALREADY_EXISTS)
        await refused(calls.stage(volume, path="/pods"), StatusCode.FAILED_PRECONDITION)
        await calls.publish(volume)
        words = await refused(calls.unstage(volume), StatusCode.FAILED_PRECONDITION)
    assert "'/pods/one'" in words


async def test_a_single_writer_has_one_target(bench: Bench) -> None:
    alone = mount(mode=Mode.SINGLE_NODE_SINGLE_WRITER)
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await calls.stage(volume, alone)
        await calls.publish(volume, f"{PODS}/one", alone)
        await calls.publish(volume, f"{PODS}/one", alone)
        await refused(calls.publish(volume, f"{PODS}/two", alone), StatusCode.FAILED_PRECONDITION)
        await calls.unpublish(volume, f"{PODS}/one")
        await calls.publish(volume, f"{PODS}/two", alone)


async def test_mounts_of_others_are_left_alone(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        bench.host.mount_tmpfs(STAGE)
        await refused(calls.stage(volume), StatusCode.FAILED_PRECONDITION)
        assert bench.loops() == []  # what is refused leaves no device behind
        bench.host.unmount(STAGE)
        await calls.stage(volume)
        bench.host.make_directory(f"{PODS}/one", 0o755)
        bench.host.mount_tmpfs(f"{PODS}/one")
        await refused(calls.publish(volume), StatusCode.FAILED_PRECONDITION)
        await refused(calls.unpublish(volume), StatusCode.FAILED_PRECONDITION)
        await refused(calls.unpublish("never-was"), StatusCode.NOT_FOUND)
        await calls.unpublish("never-was", f"{PODS}/nothing")
        await calls.unstage("never-was", f"{PODS}/nothing")


async def test_a_file_system_that_cannot_be_made_leaves_no_device(bench: Bench) -> None:
    bench.host.program_result = lambda arguments: (
        ProgramResult(status=1, output="no luck") if arguments[0] == "mkfs.ext4" else None
    )
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        words = await refused(calls.stage(volume), StatusCode.INTERNAL)
        assert bench.loops() == []
        bench.host.program_result = None
        await calls.stage(volume)
    assert "no luck" in words


async def test_mount_flags_are_not_repeated_in_errors(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        words = await refused(calls.stage(volume, mount(flags=["password=hunter2"])), StatusCode.INTERNAL)
    assert "hunter2" not in words


async def test_a_second_call_for_a_volume_is_told_to_come_back_and_others_run_on(bench: Bench) -> None:
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def scheduler(call: Callable[[], T], risk: Risk, what: str) -> T:
        if what == f"stage {slow}":
            reached.set()
            await go_on.wait()
        return call()

    async with bench.serving() as calls, asyncio.TaskGroup() as tasks:
        slow, other = (await calls.create("slow")).volume_id, (await calls.create("other")).volume_id
        bench.host.scheduler = scheduler
        staging = tasks.create_task(calls.stage(slow))
        await reached.wait()
        await refused(calls.stage(slow), StatusCode.ABORTED)
        await refused(calls.delete(slow), StatusCode.ABORTED)
        await calls.stage(other, path=PODS)
        go_on.set()
        await staging
        await calls.unstage(slow)


async def test_what_a_caller_began_goes_on_when_it_stops_waiting(bench: Bench) -> None:
    reached, go_on, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def scheduler(call: Callable[[], T], risk: Risk, what: str) -> T:
        if what == f"stage {volume}":
            reached.set()
            await go_on.wait()
            result = call()
            done.set()
            return result
        return call()

    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        bench.host.scheduler = scheduler
        request = csi.NodeStageVolumeRequest(volume_id=volume, staging_target_path=STAGE, volume_capability=mount())
        call = calls.node.NodeStageVolume(request)
        await reached.wait()
        call.cancel()
        await refused(calls.unstage(volume), StatusCode.ABORTED)
        go_on.set()
        await done.wait()
        assert bench.mounts() == [STAGE]


async def test_a_volume_grows_with_its_device_and_file_system(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await calls.stage(volume)
        await calls.publish(volume)
        await refused(calls.grow_on_node(volume, size=4 * MEBIBYTE), StatusCode.OUT_OF_RANGE)  # not in this order
        answer = await calls.grow(volume, 4 * MEBIBYTE)
        assert (answer.capacity_bytes, answer.node_expansion_required) == (4 * MEBIBYTE, True)
        assert (await calls.grow(volume, MEBIBYTE)).capacity_bytes == 4 * MEBIBYTE  # never smaller
        assert await calls.grow_on_node(volume) == 4 * MEBIBYTE
        bytes_used, inodes = (await calls.stats(volume)).usage
        await refused(calls.grow_on_node(volume, "/elsewhere"), StatusCode.NOT_FOUND)
        await refused(calls.stats(volume, "/elsewhere"), StatusCode.NOT_FOUND)
    assert (bytes_used.unit, bytes_used.total) == (csi.VolumeUsage.BYTES, 4 * MEBIBYTE)
    assert inodes.unit == csi.VolumeUsage.INODES


async def test_an_ext_file_system_is_grown_before_it_is_mounted(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await calls.stage(volume)
        await calls.unstage(volume)
        await calls.grow(volume, 4 * MEBIBYTE)
        bench.host.programs_run.clear()
        await calls.stage(volume)
        bytes_used = (await calls.stats(volume, STAGE)).usage[0]
        await calls.unstage(volume)
        await calls.stage(volume)
    assert bytes_used.total == 4 * MEBIBYTE
    assert [program[0] for program in bench.host.programs_run] == ["e2fsck", "resize2fs", "fsck", "fsck"]


async def test_an_inline_volume_lives_as_long_as_it_is_published(bench: Bench) -> None:
    async with bench.serving() as calls:
        for _ in range(2):
            await calls.publish("csi-1", stage="", context=inline("2Mi"))
        bytes_used = (await calls.stats("csi-1")).usage[0]
        assert (await calls.controller.ListVolumes(csi.ListVolumesRequest())).entries == []
        for _ in range(2):
            await calls.unpublish("csi-1")
        await refused(calls.publish("csi-2", stage="", context=inline("plenty")), StatusCode.INVALID_ARGUMENT)
        await refused(calls.publish("csi-2", capability=block(), context=inline("2Mi")), StatusCode.INVALID_ARGUMENT)
        nowhere = calls.publish("csi-2", "/no/parent", stage="", context=inline("2Mi"))
        await refused(nowhere, StatusCode.FAILED_PRECONDITION)
    assert bytes_used.total == 2 * MEBIBYTE
    assert bench.loops() == bench.mounts() == []
    for directory in ("disks", "volumes", "stages"):
        assert bench.host.names_in(f"{STATE}/{directory}") == []


async def test_a_volume_whose_file_is_gone_is_told_as_abnormal(bench: Bench) -> None:
    async with bench.serving() as calls:
        volume = (await calls.create()).volume_id
        await calls.stage(volume)
        await calls.publish(volume)
        assert not (await calls.stats(volume)).volume_condition.abnormal
        bench.host.remove_file(f"{STATE}/disks/{volume}.img")
        found = (await calls.controller.ControllerGetVolume(csi.ControllerGetVolumeRequest(volume_id=volume))).status
    assert found.volume_condition.abnormal
    assert volume in found.volume_condition.message


async def test_secrets_are_in_no_log_and_in_no_answer(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secrets = {"password": "hunter2"}
    async with bench.serving() as calls:
        volume = await calls.create(secrets=secrets)
        for identity in (volume.volume_id, "never-was"):
            request = csi.NodeStageVolumeRequest(
                volume_id=identity, staging_target_path=STAGE, volume_capability=mount("xfs"), secrets=secrets
            )
            with suppress(aio.AioRpcError):
                await calls.node.NodeStageVolume(request)
    assert "CreateVolume data: done" in caplog.text
    assert "NOT_FOUND" in caplog.text
    assert "hunter2" not in caplog.text


async def test_a_path_that_is_no_socket_is_not_taken_away(bench: Bench) -> None:
    Path(bench.socket).write_text("mine")
    with pytest.raises(Refused, match="something else is there"):
        async with bench.serving():
            pass
    assert Path(bench.socket).read_text() == "mine"
