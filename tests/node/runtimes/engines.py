"""Real container engines, each with all its state in a directory of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from tests.node.runtimes.images import BUSYBOX, PAUSE, docker_archive

from mooring.runtimes.records import RuntimeOptions

LIMITS = ("nofile=1024:1024", "nproc=1024:1024")
"""Without CAP_SYS_RESOURCE nobody may have more than this, and podman asks for much more."""


class Engine(Protocol):
    """What tests need of an engine."""

    @property
    def name(self) -> str: ...

    @property
    def options(self) -> RuntimeOptions: ...

    @property
    def arguments(self) -> Sequence[str]:
        """For `mooring run`."""
        ...

    def containers(self) -> list[str]:
        """Everything that is there, running or not."""
        ...

    def close(self) -> None: ...


class Podman:
    name = "podman"
    arguments: Sequence[str]

    def __init__(self, place: Path) -> None:
        kept = (f"--root={place}/storage", f"--runroot={place}/run", f"--tmpdir={place}/tmp")
        # Neither systemd nor its journal is there on every machine that runs tests.
        self._kept = (*kept, "--cgroup-manager=cgroupfs", "--events-backend=file", "--storage-driver=vfs")
        self.options = RuntimeOptions(oci_runtime="runc", ulimits=LIMITS, options=self._kept)
        limits = [word for limit in LIMITS for word in ("--ulimit", limit)]
        self.arguments = [
            "--with",
            "podman",
            "--runtime",
            "runc",
            *limits,
            *(f"--option={each}" for each in self._kept),
        ]
        self.call("load", sent=docker_archive(BUSYBOX))

    @property
    def words(self) -> list[str]:
        """What a call by hand begins with."""
        return ["podman", "--runtime", "runc", *self._kept]

    def call(self, *words: str, sent: bytes | None = None) -> str:
        done = subprocess.run([*self.words, *words], input=sent, capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def containers(self) -> list[str]:
        return self.call("ps", "--all", "--quiet").split()

    def close(self) -> None:
        left = self.containers()
        if left:
            self.call("rm", "--force", "--time", "0", *left)
        remove_groups("libpod_parent")


CONFIGURATION = """\
version = 2
root = "{place}/root"
state = "{place}/state"
[grpc]
  address = "{socket}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{place}/cni/bin"
    conf_dir = "{place}/cni/conf"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "native"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
"""


class Containerd:
    name = "cri"
    arguments: Sequence[str]

    def __init__(self, place: Path) -> None:
        # Outside of the test's own tmpfs: gRPC connects in threads that may be in the namespace of an earlier test.
        self._sockets = tempfile.TemporaryDirectory(prefix="mooring-")
        self.socket = f"{self._sockets.name}/containerd.sock"
        self._place = place
        (place / "config.toml").write_text(CONFIGURATION.format(place=place, socket=self.socket, pause=PAUSE))
        self.options = RuntimeOptions(endpoint=self.socket)
        self.arguments = ["--with", "cri", "--endpoint", self.socket]
        self._process = self._start()
        for name, command in ((BUSYBOX, ("sh",)), (PAUSE, ("/bin/busybox", "sleep", "1000000000"))):
            archive = place / "image.tar"
            archive.write_bytes(docker_archive(name, command))
            self.call("images", "import", "--snapshotter", "native", str(archive))

    def _start(self) -> subprocess.Popen[bytes]:
        with open(self._place / "log", "ab") as log:
            process = subprocess.Popen(["containerd", "--config", f"{self._place}/config.toml"], stdout=log, stderr=log)
        until(lambda: os.path.exists(self.socket) and self._answers(), (self._place / "log").read_text)
        return process

    def _answers(self) -> bool:
        return subprocess.run(self._words("version"), capture_output=True, check=False).returncode == 0

    def _words(self, *words: str) -> list[str]:
        return ["ctr", "--address", self.socket, "--namespace", "k8s.io", *words]

    def call(self, *words: str) -> str:
        done = subprocess.run(self._words(*words), capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    def containers(self) -> list[str]:
        return self.call("containers", "list", "--quiet").split()

    def end(self) -> None:
        """The engine dies; its containers go on."""
        self._process.kill()
        self._process.wait()

    def begin(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.socket)
        self._process = self._start()

    def close(self) -> None:
        if self._process.poll() is not None:
            self.begin()
        for task in self.call("tasks", "list", "--quiet").split():
            self.call("tasks", "delete", "--force", task)
        self._process.terminate()
        self._process.wait()
        for pid in self._shims():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._sockets.cleanup()
        remove_groups("k8s.io")

    def _shims(self) -> list[int]:
        """Processes that this engine left behind: each is told its socket."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and self.socket.encode() in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
        return found


def remove_groups(name: str) -> None:
    """Remove the control groups that an engine makes at the top and leaves there when it ends."""
    for top in Path("/sys/fs/cgroup").rglob(name):
        for directory in [*sorted(top.rglob("*/"), reverse=True), top]:
            with contextlib.suppress(OSError):
                directory.rmdir()


def until(condition: Callable[[], bool], explain: Callable[[], str]) -> None:
    """Return when a condition of the machine holds: engines have no event that a test could wait for."""
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, f"it did not come to pass:\n{explain()}"
        time.sleep(0.01)
