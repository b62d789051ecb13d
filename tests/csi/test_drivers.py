"""Registering drivers."""

from __future__ import annotations

from pathlib import Path

import pytest
from grpc import StatusCode

from mooring.csi.drivers import Capabilities, Drivers, highest_version
from mooring.csi.handler import CSIHandler
from mooring.errors import NotYet, Refused
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import Ability, Answer, ScriptedCSIDriver

NAME = "scripted.csi.test"


@pytest.fixture
def driver(tmp_path: Path) -> ScriptedCSIDriver:
    return ScriptedCSIDriver(
        MemoryHost(), str(tmp_path / "csi.sock"), abilities=[Ability.VOLUME_MOUNT_GROUP, Ability.UNKNOWN]
    )


@pytest.mark.parametrize(
    ("versions", "highest"),
    [
        ([], None),
        (["0.3.0"], None),
        (["2.0.0", "1.4.0"], (1, 4)),
        (["1.x", "v1.0.0"], (1, 0)),
        (["1.0.0", "1.10.1", "1.9"], (1, 10, 1)),
        (["2.0.0"], None),
        (["01.0"], None),
    ],
)
def test_the_highest_readable_version_of_the_first_generation_wins(
    versions: list[str], highest: tuple[int, ...] | None
) -> None:
    assert highest_version(versions) == highest


@pytest.mark.parametrize("name", ["", "..", "a/b", "a^b", "x" * 64, "volumeDevices"])
def test_a_name_that_cannot_be_a_directory_of_its_own_is_refused(name: str) -> None:
    with pytest.raises(Refused):
        Drivers().validate(name, ["1.0.0"])


async def test_a_driver_serves_after_it_has_registered(driver: ScriptedCSIDriver) -> None:
    drivers = Drivers()
    told: list[str] = []
    drivers.changed = told.append
    async with driver.serving():
        await drivers.register(NAME, driver.socket, ["1.0.0"])
        found = drivers.require(NAME, "cannot mount")
        assert found.node_info is not None
        assert found.node_info.node_id == "memory-node"
        assert (drivers.names(), told) == ([NAME], [NAME])
        await drivers.close()


async def test_a_driver_that_nobody_registered_is_waited_for_by_name() -> None:
    with pytest.raises(NotYet, match="waits for driver 'other' to register"):
        Drivers().require("other", "cannot mount")


async def test_what_a_driver_can_do_is_asked_once_per_registration(driver: ScriptedCSIDriver) -> None:
    drivers = Drivers()
    async with driver.serving():
        await drivers.register(NAME, driver.socket, ["1.0.0"])
        found = drivers.require(NAME, "cannot mount")
        assert await found.capabilities() == await found.capabilities() == Capabilities(mount_group=True)
        assert [call.method for call in driver.calls].count("NodeGetCapabilities") == 1
        await drivers.close()


@pytest.mark.parametrize("versions", [["1.2.2"], ["1.2.3"]])
async def test_only_a_higher_version_takes_the_place_of_a_driver(
    driver: ScriptedCSIDriver, versions: list[str]
) -> None:
    drivers = Drivers()
    handler = CSIHandler(drivers)
    async with driver.serving():
        await handler.register(NAME, driver.socket, ["1.2.3"])
        with pytest.raises(Refused, match="already registered"):
            await handler.validate(NAME, "/elsewhere.sock", versions)
        await handler.register(NAME, f"unix://{driver.socket}", ["1.2.4"])
        found = drivers.require(NAME, "cannot mount")
        assert found.endpoint == f"unix://{driver.socket}"
        await drivers.close()


async def test_a_driver_that_cannot_tell_about_the_node_is_dropped_again(driver: ScriptedCSIDriver) -> None:
    drivers = Drivers()
    driver.answer("NodeGetInfo", Answer(code=StatusCode.INTERNAL, words="no node"))
    async with driver.serving():
        with pytest.raises(Refused, match="INTERNAL: no node"):
            await drivers.register(NAME, driver.socket, ["1.0.0"])
    assert drivers.names() == []


async def test_a_socket_that_goes_takes_only_its_own_driver_along(driver: ScriptedCSIDriver) -> None:
    drivers = Drivers()
    handler = CSIHandler(drivers)
    async with driver.serving():
        await handler.register(NAME, driver.socket, ["1.0.0"])
        await handler.deregister(NAME, "/an/earlier.sock")
        assert drivers.names() == [NAME]
        await handler.deregister(NAME, driver.socket)
    assert (handler.type(), drivers.names()) == ("CSIPlugin", [])
