"""Asking the controller part of a driver, and watching each call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc import StatusCode

from mooring.csi.client import CallFailed, DriverClient, Kind
from mooring.csi.controller import ControllerCapabilities, ControllerClient
from mooring.csi.drivers import Drivers
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import Answer, ControllerAbility, ScriptedCSIDriver

ALL = (
    ControllerAbility.PUBLISH_UNPUBLISH_VOLUME,
    ControllerAbility.PUBLISH_READONLY,
    ControllerAbility.EXPAND_VOLUME,
    ControllerAbility.SINGLE_NODE_MULTI_WRITER,
)
EVERYTHING = ControllerCapabilities(publishes=True, publishes_read_only=True, expands=True, multi_writer=True)
PUBLISH = csi.ControllerPublishVolumeRequest(volume_id="v", node_id="n", secrets={"password": "hunter2"})


@pytest.fixture
def driver(tmp_path: Path) -> ScriptedCSIDriver:
    return ScriptedCSIDriver(MemoryHost(), str(tmp_path / "csi.sock"), controller=ALL)


@asynccontextmanager
async def controller_of(driver: ScriptedCSIDriver) -> AsyncIterator[ControllerClient]:
    async with driver.serving():
        client = DriverClient(driver.socket)
        yield ControllerClient(client)
        await client.retire()


# -- what it can do ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("abilities", "expected"),
    [
        (ALL, EVERYTHING),
        ((ControllerAbility.PUBLISH_UNPUBLISH_VOLUME,), ControllerCapabilities(publishes=True)),
        ((ControllerAbility.CREATE_DELETE_VOLUME, ControllerAbility.UNKNOWN), ControllerCapabilities()),
        ((), ControllerCapabilities()),
    ],
)
async def test_a_controller_tells_what_it_can_do(
    driver: ScriptedCSIDriver,
    abilities: tuple[ControllerAbility.Type.ValueType, ...],
    expected: ControllerCapabilities,
) -> None:
    driver.controller = list(abilities)
    async with controller_of(driver) as controller:
        assert await controller.capabilities() == expected


async def test_a_driver_that_has_no_controller_is_not_asked_for_its_abilities(driver: ScriptedCSIDriver) -> None:
    driver.controller = []
    async with controller_of(driver) as controller:
        await controller.capabilities()
    assert [call.method for call in driver.calls] == ["GetPluginCapabilities"]


@pytest.mark.parametrize("method", ["GetPluginCapabilities", "ControllerGetCapabilities"])
async def test_a_socket_where_only_the_node_part_listens_has_no_controller(
    driver: ScriptedCSIDriver, method: str
) -> None:
    driver.answer(method, Answer(code=StatusCode.UNIMPLEMENTED))
    async with controller_of(driver) as controller:
        assert await controller.capabilities() == ControllerCapabilities()


@pytest.mark.parametrize("method", ["GetPluginCapabilities", "ControllerGetCapabilities"])
async def test_a_controller_that_does_not_say_what_it_can_do_has_changed_nothing(
    driver: ScriptedCSIDriver, method: str
) -> None:
    driver.answer(method, Answer(code=StatusCode.INTERNAL))
    async with controller_of(driver) as controller:
        with pytest.raises(CallFailed) as failed:
            await controller.capabilities()
    assert (failed.value.code, failed.value.kind) == (StatusCode.INTERNAL, Kind.TRANSIENT)


async def test_what_a_controller_can_do_is_asked_once_per_registration_and_again_after_a_failure(
    driver: ScriptedCSIDriver,
) -> None:
    driver.answer("GetPluginCapabilities", Answer(code=StatusCode.UNAVAILABLE))
    drivers = Drivers()
    async with driver.serving():
        registered = await drivers.register("d", driver.socket, ["1.0.0"])
        with pytest.raises(CallFailed):
            await registered.controller_capabilities()
        assert await registered.controller_capabilities() == await registered.controller_capabilities() == EVERYTHING
        await drivers.close()
    assert [call.method for call in driver.calls].count("GetPluginCapabilities") == 2


# -- attaching, detaching, growing -------------------------------------------------------------------------------------
async def test_attaching_returns_what_the_node_is_told(driver: ScriptedCSIDriver) -> None:
    driver.publish_context = {"lun": "7"}
    async with controller_of(driver) as controller:
        assert await controller.publish(PUBLISH) == {"lun": "7"}
    assert driver.attached == {("v", "n")}


@pytest.mark.parametrize(
    ("code", "kind"), [(StatusCode.DEADLINE_EXCEEDED, Kind.UNCERTAIN), (StatusCode.NOT_FOUND, Kind.FINAL)]
)
async def test_an_attachment_that_fails_is_in_doubt_only_if_it_may_have_happened(
    driver: ScriptedCSIDriver, code: StatusCode, kind: Kind
) -> None:
    driver.answer("ControllerPublishVolume", Answer(code=code, words="hunter2 is wrong"))
    async with controller_of(driver) as controller:
        with pytest.raises(CallFailed) as failed:
            await controller.publish(PUBLISH)
    assert (failed.value.kind, failed.value.words) == (kind, "*** is wrong")


async def test_not_found_is_no_success_when_a_volume_is_detached(driver: ScriptedCSIDriver) -> None:
    driver.answer("ControllerUnpublishVolume", Answer(code=StatusCode.NOT_FOUND))
    async with controller_of(driver) as controller:
        with pytest.raises(CallFailed) as failed:
            await controller.unpublish(csi.ControllerUnpublishVolumeRequest(volume_id="v"))
    assert failed.value.kind is Kind.FINISHED


async def test_growing_returns_the_size_and_whether_nodes_have_a_part(driver: ScriptedCSIDriver) -> None:
    request = csi.ControllerExpandVolumeRequest(volume_id="v", capacity_range=csi.CapacityRange(required_bytes=7))
    async with controller_of(driver) as controller:
        answer = await controller.expand(request)
    assert (answer.capacity_bytes, answer.node_expansion_required) == (7, True)


async def test_a_request_without_a_volume_or_a_node_is_never_sent(driver: ScriptedCSIDriver) -> None:
    async with controller_of(driver) as controller:
        with pytest.raises(CallFailed, match="node id is missing"):
            await controller.publish(csi.ControllerPublishVolumeRequest(volume_id="v"))
        with pytest.raises(CallFailed, match="volume id is missing"):
            await controller.unpublish(csi.ControllerUnpublishVolumeRequest())
        with pytest.raises(CallFailed, match="volume id is missing"):
            await controller.expand(csi.ControllerExpandVolumeRequest())
    assert driver.calls == []


# -- watching calls ----------------------------------------------------------------------------------------------------
async def test_each_call_is_told_with_its_full_method_and_how_it_ended(driver: ScriptedCSIDriver) -> None:
    told: list[tuple[str, str, str]] = []
    drivers = Drivers()
    drivers.observe = lambda name, method, code, seconds: told.append((name, method, code))
    driver.answer("ControllerPublishVolume", Answer(code=StatusCode.RESOURCE_EXHAUSTED))
    async with driver.serving():
        registered = await drivers.register("d", driver.socket, ["1.0.0"])
        await registered.capabilities()
        await registered.controller_capabilities()
        with pytest.raises(CallFailed):
            await registered.controller.publish(PUBLISH)
        await drivers.close()
    assert told == [
        ("d", "/csi.v1.Node/NodeGetInfo", "OK"),
        ("d", "/csi.v1.Node/NodeGetCapabilities", "OK"),
        ("d", "/csi.v1.Identity/GetPluginCapabilities", "OK"),
        ("d", "/csi.v1.Controller/ControllerGetCapabilities", "OK"),
        ("d", "/csi.v1.Controller/ControllerPublishVolume", "RESOURCE_EXHAUSTED"),
    ]


async def test_a_call_that_is_broken_off_is_told_as_such_and_not_swallowed(driver: ScriptedCSIDriver) -> None:
    told: list[str] = []
    driver.answer("ControllerPublishVolume", Answer(late=asyncio.Event()))
    async with driver.serving(), asyncio.TaskGroup() as tasks:
        client = DriverClient(driver.socket, observe=lambda method, code, seconds: told.append(code))
        under_way = tasks.create_task(ControllerClient(client).publish(PUBLISH))
        await driver.called.wait()
        under_way.cancel()
        with pytest.raises(asyncio.CancelledError):
            await under_way
        await client.retire()
    assert told == ["CANCELLED"]


async def test_a_client_that_is_retired_tells_of_no_call(driver: ScriptedCSIDriver) -> None:
    told: list[str] = []
    client = DriverClient(driver.socket, observe=lambda method, code, seconds: told.append(code))
    await client.retire()
    with pytest.raises(CallFailed, match="not registered any more"):
        await client.get_info()
    assert told == []


async def test_a_socket_may_have_any_name_that_a_file_can_have(tmp_path: Path) -> None:
    strange = ScriptedCSIDriver(MemoryHost(), str(tmp_path / "a b%41?#é.sock"))
    async with strange.serving():
        client = DriverClient(strange.socket)
        assert (await client.get_info()).node_id == "memory-node"
        await client.retire()
