"""CSI drivers as rows: what is known of each, and how far its sockets are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from mooring.csi.drivers import Drivers
from mooring.observe.drivers import driver_rows
from mooring.registration.interface import SocketState, SocketView, Step
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import Ability, ScriptedCSIDriver

NAME = "b.csi.test"
FAILED = SocketView(
    path="/reg/a.sock",
    static=False,
    state=SocketState.FAILED,
    name="a.csi.test",
    type="CSIPlugin",
    endpoint="/csi/a.sock",
    versions=("1.0.0",),
    failing_step=Step.VALIDATE,
    why="no",
    attempts=3,
)


@pytest.fixture
async def drivers(tmp_path: Path) -> AsyncIterator[Drivers]:
    """One driver, registered."""
    drivers = Drivers()
    driver = ScriptedCSIDriver(
        MemoryHost(), str(tmp_path / "csi.sock"), abilities=[Ability.STAGE_UNSTAGE_VOLUME, Ability.EXPAND_VOLUME]
    )
    topology = csi.Topology(segments={"zone": "a"})
    driver.info = csi.NodeGetInfoResponse(node_id="id-1", max_volumes_per_node=5, accessible_topology=topology)
    async with driver.serving():
        await drivers.register(NAME, driver.socket, ["1.4.0"])
        yield drivers
        await drivers.close()


async def test_a_registered_driver_is_shown_with_all_that_it_told(drivers: Drivers, tmp_path: Path) -> None:
    socket = SocketView(path="/reg/b.sock", static=True, state=SocketState.REGISTERED, name=NAME)
    (row,) = driver_rows(drivers, [socket])
    sockets = row.pop("sockets")
    assert row == {
        "name": NAME,
        "state": "registered",
        "version": "1.4",
        "endpoint": str(tmp_path / "csi.sock"),
        "node_id": "id-1",
        "max_volumes": 5,
        "topology": {"zone": "a"},
        "capabilities": None,
        "reason": None,
    }
    assert [(each["path"], each["static"], each["state"]) for each in sockets] == [("/reg/b.sock", True, "registered")]


async def test_what_a_driver_can_do_is_shown_in_csis_words_once_somebody_asked(drivers: Drivers) -> None:
    await drivers.require(NAME, "").capabilities()
    (row,) = driver_rows(drivers, [])
    assert row["capabilities"] == ["STAGE_UNSTAGE_VOLUME", "EXPAND_VOLUME"]


async def test_a_driver_that_fails_to_register_is_shown_with_the_step_and_the_reason(drivers: Drivers) -> None:
    first, second = driver_rows(drivers, [FAILED])
    assert (first["name"], first["state"], first["reason"]) == ("a.csi.test", "failed", "validate: no")
    assert (first["version"], first["node_id"], first["topology"], first["capabilities"]) == (None, None, {}, None)
    assert first["sockets"] == [
        {
            "path": "/reg/a.sock",
            "static": False,
            "state": "failed",
            "type": "CSIPlugin",
            "endpoint": "/csi/a.sock",
            "versions": ["1.0.0"],
            "failing_step": "validate",
            "why": "no",
            "attempts": 3,
        }
    ]
    assert second["name"] == NAME


async def test_a_second_socket_that_fails_does_not_hide_that_the_driver_serves(drivers: Drivers) -> None:
    serves = SocketView(path="/reg/b.sock", static=False, state=SocketState.REGISTERED, name=NAME)
    (row,) = driver_rows(drivers, [replace(FAILED, name=NAME), serves])
    assert (row["state"], row["reason"], len(row["sockets"])) == ("registered", "validate: no", 2)


async def test_a_socket_that_has_not_told_a_name_has_a_row_of_its_own(drivers: Drivers) -> None:
    waits = SocketView(path="/csi.sock", static=True, state=SocketState.WAITING, why="the socket is not there yet")
    named, nameless = driver_rows(drivers, [waits])
    assert named["name"] == NAME
    assert (nameless["name"], nameless["state"], nameless["reason"]) == (None, "waiting", "the socket is not there yet")


async def test_a_driver_that_has_not_told_of_the_node_yet_is_registering(drivers: Drivers) -> None:
    drivers.require(NAME, "").node_info = None
    (row,) = driver_rows(drivers, [])
    assert (row["state"], row["node_id"], row["max_volumes"]) == ("registering", None, None)
