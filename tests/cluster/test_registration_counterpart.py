"""Registration with the example plugin of the kubelet's own plugin watcher on the other side."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.cluster.conftest import Program, Programs, Strangers, line_of
from tests.cluster.mock_driver import MakeMockDriver, mock_driver
from tests.node.daemon.conftest import Daemon

from mooring.csi.drivers import Drivers
from mooring.csi.handler import CSIHandler
from mooring.engine.pending import Backoff
from mooring.host.linux import LinuxHost
from mooring.registration.conversations import Timeouts
from mooring.registration.interface import SocketState, SocketView, Step
from mooring.registration.plugin_manager import PluginManager

pytestmark = pytest.mark.cluster

__all__ = ["mock_driver"]

NAME = "mock.csi.test"


class Node:
    """A plugin manager over a registry directory, with CSI behind it."""

    def __init__(self, registry: Path, timeouts: Timeouts) -> None:
        self.registry = registry
        self.drivers = Drivers()
        self._changed = asyncio.Event()
        self._manager = PluginManager(
            LinuxHost(),
            str(registry),
            [CSIHandler(self.drivers)],
            backoff=Backoff(),
            resync_interval=60,
            changed=self._changed.set,
            timeouts=timeouts,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            run = tasks.create_task(self._manager.run())
            yield
            run.cancel()

    async def until(self, condition: Callable[[list[SocketView]], bool]) -> list[SocketView]:
        """All sockets, as soon as they fulfil a condition."""
        async with asyncio.timeout(30):
            while not condition(self._manager.sockets()):
                self._changed.clear()
                await self._changed.wait()
        return self._manager.sockets()


class ExamplePlugin:
    """The plugin as a process."""

    def __init__(self, process: Program) -> None:
        self.process = process

    async def told(self) -> tuple[bool, str]:
        """The next status that it is told: whether it is registered, and why not."""
        status = json.loads(await asyncio.to_thread(line_of, self.process))
        return status["registered"], status["error"]

    def kill(self) -> None:
        """End it so that it leaves its socket behind."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


StartPlugin = Callable[..., ExamplePlugin]


@pytest.fixture
async def node(place: Path) -> Node:
    return Node(place / "registry", Timeouts())


@pytest.fixture
def plugin(strangers: Strangers, programs: Programs) -> StartPlugin:
    def start(socket: Path, *flags: str, name: str = NAME) -> ExamplePlugin:
        socket.parent.mkdir(exist_ok=True)
        return ExamplePlugin(
            programs.serve(strangers("plugin-example"), "--socket", socket, "--name", name, *flags),
        )

    return start


def is_now(state: SocketState) -> Callable[[list[SocketView]], bool]:
    return lambda sockets: [each.state for each in sockets] == [state]


def registrar_of(driver: Path, start: StartPlugin, registry: Path, *flags: str) -> ExamplePlugin:
    """The plugin in front of a driver that is yet to start: it tells the path where it listened at first."""
    made = start(driver, *flags)
    registry.mkdir(exist_ok=True)
    os.rename(driver, registry / "example-reg.sock")
    return made


async def test_the_example_plugin_registers_a_driver_and_is_told(
    node: Node, plugin: StartPlugin, mock_driver: MakeMockDriver, place: Path
) -> None:
    example = registrar_of(place / f"{NAME}.sock", plugin, node.registry)
    driver = mock_driver("--attach-limit", "7")
    async with node.running():
        assert await example.told() == (True, "")
        [socket] = await node.until(is_now(SocketState.REGISTERED))
        assert (socket.type, socket.name, socket.versions) == ("CSIPlugin", NAME, ("1.0.0",))
        assert socket.endpoint == str(driver.socket)
        registered = node.drivers.get(NAME)
        assert registered is not None
        assert registered.node_info is not None
        assert registered.node_info.max_volumes_per_node == 7
        (node.registry / "example-reg.sock").unlink()
        await node.until(lambda sockets: not sockets)
        assert node.drivers.names() == []


async def test_a_plugin_that_is_killed_and_started_again_is_registered_again(
    node: Node, plugin: StartPlugin, mock_driver: MakeMockDriver, place: Path
) -> None:
    example = registrar_of(place / f"{NAME}.sock", plugin, node.registry)
    mock_driver()
    async with node.running():
        assert await example.told() == (True, "")
        example.kill()
        socket = node.registry / "example-reg.sock"
        os.rename(place / f"{NAME}.sock", place / "kept.sock")
        again = registrar_of(place / f"{NAME}.sock", plugin, node.registry)  # takes the place of the old socket
        os.rename(place / "kept.sock", place / f"{NAME}.sock")
        assert await again.told() == (True, "")
        assert [each.path for each in await node.until(is_now(SocketState.REGISTERED))] == [str(socket)]
        assert node.drivers.names() == [NAME]


@pytest.mark.parametrize(
    ("flags", "words", "step"),
    [
        (("--type", "DevicePlugin"), "CSI drivers only", Step.TYPE),
        (("--type", "Toaster"), "Toaster", Step.TYPE),
        (("--versions", "2.0.0,3.1.0"), "version", Step.VALIDATE),
        ((), "UNIMPLEMENTED", Step.REGISTER),  # its endpoint serves registration and no CSI
    ],
)
async def test_a_plugin_that_cannot_be_registered_is_told_why(
    node: Node, plugin: StartPlugin, flags: tuple[str, ...], words: str, step: Step
) -> None:
    example = plugin(node.registry / "example.sock", *flags)
    async with node.running():
        registered, error = await example.told()
        [socket] = await node.until(is_now(SocketState.FAILED))
    assert not registered
    assert words in error
    assert socket.failing_step is step
    assert node.drivers.names() == []


async def test_a_plugin_that_does_not_listen_to_its_status_is_let_go_again(
    plugin: StartPlugin, mock_driver: MakeMockDriver, place: Path
) -> None:
    node = Node(place / "registry", Timeouts(notify=0.2))
    registrar_of(place / f"{NAME}.sock", plugin, node.registry, "--deaf")
    driver = mock_driver()
    async with node.running():
        [socket] = await node.until(is_now(SocketState.FAILED))
        assert node.drivers.names() == []
    assert socket.failing_step is Step.NOTIFY
    assert "NodeGetInfo" in [call.method for call in driver.calls()]


async def test_a_plugin_that_does_not_listen_keeps_nobody_else_waiting(
    node: Node, plugin: StartPlugin, mock_driver: MakeMockDriver, place: Path
) -> None:
    plugin(node.registry / "deaf.sock", "--deaf", "--type", "Toaster", name="deaf")
    example = registrar_of(place / f"{NAME}.sock", plugin, node.registry)
    mock_driver()
    async with node.running():
        assert await example.told() == (True, "")
        await node.until(
            lambda sockets: (NAME, SocketState.REGISTERED) in [(each.name, each.state) for each in sockets]
        )


async def test_the_socket_of_a_plugin_that_was_killed_fails_and_says_at_which_step(
    plugin: StartPlugin, place: Path
) -> None:
    node = Node(place / "registry", Timeouts(dial=0.2))
    plugin(node.registry / "example.sock").kill()
    async with node.running():
        [socket] = await node.until(is_now(SocketState.FAILED))
    assert socket.failing_step is Step.DIAL


def test_the_daemon_shows_the_driver_while_its_registrar_is_there(
    daemon: Daemon, plugin: StartPlugin, mock_driver: MakeMockDriver, place: Path
) -> None:
    example = registrar_of(place / f"{NAME}.sock", plugin, place / "registry")
    registry = Path(daemon.root, "plugins_registry")
    registry.mkdir()
    (registry / "example-reg.sock").symlink_to(place / "registry" / "example-reg.sock")  # on another file system
    mock_driver("--no-attach")
    daemon.up()
    assert json.loads(line_of(example.process)) == {"registered": True, "error": ""}
    [row] = daemon.json("get", "drivers")
    assert (row["name"], row["state"]) == (NAME, "registered")
    assert str(registry / "example-reg.sock") in json.dumps(row["sockets"])
    (registry / "example-reg.sock").unlink()
    daemon.until(lambda: "registered" not in [row["state"] for row in daemon.json("get", "drivers")])
