"""Pods with real containers: the real daemon and real engines, all in the mount namespace of the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.node.daemon.conftest import Daemon
from tests.node.runtimes.engines import Containerd, Engine, Podman, until
from tests.node.runtimes.images import BUSYBOX

from mooring.host import syscalls
from mooring.host.programs import find_program

_NEEDED = {"podman": ("podman", "conmon", "runc"), "cri": ("containerd", "ctr", "runc")}


def make_engine(name: str, place: Path) -> Engine:
    """An engine below a directory; the test is skipped when a program is missing."""
    for program in (*_NEEDED[name], "busybox"):
        if find_program(program) is None:
            pytest.skip(f"needs the program {program}")
    if subprocess.run(["ldd", "/bin/busybox"], capture_output=True, check=False).returncode == 0:
        pytest.skip("needs a busybox that stands alone (busybox-static)")
    return Podman(place) if name == "podman" else Containerd(place)


_SHARED = ("/dev/shm", "/run/containerd", "/run/containers", "/run/runc")
"""Where engines keep things for the whole machine, whatever they are told."""


@pytest.fixture
def places(node_root: str) -> Iterator[Path]:
    """A directory for an engine's state, with a path as short as podman wants it; nothing else is shared, either."""
    made = [place for place in _SHARED if not os.path.isdir(place)]
    with tempfile.TemporaryDirectory(prefix="mooring-") as own:
        for place in (*_SHARED, own):
            os.makedirs(place, exist_ok=True)
            syscalls.mount("tmpfs", place, "tmpfs", 0, "mode=755")
        yield Path(own)
        for place in (own, *_SHARED):
            syscalls.umount2(place, syscalls.MNT_DETACH)
    for place in made:
        os.rmdir(place)


@pytest.fixture(params=["podman", "cri"])
def engine(request: pytest.FixtureRequest, places: Path) -> Iterator[Engine]:
    """Each of the engines."""
    made = make_engine(request.param, places)
    yield made
    made.close()


class Running:
    """A `mooring run` under way, as a process of its own."""

    def __init__(self, daemon: Daemon, engine: Engine, pod: str, arguments: Sequence[str]) -> None:
        command = [sys.executable, "-m", "mooring", "--root", daemon.root, "run", pod, *engine.arguments, *arguments]
        self.process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def line(self) -> str:
        """The next line that a container writes."""
        assert self.process.stdout is not None
        found = self.process.stdout.readline()
        assert found, self.process.communicate(timeout=60)[1]
        return found.rstrip("\n")

    def ended(self) -> tuple[int, str, str]:
        """Status, and what was not read yet of both streams."""
        out, err = self.process.communicate(timeout=60)
        assert "Traceback" not in err
        return self.process.returncode, out, err

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


class Pods:
    """The daemon, an engine, and runs of pods."""

    def __init__(self, daemon: Daemon, engine: Engine) -> None:
        self.daemon, self.engine = daemon, engine
        self._running: list[Running] = []

    def start(self, pod: str, *arguments: str) -> Running:
        started = Running(self.daemon, self.engine, pod, arguments)
        self._running.append(started)
        return started

    def run(self, pod: str, *arguments: str) -> tuple[int, str, str]:
        return self.start(pod, *arguments).ended()

    def up(self, *manifests: str) -> None:
        """Write manifests, start the daemon, and wait for no volume."""
        for at, manifest in enumerate(manifests):
            self.daemon.write(f"{at}.yaml", manifest)
        self.daemon.up()

    def is_recorded(self) -> bool:
        runs = Path(self.daemon.root, "runs")
        return runs.is_dir() and any(each.suffix == ".json" for each in runs.iterdir())

    def until(self, *conditions: object) -> None:
        for condition in conditions:
            assert callable(condition)
            until(condition, self.daemon.log)

    def assert_nothing_left(self) -> None:
        """No container, no record, no log, and after `down` no mount."""
        assert self.engine.containers() == []
        runs = Path(self.daemon.root, "runs")
        assert not runs.is_dir() or os.listdir(runs) == []

    def close(self) -> None:
        for running in self._running:
            if running.process.poll() is None:
                running.process.kill()
            running.process.communicate()


@pytest.fixture
def daemon(node_root: str) -> Iterator[Daemon]:
    manifests = Path(node_root).parent / "manifests"
    manifests.mkdir()
    made = Daemon(node_root, manifests)
    yield made
    made.kill_all()


@pytest.fixture
def pods(daemon: Daemon, engine: Engine) -> Iterator[Pods]:
    made = Pods(daemon, engine)
    yield made
    made.close()


def container(name: str, script: str, more: str = "") -> str:
    """A container that runs a shell script, as an entry of a manifest's list."""
    lines = "\n".join(f"      {line}" for line in script.splitlines())
    extra = "".join(f"    {line}\n" for line in more.splitlines())
    return f"  - name: {name}\n    image: {BUSYBOX}\n    command: [sh, -c]\n    args:\n    - |\n{lines}\n{extra}"


def pod(name: str, *containers: str, spec: str = "", init: Sequence[str] = (), metadata: str = "") -> str:
    """The manifest of a pod of these containers that is not restarted unless `spec` says so."""
    before = "  initContainers:\n" + "".join(init) if init else ""
    policy = "" if "restartPolicy" in spec else "  restartPolicy: Never\n"
    return f"""\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
{metadata}
spec:
{policy}{spec}
{before}  containers:
{"".join(containers)}---
"""
