"""The loop driver as a process of its own, on real loop devices, in the mount namespace of the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

import pytest
from grpc import aio
from tests.loop_driver.driver_calls import Calls

from mooring.host import loop_devices, syscalls
from mooring.host.linux import LinuxHost


class LoopDriver:
    """A state directory, and the processes that serve it one after the other."""

    def __init__(self, root: str, sockets: str) -> None:
        self.root = root
        self.state = f"{root}/state"
        self.stage, self.pods = f"{root}/stage", f"{root}/pods"
        self.socket = f"{sockets}/csi.sock"  # not on the tmpfs: threads of gRPC may be older than the namespace
        self.registry = f"{sockets}/registry"
        for directory in (self.stage, self.pods, self.registry):
            os.mkdir(directory)
        self._process: subprocess.Popen[str] | None = None

    @asynccontextmanager
    async def running(self, *flags: str) -> AsyncIterator[Calls]:
        """The driver runs and is called; however this ends, it is killed and nothing is tidied up."""
        self.start(*flags)
        try:
            async with aio.insecure_channel(f"unix:{self.socket}") as channel:
                yield Calls(channel, stage=self.stage, pods=self.pods)
        finally:
            self.end(signal.SIGKILL)

    def start(self, *flags: str) -> None:
        """Start a driver, and return when it serves."""
        command = [sys.executable, "-m", "mooring", "csi", "serve-loop", "--endpoint", f"unix:{self.socket}"]
        command += ["--state", self.state, "--node-id", "here", *flags]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == f"loop.mooring.dev serves at {self.socket}\n"

    def end(self, number: signal.Signals) -> int | None:
        """Send a signal to the driver, and return how it ended."""
        if self._process is None:
            return None
        process, self._process = self._process, None
        process.send_signal(number)
        process.communicate()
        return process.returncode

    def mounts(self) -> list[str]:
        """What is mounted below the root directory, without what the test put there itself."""
        found = [mount.path for mount in LinuxHost().mounts() if mount.path.startswith(f"{self.root}/")]
        return [path for path in found if path != self.state]

    def loops(self) -> list[str]:
        """The loop devices of volumes, and those on top of them."""
        found: list[str] = []
        for name, backing in loop_devices.attached():
            if backing.startswith(f"{self.state}/") or backing in found:
                found.append(f"/dev/{name}")
        return found

    def disks(self) -> list[str]:
        return sorted(os.listdir(f"{self.state}/disks"))

    def clear(self) -> None:
        """Take away whatever a failing test left: loop devices do not vanish with a namespace."""
        self.end(signal.SIGKILL)
        for path in reversed(self.mounts()):
            with suppress(OSError):
                syscalls.umount2(path, syscalls.UMOUNT_NOFOLLOW)
        for device in reversed(self.loops()):
            with suppress(OSError):
                loop_devices.detach(device)


@pytest.fixture
def driver(node_root: str) -> Iterator[LoopDriver]:
    with tempfile.TemporaryDirectory(prefix="mooring-") as sockets:
        made = LoopDriver(node_root, sockets)
        try:
            yield made
        finally:
            made.clear()
