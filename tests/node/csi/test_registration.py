"""How drivers make themselves known: by registrars and by name, late, again, elsewhere, and not at all."""

from __future__ import annotations

import os
import signal
import socket
from typing import TYPE_CHECKING, Any

import pytest
from grpc import StatusCode
from tests.node.csi.conftest import Node
from tests.node.csi.manifests import DRIVER, claimed, csi_driver, volume
from tests.node.daemon.conftest import pod

from mooring.registration.registrar import Registrar
from mooring.stubs import registration_pb2 as registration

if TYPE_CHECKING:
    from mooring.stubs.registration_pb2_grpc import _ServicerContext as Context

pytestmark = pytest.mark.node

WANTED = csi_driver() + volume("data") + pod("web", claimed("data"))


def table(node: Node) -> list[list[str]]:
    """What `get drivers` shows, without its head."""
    return [line.split(maxsplit=5) for line in node.daemon.done("get", "drivers").splitlines()[1:]]


@pytest.mark.parametrize("way", ["registrar", "nested registrar", "static"])
def test_a_pod_waits_for_its_driver_and_goes_on_when_it_registers(node: Node, way: str) -> None:
    node.waits_for_events_only()
    registry = node.driver.registry
    if way == "static":
        node.set(csi_sockets=f"unix://{node.driver.socket}")
    node.driver.start()
    node.make("data")
    node.driver.end(signal.SIGTERM)
    node.daemon.write("a.yaml", WANTED)
    node.daemon.up()
    row = node.until_reason("web/data", f"it waits for driver {DRIVER!r} to register")
    assert row["state"] == "waiting"
    assert "Start the driver" in row["next_step"]
    shown = node.daemon.json("get", "drivers")
    if way == "static":
        assert [(each["name"], each["state"]) for each in shown] == [(None, "waiting")]
        assert "the socket is not there yet" in shown[0]["reason"]
    else:
        assert shown == []
    flags = {
        "registrar": ["--register", registry],
        "nested registrar": ["--register", f"{registry}/deep/deeper"],
        "static": [],
    }
    node.driver.start(*flags[way])
    node.mounted("web")
    found = node.driver_row()
    assert (found["name"], found["state"], found["reason"]) == (DRIVER, "registered", None)
    assert found["node_id"] == "here"
    assert found["sockets"][0]["static"] is (way == "static")
    assert "STAGE_UNSTAGE_VOLUME" in found["capabilities"]
    assert table(node) == [[DRIVER, "registered", "1.0", node.driver.socket, "here", "-"]]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_driver_that_starts_again_at_another_socket_goes_on_with_its_volumes(
    node: Node, number: signal.Signals
) -> None:
    node.waits_for_events_only()
    node.start_driver()
    node.make("data", "more")
    node.daemon.write("a.yaml", WANTED)
    node.daemon.up("web")
    node.driver.end(number)
    if number == signal.SIGTERM:
        node.until(lambda: node.daemon.json("get", "drivers") == [])
    more = node.daemon.write("b.yaml", volume("more") + pod("late", claimed("more")))
    node.until(lambda: bool(node.row("late/more")["reason"]))
    node.driver.socket = f"{node.driver.socket}2"
    node.start_driver()
    node.mounted("late")
    assert node.driver_row()["endpoint"] == node.driver.socket
    assert os.path.ismount(node.daemon.path("web/data"))
    more.unlink()
    node.gone("late")


def test_a_driver_that_goes_while_nobody_looks_is_missed_after_the_next_start(node: Node) -> None:
    node.start_driver()
    node.make("data")
    node.daemon.write("a.yaml", WANTED)
    node.daemon.up("web")
    mounts = node.daemon.mounts()
    node.daemon.end(signal.SIGKILL)
    node.driver.end(signal.SIGTERM)
    node.daemon.up()
    assert node.daemon.json("get", "drivers") == []
    assert node.daemon.mounts() == mounts
    node.start_driver()
    node.mounted("web")
    assert node.daemon.mounts() == mounts


# -- handshakes that fail ------------------------------------------------------------------------------------------
class DeafRegistrar(Registrar):
    """Does not want to hear how its registration ended."""

    async def NotifyRegistrationStatus(  # noqa: N802
        self, request: registration.RegistrationStatus, context: Context
    ) -> registration.RegistrationStatusResponse:
        await context.abort(StatusCode.INTERNAL, "no, thank you")
        raise AssertionError("an aborted call goes no further")


def failing(node: Node) -> dict[str, Any]:
    """Rows of drivers, or of sockets without one, at whose registration something fails, by the failing step."""
    rows = node.daemon.json("get", "drivers")
    return {row["sockets"][0]["failing_step"]: row for row in rows if row["state"] == "failed"}


def test_each_step_at_which_a_registration_fails_is_named(node: Node) -> None:
    node.waits_for_events_only()
    registry, beside = node.driver.registry, node.beside
    node.driver.start()
    beside.start()
    with socket.socket(socket.AF_UNIX) as nobody:
        nobody.bind(f"{registry}/nobody.sock")
    os.symlink(beside.socket, f"{registry}/driver.sock")
    registrars = {
        "type": beside.register("gpu.example.com", type="DevicePlugin"),
        "validate": beside.register("old.example.com", versions=("0.3.0",)),
        "register": beside.register("away.example.com", endpoint=f"{registry}/away"),
        "notify": beside.serve(DeafRegistrar(registry, name="deaf.example.com", endpoint=beside.socket)),
    }
    node.daemon.up()
    node.until(lambda: len(failing(node)) == 5, lambda: node.daemon.json("get", "drivers"))
    rows = failing(node)
    assert {step: rows[step]["name"] for step in registrars} == {
        step: each.info.name for step, each in registrars.items()
    }
    words = {
        "get info": "UNIMPLEMENTED",
        "type": "this node runs CSI drivers only",
        "validate": "it needs a version 1.x of CSI, and its versions are: '0.3.0'",
        "register": "NodeGetInfo failed: UNAVAILABLE",
        "notify": "no, thank you",
    }
    for step, told in words.items():
        assert rows[step]["reason"].startswith(f"{step}: ")
        assert told in rows[step]["reason"]
    dialling = next(row for row in node.daemon.json("get", "drivers") if row["state"] == "registering")
    assert dialling["sockets"][0]["path"] == f"{registry}/nobody.sock"
    findings = {row["where"]: row["what"] for row in node.daemon.json("get", "findings")}
    assert set(findings) == {f"{registry}/driver.sock", *(each.path for each in registrars.values())}
    assert any(line[0] == "old.example.com" and "validate:" in line[-1] for line in table(node))
    # Others take their places, which do better.
    for name in ("nobody", "driver"):
        os.unlink(f"{registry}/{name}.sock")
    for registrar in registrars.values():
        beside.unregister(registrar)
        beside.register(registrar.info.name)
    node.until(lambda: _states(node) == ["registered"] * 4, lambda: node.daemon.json("get", "drivers"))
    assert node.daemon.json("get", "findings") == []


def _states(node: Node) -> list[str]:
    return [row["state"] for row in node.daemon.json("get", "drivers")]


def test_a_static_driver_that_cannot_answer_yet_is_asked_again(node: Node) -> None:
    node.driver.start()
    node.make("data")
    node.beside.start()
    steps = {"GetPluginInfo": "get info", "Probe": "probe", "NodeGetInfo": "register"}
    for method, step in steps.items():
        node.beside.fail(method, StatusCode.INTERNAL, f"no {step} today")
    node.set(csi_sockets=node.beside.socket)
    node.daemon.write("a.yaml", WANTED)
    node.daemon.up()
    for method, step in steps.items():
        row = node.until_row(node.driver_row, f"no {step} today")
        assert row["reason"].startswith(f"{step}: ")
        assert row["sockets"][0]["failing_step"] == step
        node.beside.forward(method)
    node.mounted("web")
    assert (node.driver_row()["state"], node.driver_row()["reason"]) == ("registered", None)
