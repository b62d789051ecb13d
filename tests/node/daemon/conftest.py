"""The real daemon on the real kernel: started with the command line, in the mount namespace of the test."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mooring.daemon.command_line import run


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit status, and what it wrote."""

    status: int
    out: str
    err: str


class Daemon:
    """One root directory, its manifests, and the commands of `mooring` on it.

    Commands run in this process, which is in the namespace of the test; the daemon is a process of its own.
    """

    def __init__(self, root: str, manifests: Path) -> None:
        self.root, self.manifests = root, manifests
        self._started: set[int] = set()

    # -- commands ------------------------------------------------------------------------------------------------
    def run(self, *arguments: object) -> Ended:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(["--root", self.root, *map(str, arguments)])
        ended = Ended(status, out.getvalue(), err.getvalue())
        assert "Traceback" not in ended.err
        if "--detach" in arguments and status == 0:
            self._started.add(self.pid)
        return ended

    def done(self, *arguments: object) -> str:
        """What a command that must succeed prints."""
        ended = self.run(*arguments)
        assert ended.status == 0, f"{ended.err}\n{self.log()}"
        return ended.out

    def json(self, *arguments: object) -> Any:
        return json.loads(self.done(*arguments, "-o", "json"))

    def up(self, *pods: str) -> None:
        """Start the daemon, and wait for the volumes of some pods."""
        self.done("up", self.manifests, "--detach", "--node-name", "here")
        self.mounted(*pods)

    def mounted(self, *pods: str) -> None:
        for pod in pods:
            self.done("wait", pod, "--timeout", "10s")

    def volume(self, name: str) -> dict[str, Any]:
        """The row of `pod/volume`, a pod of the namespace default."""
        rows = {f"{row['pod']}/{row['volume']}": row for row in self.json("get", "volumes")}
        found: dict[str, Any] = rows[f"default/{name}"]
        return found

    def path(self, name: str) -> Path:
        return Path(self.volume(name)["path"])

    # -- the process ---------------------------------------------------------------------------------------------
    @property
    def pid(self) -> int:
        return int(Path(self.root, "mooring.lock").read_text())

    def end(self, number: signal.Signals) -> None:
        """Send a signal to the daemon, and return when it has ended."""
        pid = self.pid
        os.kill(pid, number)
        self.ended(pid)

    def ended(self, pid: int) -> None:
        """Return when the daemon that ran as this process has ended."""
        os.waitpid(pid, 0)
        self._started.discard(pid)

    def kill_all(self) -> None:
        """End whatever a test left running."""
        for pid in self._started:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)

    # -- the machine ---------------------------------------------------------------------------------------------
    def write(self, name: str, text: str) -> Path:
        path = self.manifests / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def mounts(self) -> dict[str, str]:
        """Ids of the mounts below the root directory, by path; an id belongs to one mount as long as it is there."""
        rows = [line.split() for line in Path("/proc/self/mountinfo").read_text().splitlines()]
        return {row[4]: row[0] for row in rows if row[4].startswith(f"{self.root}/")}

    def log(self) -> str:
        return Path(self.root, "mooring.log").read_text()

    def until(self, condition: Callable[[], bool]) -> None:
        """Return when a condition of the machine holds: files have no event that a test could wait for."""
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline, f"it did not come to pass; the log is:\n{self.log()}"
            time.sleep(0.005)


@pytest.fixture
def daemon(node_root: str) -> Iterator[Daemon]:
    manifests = Path(node_root).parent / "manifests"
    manifests.mkdir()
    made = Daemon(node_root, manifests)
    yield made
    made.kill_all()


def pod(name: str, *volumes: str, spec: str = "", metadata: str = "") -> str:
    """The manifest of a pod whose one container uses all volumes; each is written as `name: source`."""
    names = [volume.partition(":")[0] for volume in volumes]
    mounts = ", ".join(f"{{name: {each}, mountPath: /{each}}}" for each in names)
    sources = "".join(
        f"  - name: {volume.partition(':')[0]}\n    {volume.partition(':')[2].strip()}\n" for volume in volumes
    )
    return f"""\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
{metadata}
spec:
{spec}
  containers:
  - name: main
    volumeMounts: [{mounts}]
  volumes:
{sources}---
"""


def config_map(name: str, value: str = "1", *, namespace: str = "default") -> str:
    return f"""\
apiVersion: v1
kind: ConfigMap
metadata: {{name: {name}, namespace: {namespace}}}
data: {{key: '{value}'}}
---
"""


def secret(name: str, value: str = "hunter2") -> str:
    return f"""\
apiVersion: v1
kind: Secret
metadata: {{name: {name}}}
stringData: {{key: {value}}}
---
"""
