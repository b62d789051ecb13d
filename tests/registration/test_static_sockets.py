"""Drivers without a registrar, named in the settings."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from google.protobuf.wrappers_pb2 import BoolValue
from grpc import StatusCode, aio
from tests.registration.conftest import SOON, Bench

from mooring.errors import InvalidInput
from mooring.registration.interface import SocketState, Step
from mooring.registration.static_sockets import socket_path
from mooring.stubs import csi_pb2 as csi
from mooring.stubs import csi_pb2_grpc as services

NAME = "static.csi.test"
Context = aio.ServicerContext[object, object]


class IdentityDriver:
    """Serves the Identity service of a driver, and answers probes as it is told."""

    def __init__(self, socket: Path, *, name: str = NAME) -> None:
        self.socket = socket
        self.name = name
        self.probe = csi.ProbeResponse(ready=BoolValue(value=True))
        self.probe_code = StatusCode.OK
        self.probes = 0
        self.probed = asyncio.Event()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        server = aio.server()
        services.add_IdentityServicer_to_server(self, server)  # type: ignore[arg-type]
        server.add_insecure_port(f"unix:{self.socket}")
        await server.start()
        try:
            yield
        finally:
            await server.stop(None)

    async def GetPluginInfo(self, request: csi.GetPluginInfoRequest, context: Context) -> csi.GetPluginInfoResponse:  # noqa: N802
        return csi.GetPluginInfoResponse(name=self.name, vendor_version="7.0")

    async def GetPluginCapabilities(self, request: object, context: Context) -> csi.GetPluginCapabilitiesResponse:  # noqa: N802
        return csi.GetPluginCapabilitiesResponse()

    async def Probe(self, request: csi.ProbeRequest, context: Context) -> csi.ProbeResponse:  # noqa: N802
        self.probes += 1
        self.probed.set()
        if self.probe_code is not StatusCode.OK:
            await context.abort(self.probe_code, "the storage is not connected")
        return self.probe


@pytest.fixture
def driver(bench: Bench) -> IdentityDriver:
    made = IdentityDriver(bench.place / "csi.sock")
    bench.static = [str(made.socket)]
    return made


async def test_a_driver_that_runs_already_is_registered(bench: Bench, driver: IdentityDriver) -> None:
    async with driver.serving(), bench.running():
        view = await bench.until_state(driver.socket, SocketState.REGISTERED)
        assert bench.handler.registered == {NAME: (str(driver.socket), ("1.0.0",))}
    assert (view.static, view.type, view.name, view.attempts) == (True, "CSIPlugin", NAME, 1)


@pytest.mark.parametrize("scheme", ["", "unix:", "unix://"])
async def test_an_endpoint_may_have_a_scheme(bench: Bench, driver: IdentityDriver, scheme: str) -> None:
    bench.static = [f"{scheme}{driver.socket}"]
    async with driver.serving(), bench.running():
        await bench.until_state(driver.socket, SocketState.REGISTERED)


async def test_a_driver_is_awaited_even_where_its_directory_is_missing(bench: Bench, driver: IdentityDriver) -> None:
    driver.socket = bench.place / "vendor" / "driver" / "csi.sock"
    bench.static = [str(driver.socket)]
    async with bench.running() as manager:
        await bench.until(lambda: "not there yet" in manager.sockets()[0].why)
        view = await bench.until_state(driver.socket, SocketState.WAITING)
        assert (view.static, view.why, view.failing_step) == (True, "the socket is not there yet", None)
        driver.socket.parent.parent.mkdir()
        driver.socket.parent.mkdir()
        async with driver.serving():
            view = await bench.until_state(driver.socket, SocketState.REGISTERED)
            assert view.why == ""


async def test_a_driver_that_starts_again_is_registered_again(bench: Bench, driver: IdentityDriver) -> None:
    async with bench.running():
        for _ in range(3):
            async with driver.serving():
                await bench.until_state(driver.socket, SocketState.REGISTERED)
            await bench.until_state(driver.socket, SocketState.WAITING)
    assert bench.handler.changes(NAME) == ["register", "deregister"] * 3


async def test_a_driver_that_replaces_its_socket_is_registered_again(bench: Bench, driver: IdentityDriver) -> None:
    async with driver.serving(), bench.running():
        await bench.until_state(driver.socket, SocketState.REGISTERED)
        os.unlink(driver.socket)
        async with IdentityDriver(driver.socket).serving():
            await bench.until(lambda: bench.handler.changes(NAME) == ["register", "deregister", "register"])
            await bench.until_state(driver.socket, SocketState.REGISTERED)


async def test_a_driver_that_does_not_say_whether_it_is_ready_is(bench: Bench, driver: IdentityDriver) -> None:
    driver.probe = csi.ProbeResponse()
    async with driver.serving(), bench.running():
        await bench.until_state(driver.socket, SocketState.REGISTERED)
    assert driver.probes == 1


async def test_a_driver_that_cannot_be_probed_is_taken_as_it_is(bench: Bench, driver: IdentityDriver) -> None:
    driver.probe_code = StatusCode.UNIMPLEMENTED
    async with driver.serving(), bench.running():
        await bench.until_state(driver.socket, SocketState.REGISTERED)


async def test_a_driver_that_is_not_ready_says_so(bench: Bench, driver: IdentityDriver) -> None:
    driver.probe = csi.ProbeResponse(ready=BoolValue(value=False))
    async with driver.serving(), bench.running():
        view = await bench.until_failed(driver.socket)
    assert (view.failing_step, view.why) == (Step.PROBE, "it says that it is not ready")
    assert bench.handler.calls == []


@pytest.mark.parametrize("answer", ["not ready", "failed precondition"])
async def test_a_driver_that_is_not_ready_is_asked_again(bench: Bench, driver: IdentityDriver, answer: str) -> None:
    bench.backoff = SOON
    if answer == "not ready":
        driver.probe = csi.ProbeResponse(ready=BoolValue(value=False))
    else:
        driver.probe_code = StatusCode.FAILED_PRECONDITION
    async with driver.serving(), bench.running():
        await bench.until(lambda: driver.probes > 2)
        driver.probe, driver.probe_code = csi.ProbeResponse(), StatusCode.OK
        await bench.until_state(driver.socket, SocketState.REGISTERED)


async def test_what_is_no_socket_is_named(bench: Bench, driver: IdentityDriver) -> None:
    driver.socket.write_text("not a socket")
    async with bench.running() as manager:
        await bench.until(lambda: manager.sockets()[0].why == "there is a file, not a socket")
        driver.socket.unlink()
        async with driver.serving():
            await bench.until_state(driver.socket, SocketState.REGISTERED)


async def test_a_place_that_cannot_be_looked_at_is_named_and_looked_at_again(
    bench: Bench, driver: IdentityDriver
) -> None:
    bench.backoff = SOON
    driver.socket.symlink_to(driver.socket)
    async with bench.running() as manager:
        await bench.until(lambda: manager.sockets()[0].why.startswith("cannot look for the socket: Too many levels"))
        driver.socket.unlink()
        async with driver.serving():
            await bench.until_state(driver.socket, SocketState.REGISTERED)


async def test_a_link_is_followed_to_where_the_driver_makes_its_socket(bench: Bench, driver: IdentityDriver) -> None:
    link = bench.place / "links" / "csi.sock"
    link.parent.mkdir()
    link.symlink_to(driver.socket)
    bench.static = [str(link)]
    async with bench.running():
        for _ in range(2):
            async with driver.serving():
                await bench.until_state(link, SocketState.REGISTERED)
            await bench.until_state(link, SocketState.WAITING)


async def test_a_socket_of_the_settings_in_the_registry_is_taken_for_the_driver(
    bench: Bench, driver: IdentityDriver
) -> None:
    bench.directory.mkdir()
    driver.socket = bench.directory / "csi.sock"
    bench.static = [str(driver.socket)]
    async with driver.serving(), bench.running() as manager, bench.registrar("b").serving() as other:
        await bench.until_registered(other)
        await bench.until_state(driver.socket, SocketState.REGISTERED)
        assert [view.static for view in manager.sockets()] == [False, True]
        assert [view.attempts for view in manager.sockets()] == [1, 1]


async def test_what_happens_in_the_registry_does_not_touch_drivers_without_a_registrar(
    bench: Bench, driver: IdentityDriver
) -> None:
    async with driver.serving(), bench.running():
        await bench.until_state(driver.socket, SocketState.REGISTERED)
        async with bench.registrar("unrelated").serving() as other:
            await bench.until_registered(other)
        await bench.until_gone(other.path)
        assert bench.handler.changes(NAME) == ["register"]


@pytest.mark.parametrize(
    ("endpoint", "path"),
    [
        ("/run/csi.sock", "/run/csi.sock"),
        ("unix:/run/csi.sock", "/run/csi.sock"),
        ("unix:///run//csi.sock", "/run/csi.sock"),
    ],
)
def test_an_endpoint_names_a_socket(endpoint: str, path: str) -> None:
    assert socket_path(endpoint) == path


@pytest.mark.parametrize(
    "endpoint", ["", "csi.sock", "unix:csi.sock", "unix://host/csi.sock2", "tcp://1.2.3.4:5", "/run/"]
)
def test_an_endpoint_that_names_no_socket_is_refused(endpoint: str) -> None:
    with pytest.raises(InvalidInput, match="is not the path of a socket"):
        socket_path(endpoint)
