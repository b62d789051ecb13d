"""What the daemon tells systemd, over a real socket."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.daemon.systemd import Notifier, Service, status_line, take_notifier
from mooring.testing.memory_node import MemoryNode
from mooring.testing.sample_objects import empty_dir, pod
from mooring.testing.virtual_time import in_virtual_time

WEB = pod("web", empty_dir("data"), empty_dir("more"))


class Systemd:
    """The receiving end."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{address[1:]}" if address.startswith("@") else address)
        self._socket.setblocking(False)

    def heard(self) -> list[str]:
        """The states of all messages so far."""
        states: list[str] = []
        while True:
            try:
                states += self._socket.recv(4096).decode().splitlines()
            except BlockingIOError:
                return states

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=["path", "abstract"])
def systemd(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(str(tmp_path / "notify") if request.param == "path" else f"@mooring-test-{os.getpid()}")
    yield made
    made.close()


def test_states_arrive_in_one_message(systemd: Systemd) -> None:
    Notifier(systemd.address).send("READY=1", "STATUS=well")
    assert systemd.heard() == ["READY=1", "STATUS=well"]


def test_a_manager_that_is_gone_is_no_reason_to_fail(tmp_path: Path) -> None:
    Notifier(str(tmp_path / "nobody")).send("READY=1")


def test_the_variables_are_taken_so_that_children_do_not_speak_for_the_daemon() -> None:
    environment = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid()), "HOME": "/"}
    notifier, patience = take_notifier(environment)
    assert notifier.is_heard
    assert patience == 3.0
    assert environment == {"HOME": "/"}


@pytest.mark.parametrize(
    ("variables", "is_heard", "patience"),
    [
        ({}, False, None),
        ({"WATCHDOG_USEC": "3000000"}, False, None),
        ({"NOTIFY_SOCKET": "vsock:2:1"}, False, None),
        ({"NOTIFY_SOCKET": "/run/n"}, True, None),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "2000000"}, True, 2.0),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "2000000", "WATCHDOG_PID": "1"}, True, None),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "often"}, True, None),
        ({"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "0"}, True, None),
    ],
)
def test_who_listens_and_how_patient_a_watchdog_is(
    variables: dict[str, str], is_heard: bool, patience: float | None
) -> None:
    notifier, found = take_notifier(dict(variables))
    assert (notifier.is_heard, found) == (is_heard, patience)


def test_it_is_ready_when_every_source_was_heard_and_not_before(systemd: Systemd) -> None:
    @in_virtual_time
    async def run() -> None:
        node, heard = MemoryNode(), asyncio.Event()
        service = Service(Notifier(systemd.address))
        async with node.running() as manager, asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(service.run(manager, heard))
            await asyncio.sleep(60)
            assert systemd.heard() == []
            heard.set()
            await asyncio.sleep(1)
            assert systemd.heard() == ["READY=1", "STATUS=0 of 0 volumes of 0 pods are mounted"]
            node.add_pod(WEB)
            await manager.wait_for_attach_and_mount(WEB)
            await asyncio.sleep(5)
            assert systemd.heard()[-1] == "STATUS=2 of 2 volumes of 1 pods are mounted"
            service.stopping()
            assert "STOPPING=1" in systemd.heard()
            telling.cancel()
        service.close()

    run()


def test_the_watchdog_hears_from_the_event_loop_twice_as_often_as_it_must(systemd: Systemd) -> None:
    @in_virtual_time
    async def run() -> None:
        node = MemoryNode()
        service = Service(Notifier(systemd.address), 10.0)
        async with node.running() as manager, asyncio.TaskGroup() as tasks:
            telling = tasks.create_task(service.run(manager, asyncio.Event()))
            await asyncio.sleep(20.1)
            telling.cancel()
        assert systemd.heard() == ["WATCHDOG=1"] * 5  # at 0, 5, 10, 15 and 20 s

    run()


@in_virtual_time
async def test_without_a_service_manager_nothing_runs() -> None:
    node = MemoryNode()
    await Service(Notifier()).run(node.manager, asyncio.Event())


@in_virtual_time
async def test_the_status_tells_what_fails() -> None:
    node = MemoryNode()
    async with node.running() as manager:
        node.host.make_directories(node.paths.pods_dir, 0o755)
        node.host.limit_mounts(1)
        node.add_pod(pod("web", empty_dir("data", memory=True)))
        await asyncio.sleep(1)
        assert status_line(manager) == "0 of 1 volumes of 1 pods are mounted, 1 failing"
