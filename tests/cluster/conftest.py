"""Tests against programs that others wrote, built at pinned versions and run in the mount namespace of the test."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import select
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rig import control_plane
from rig.control_plane import ControlPlane
from tests.node.conftest import node_root
from tests.node.daemon.conftest import daemon

__all__ = ["control_plane_of_all", "daemon", "node_root", "place", "plane", "programs", "strangers"]

_REPOSITORY = Path(__file__).parents[2]
_CANNOT_BE_HAD = 3  # exit status of build-strangers

Strangers = Callable[[str], Path]
Program = subprocess.Popen[bytes]


@pytest.fixture(scope="session")
def strangers() -> Strangers:
    """Gives the path of a program of this name, and builds it when that is due."""

    @functools.cache
    def built(name: str) -> Path:
        command = [str(_REPOSITORY / "tools" / "build-strangers"), name]
        ended = subprocess.run(command, text=True, stderr=subprocess.PIPE, check=False)
        if ended.returncode == _CANNOT_BE_HAD:
            pytest.skip(f"needs {name}: {ended.stderr.strip().splitlines()[-1]}")
        assert ended.returncode == 0, ended.stderr
        return _REPOSITORY / ".strangers" / "bin" / name

    return built


class Programs:
    """Processes that run beside a test, and end with it."""

    def __init__(self) -> None:
        self._running: list[Program] = []

    def serve(self, *command: str | os.PathLike[str]) -> Program:
        """Start a program that writes a line when it serves; what it complains of is shown when a test fails."""
        # Without a buffer, for select(2) does not see what is in one.
        started = subprocess.Popen([os.fspath(each) for each in command], stdout=subprocess.PIPE, bufsize=0)
        self._running.append(started)
        assert line_of(started), f"{command[0]} ended with {started.wait()} before it served"
        return started

    def close(self) -> None:
        """End all of them, the last one first, and wait until they have."""
        for each in reversed(self._running):
            with contextlib.suppress(ProcessLookupError):
                each.send_signal(signal.SIGTERM)
            try:
                each.wait(timeout=20)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
            if each.stdout is not None:
                each.stdout.close()


def line_of(program: Program, *, seconds: float = 30) -> str:
    """The next line that a program writes; an empty one when it has ended."""
    assert program.stdout is not None
    heard, _, _ = select.select([program.stdout], [], [], seconds)
    assert heard, f"{program.args!r} wrote no line in {seconds} seconds"
    return program.stdout.readline().decode().rstrip("\n")


@pytest.fixture
def programs() -> Iterator[Programs]:
    made = Programs()
    yield made
    made.close()


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="mooring-") as made:
        yield Path(made)


@pytest.fixture(scope="session")
def control_plane_of_all(strangers: Strangers) -> Iterator[ControlPlane]:
    """A real control plane that all tests share; use `plane`."""
    for name in (*control_plane.PROGRAMS, "kubectl"):
        strangers(name)
    with asyncio.Runner() as runner:
        running = control_plane.running()
        plane = runner.run(running.__aenter__())
        yield plane
        runner.run(running.__aexit__(None, None, None))


@pytest.fixture
async def plane(control_plane_of_all: ControlPlane) -> ControlPlane:
    """A real control plane. What an earlier test killed and did not start again serves again."""
    await control_plane_of_all.revive()
    return control_plane_of_all


def kubectl(plane: ControlPlane, *arguments: str, given: str = "") -> str:
    """What kubectl prints when an administrator runs it."""
    command = [str(_REPOSITORY / ".strangers" / "bin" / "kubectl"), "--kubeconfig", str(plane.kubeconfig), *arguments]
    ended = subprocess.run(command, input=given, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def controller_kubeconfig(plane: ControlPlane) -> Path:
    """The identity that is there for `mooring controller`, with the rights that the project proposes."""
    kubectl(plane, "apply", "-f", str(_REPOSITORY / "packaging" / "controller-rbac.yaml"))
    token = kubectl(plane, "-n", "kube-system", "create", "token", "mooring-controller")
    return plane.write_kubeconfig("controller", {"token": token})
