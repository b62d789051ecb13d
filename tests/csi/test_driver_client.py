"""A client against a driver on a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from grpc import StatusCode

from mooring.csi.client import CallFailed, DriverClient, Kind, kind_of, socket_of
from mooring.errors import Doubtful, NotYet, Refused
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import Answer, ScriptedCSIDriver

TARGET = "/target"
PUBLISH = csi.NodePublishVolumeRequest(volume_id="v", target_path=TARGET, secrets={"password": "hunter2"})
_UNCERTAIN = {"CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "UNAVAILABLE"}


@pytest.fixture
def driver(tmp_path: Path) -> ScriptedCSIDriver:
    return ScriptedCSIDriver(MemoryHost(), str(tmp_path / "csi.sock"))


async def failed_publish(driver: ScriptedCSIDriver, *, timeout: float = 60.0) -> CallFailed:
    async with driver.serving():
        client = DriverClient(driver.socket, timeout=timeout)
        with pytest.raises(CallFailed) as failed:
            await client.publish(PUBLISH)
        await client.retire()
    return failed.value


@pytest.mark.parametrize("code", [code for code in StatusCode if code is not StatusCode.OK])
def test_only_codes_after_which_a_driver_may_go_on_leave_doubt(code: StatusCode) -> None:
    assert kind_of(code) is (Kind.UNCERTAIN if code.name in _UNCERTAIN else Kind.FINAL)


@pytest.mark.parametrize("endpoint", ["/run/csi.sock", "unix:///run/csi.sock", "unix:/run/csi.sock"])
def test_an_endpoint_may_have_a_scheme(endpoint: str) -> None:
    assert socket_of(endpoint) == "/run/csi.sock"


@pytest.mark.parametrize(
    ("kind", "error"),
    [(Kind.FINAL, Refused), (Kind.TRANSIENT, NotYet), (Kind.UNCERTAIN, Doubtful), (Kind.FINISHED, Doubtful)],
)
def test_each_kind_of_failure_is_an_error_that_operations_know(kind: Kind, error: type[Exception]) -> None:
    assert type(CallFailed(StatusCode.INTERNAL, "no", kind).as_outcome("cannot do it")) is error


async def test_a_driver_that_refuses_is_believed(driver: ScriptedCSIDriver) -> None:
    driver.answer("NodePublishVolume", Answer(code=StatusCode.INVALID_ARGUMENT, words="no such share", happens=False))
    error = await failed_publish(driver)
    assert (error.code, error.words, error.kind) == (StatusCode.INVALID_ARGUMENT, "no such share", Kind.FINAL)


async def test_no_answer_before_the_deadline_leaves_doubt(driver: ScriptedCSIDriver) -> None:
    driver.answer("NodePublishVolume", Answer(late=asyncio.Event()))
    error = await failed_publish(driver, timeout=0.05)
    assert (error.code, error.kind) == (StatusCode.DEADLINE_EXCEEDED, Kind.UNCERTAIN)


async def test_a_driver_that_dies_after_its_work_leaves_doubt(driver: ScriptedCSIDriver) -> None:
    driver.answer("NodePublishVolume", Answer(dies=True))
    error = await failed_publish(driver)
    assert error.kind is Kind.UNCERTAIN
    assert driver.host.mount_at(TARGET) is not None


async def test_a_driver_that_does_not_run_leaves_doubt(driver: ScriptedCSIDriver) -> None:
    client = DriverClient(driver.socket)
    with pytest.raises(CallFailed) as failed:
        await client.publish(PUBLISH)
    assert (failed.value.code, failed.value.kind) == (StatusCode.UNAVAILABLE, Kind.UNCERTAIN)
    await client.retire()


async def test_an_error_does_not_show_the_secrets_that_a_driver_repeats(driver: ScriptedCSIDriver) -> None:
    driver.answer("NodePublishVolume", Answer(code=StatusCode.INTERNAL, words="login with hunter2 failed"))
    error = await failed_publish(driver)
    assert error.words == "login with *** failed"
    assert error.__suppress_context__


async def test_not_found_is_no_success_when_something_is_taken_away(driver: ScriptedCSIDriver) -> None:
    driver.answer("NodeUnpublishVolume", Answer(code=StatusCode.NOT_FOUND))
    async with driver.serving():
        client = DriverClient(driver.socket)
        with pytest.raises(CallFailed) as failed:
            await client.unpublish("v", TARGET)
        await client.retire()
    assert failed.value.kind is Kind.FINISHED


async def test_a_question_that_fails_has_changed_nothing(driver: ScriptedCSIDriver) -> None:
    driver.answer("NodeGetCapabilities", Answer(code=StatusCode.UNAVAILABLE))
    async with driver.serving():
        client = DriverClient(driver.socket)
        with pytest.raises(CallFailed) as failed:
            await client.get_capabilities()
        await client.retire()
    assert failed.value.kind is Kind.TRANSIENT


async def test_a_request_without_a_volume_is_never_sent(driver: ScriptedCSIDriver) -> None:
    async with driver.serving():
        client = DriverClient(driver.socket)
        with pytest.raises(CallFailed, match="volume id is missing"):
            await client.unstage("", "/stage")
        await client.retire()
    assert driver.calls == []


async def test_a_retired_client_lets_the_call_under_way_end_and_takes_no_other(driver: ScriptedCSIDriver) -> None:
    answered = asyncio.Event()
    driver.answer("NodePublishVolume", Answer(late=answered))
    async with driver.serving(), asyncio.TaskGroup() as tasks:
        client = DriverClient(driver.socket)
        under_way = tasks.create_task(client.publish(PUBLISH))
        await driver.called.wait()
        await client.retire()
        with pytest.raises(CallFailed) as failed:
            await client.publish(PUBLISH)
        answered.set()
        await under_way
    assert failed.value.kind is Kind.TRANSIENT
    assert len(driver.calls) == 1
