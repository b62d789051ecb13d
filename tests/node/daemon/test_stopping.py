"""An orderly end: what SIGTERM does, what a second one does, and what a service manager hears of it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon, pod, secret

from mooring.host.programs import find_program

pytestmark = pytest.mark.node

PODS = secret("s") + pod("web", "keys: secret: {secretName: s}", "memory: emptyDir: {medium: Memory}")


@contextmanager
def in_front(daemon: Daemon, environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """A daemon that is a child of the test, with its stderr."""
    command = [
        sys.executable,
        "-m",
        "mooring",
        "--root",
        daemon.root,
        "up",
        str(daemon.manifests),
        "--node-name",
        "here",
    ]
    process = subprocess.Popen(
        command, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})}
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until_mounted(daemon: Daemon) -> None:
    daemon.until(lambda: Path(daemon.root, "mooring.sock").exists())
    daemon.until(lambda: daemon.run("wait", "web", "--timeout", "10s").status == 0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_daemon_well_and_leaves_volumes_and_no_socket(daemon: Daemon, number: signal.Signals) -> None:
    daemon.write("a.yaml", PODS)
    with in_front(daemon) as process:
        until_mounted(daemon)
        mounts = daemon.mounts()
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0
        assert "Traceback" not in said
    assert daemon.mounts() == mounts
    assert not Path(daemon.root, "mooring.sock").exists()
    with in_front(daemon) as process:
        until_mounted(daemon)
        assert daemon.mounts() == mounts
        assert {row["attempts"] for row in daemon.json("get", "volumes")} == {1}
        process.send_signal(number)
        process.communicate(timeout=30)


@pytest.fixture
def slow_driver(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A FlexVolume driver whose mounts take for ever; returns a file that is there once one has begun."""
    directory = Path(daemon.root).parent / "drivers"
    place = directory / "test~slow"
    place.mkdir(parents=True)
    driver, begun = place / "slow", directory / "begun"
    able = '{"status": "Success", "capabilities": {"attach": false}}'
    driver.write_text(f"#!/bin/sh\n[ $1 = init ] && echo '{able}' && exit\ntouch {begun}\nexec sleep 600\n")
    driver.chmod(0o755)
    monkeypatch.setenv("MOORING_FLEX_VOLUME_DIRECTORY", str(directory))
    return begun


def test_a_second_signal_abandons_what_runs(daemon: Daemon, slow_driver: Path) -> None:
    daemon.write("a.yaml", pod("web", "data: flexVolume: {driver: test/slow}"))
    with in_front(daemon, {"MOORING_STOP_TIMEOUT": "1h"}) as process:
        daemon.until(slow_driver.exists)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        while "stopping" not in process.stderr.readline():
            continue
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_what_runs_is_abandoned_when_the_time_to_stop_is_over(daemon: Daemon, slow_driver: Path) -> None:
    daemon.write("a.yaml", pod("web", "data: flexVolume: {driver: test/slow}"))
    with in_front(daemon, {"MOORING_STOP_TIMEOUT": "100ms"}) as process:
        daemon.until(slow_driver.exists)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0


def test_a_service_manager_hears_when_it_is_ready_alive_and_stopping(daemon: Daemon) -> None:
    daemon.write("a.yaml", PODS)
    address = f"{Path(daemon.root).parent}/notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(10)
        heard: list[str] = []
        with in_front(daemon, {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"}) as process:
            while not {"READY=1", "WATCHDOG=1"} <= set(heard):
                heard += manager.recv(4096).decode().splitlines()
            assert daemon.run("get", "pods").status == 0
            until_mounted(daemon)
            while "STATUS=2 of 2 volumes of 1 pods are mounted" not in heard:
                heard += manager.recv(4096).decode().splitlines()
            process.send_signal(signal.SIGTERM)
            while "STOPPING=1" not in heard:
                heard += manager.recv(4096).decode().splitlines()
            process.communicate(timeout=30)
            assert process.returncode == 0


def test_the_unit_is_understood_by_systemd() -> None:
    program = find_program("systemd-analyze")
    if program is None:
        pytest.skip("needs the program systemd-analyze")
    unit = Path(__file__).parents[3] / "packaging" / "mooring.service"
    done = subprocess.run([program, "verify", str(unit)], capture_output=True, text=True, check=False)
    complaints = [
        line for line in done.stderr.splitlines() if "mooring.service" in line and "not executable" not in line
    ]
    assert complaints == []
