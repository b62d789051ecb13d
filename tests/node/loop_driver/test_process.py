"""The loop driver as a process: killed at every step, ended, started twice, registered."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from grpc import aio
from tests.loop_driver.driver_calls import MEBIBYTE, Calls, block, mount
from tests.node.loop_driver.conftest import LoopDriver

from mooring.loop_driver.backing import LinuxBackingFiles
from mooring.loop_driver.volumes import volume_id
from mooring.stubs import csi_pb2 as csi
from mooring.stubs import registration_pb2 as registration
from mooring.stubs import registration_pb2_grpc as registration_services

pytestmark = pytest.mark.node

VOLUME = volume_id("data")
CAPABILITIES = {"mount": mount("ext4"), "block": block()}


@pytest.mark.parametrize("access", ["mount", "block"])
async def test_a_driver_killed_after_each_step_goes_on_and_leaves_nothing(driver: LoopDriver, access: str) -> None:
    capability = CAPABILITIES[access]
    steps: list[Callable[[Calls], Awaitable[object]]] = [
        lambda calls: calls.create(size=16 * MEBIBYTE),
        lambda calls: calls.stage(VOLUME, capability),
        lambda calls: calls.publish(VOLUME, capability=capability),
        lambda calls: calls.snapshot(VOLUME),
        lambda calls: calls.stats(VOLUME),
        lambda calls: calls.unpublish(VOLUME),
        lambda calls: calls.unstage(VOLUME),
        lambda calls: calls.delete(VOLUME),
        lambda calls: calls.controller.ListSnapshots(csi.ListSnapshotsRequest()),
    ]
    before: Callable[[Calls], Awaitable[object]] | None = None
    for step in steps:
        async with driver.running() as calls:
            if before is not None and step is not steps[4]:
                await before(calls)  # its answer was lost, and it is asked for again
            await step(calls)
            assert len(driver.loops()) <= 1
        before = step
    assert driver.loops() == driver.mounts() == os.listdir(driver.pods) == []
    assert len(driver.disks()) == 1  # the snapshot


async def test_a_driver_killed_in_the_middle_of_a_step_is_told_again(driver: LoopDriver) -> None:
    for attempt in range(4):
        async with driver.running() as calls:
            name = f"data-{attempt}"
            volume = (await calls.create(name, size=16 * MEBIBYTE)).volume_id
            staging = calls.node.NodeStageVolume(
                csi.NodeStageVolumeRequest(
                    volume_id=volume, staging_target_path=driver.stage, volume_capability=mount("ext4")
                )
            )
            await staging.wait_for_connection()
            for _ in range(attempt):  # somewhere in it, another place each time
                await calls.identity.Probe(csi.ProbeRequest())
            driver.end(signal.SIGKILL)
            staging.cancel()
        async with driver.running() as calls:
            await calls.stage(volume, mount("ext4"))
            Path(driver.stage, "file").write_text("well")
            await calls.unstage(volume)
            await calls.delete(volume)
        assert driver.loops() == driver.mounts() == driver.disks() == []


async def test_a_driver_that_is_ended_leaves_volumes_mounted_and_no_socket(driver: LoopDriver) -> None:
    async with driver.running("--register", driver.registry) as calls:
        await calls.create(size=16 * MEBIBYTE)
        await calls.stage(VOLUME)
        assert os.listdir(driver.registry) == ["loop.mooring.dev-reg.sock"]
        assert driver.end(signal.SIGTERM) == 0
    assert not os.path.exists(driver.socket)
    assert os.listdir(driver.registry) == []
    assert driver.mounts() == [driver.stage]
    async with driver.running() as calls:
        await calls.unstage(VOLUME)
    assert driver.loops() == driver.mounts() == []


async def test_a_driver_makes_itself_known_when_it_is_told_to(driver: LoopDriver) -> None:
    async with (
        driver.running("--register", driver.registry),
        aio.insecure_channel(f"unix:{driver.registry}/loop.mooring.dev-reg.sock") as channel,
    ):
        stub: registration_services.RegistrationAsyncStub = registration_services.RegistrationStub(channel)
        told = await stub.GetInfo(registration.InfoRequest())
    assert (told.type, told.name, told.endpoint) == ("CSIPlugin", "loop.mooring.dev", driver.socket)
    assert list(told.supported_versions) == ["1.0.0"]


async def test_a_second_driver_on_one_state_directory_is_refused(driver: LoopDriver) -> None:
    async with driver.running():
        command = [sys.executable, "-m", "mooring", "csi", "serve-loop"]
        command += ["--endpoint", f"{driver.socket}2", "--state", driver.state]
        second = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
        _, complaint = await second.communicate()
    assert second.returncode == 1
    assert b"another driver runs there" in complaint
    assert b"Traceback" not in complaint


async def test_a_file_system_that_was_frozen_when_its_driver_died_is_thawed(driver: LoopDriver) -> None:
    backing = LinuxBackingFiles()
    async with driver.running() as calls:
        await calls.create(size=16 * MEBIBYTE)
        await calls.stage(VOLUME)
        assert backing.freeze(driver.stage)
    async with driver.running() as calls:
        assert backing.freeze(driver.stage)  # once more: what is frozen cannot be
        backing.thaw(driver.stage)
        await calls.unstage(VOLUME)
