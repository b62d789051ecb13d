"""The loop driver at a real socket, on a machine in memory."""

from __future__ import annotations

import posixpath
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from grpc import aio
from tests.loop_driver.driver_calls import PODS, STAGE, Calls

from mooring.host.interface import NewFile
from mooring.loop_driver.driver import Driver, Options, make_driver
from mooring.loop_driver.server import serving
from mooring.testing.memory_host import MemoryHost

STATE = "/var/lib/loop"


class MemoryBackingFiles:
    """Files of blocks on a `MemoryHost`, whose disks know their size but not what is in them."""

    def __init__(self, host: MemoryHost) -> None:
        self.host = host
        self.sizes: dict[str, int] = {}
        self.copied: list[tuple[str, str]] = []
        self.frozen: list[str] = []
        self.thawed: list[str] = []

    def create(self, path: str, size: int) -> None:
        if self.host.look(path) is not None:
            self.host.remove_file(path)
        name = posixpath.basename(path)
        self.host.write_files(posixpath.dirname(path), [NewFile(path=name, data=bytes(size), mode=0o600)])
        self.sizes[path] = size

    def copy(self, source: str, path: str, size: int) -> None:
        self.copied.append((source, path))
        self.create(path, size)

    def grow(self, path: str, size: int) -> None:
        self.sizes[path] = max(size, self.sizes[path])

    def notice_size(self, device: str) -> None:
        for path, size in self.sizes.items():
            if self.host.loop_of(path) == device:
                self.host.resize_device(device, size)

    def settle(self, device: str) -> None:
        assert self.host.device(device) is not None

    def freeze(self, path: str) -> bool:
        self.frozen.append(path)
        return True

    def thaw(self, path: str) -> None:
        self.thawed.append(path)


class Bench:
    """One state directory on one machine, and the drivers that serve it one after the other."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.host = MemoryHost()
        self.backing = MemoryBackingFiles(self.host)
        self.options = Options(state=STATE, node_id="here")
        for directory in (STAGE, PODS):
            self.host.make_directories(directory, 0o755)
        self.driver: Driver = self.new_driver()

    def new_driver(self) -> Driver:
        return make_driver(self.options, self.host, self.backing)

    @asynccontextmanager
    async def serving(self, **options: object) -> AsyncIterator[Calls]:
        """A driver that knows nothing but what is on the machine."""
        self.options = replace(self.options, **options)  # type: ignore[arg-type]
        self.driver = self.new_driver()
        sockets = {node: self.socket_of(node) for node in self.options.nodes}
        async with serving(self.driver, sockets), aio.insecure_channel(f"unix:{self.socket}") as channel:
            yield Calls(channel)

    def socket_of(self, node: str) -> str:
        return self.socket if node == self.options.node_id else f"{self.socket}.{node}"

    def loops(self) -> list[str]:
        """The loop devices that have a file."""
        return [line for line in self.host.snapshot("/dev").devices if "<-" in line] if self.host.look("/dev") else []

    def mounts(self) -> list[str]:
        return [mount.path for mount in self.host.mounts() if mount.path != "/"]
