"""FlexVolume drivers are found and dropped by what happens in their directory, on a real file system."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from mooring.controllers.flex_driver_watcher import FlexDriverWatcher
from mooring.host.linux import LinuxHost
from mooring.host.paths import Paths
from mooring.plugins.flex_prober import FlexProber
from mooring.plugins.interface import NodeFacts, PluginContext
from mooring.plugins.manager import VolumePluginManager
from mooring.sources.object_table import ObjectTable
from mooring.world.names import PluginName

SCRIPT = '#!/bin/sh\necho \'{"status": "Success"}\'\n'
NAME = PluginName("example.com/d")


class Drivers:
    def __init__(self, root: Path) -> None:
        host = LinuxHost()
        self.directory = root / "drivers"
        self.plugins = VolumePluginManager()
        context = PluginContext(
            host=host,
            paths=Paths(str(root)),
            objects=ObjectTable(),
            node=lambda: NodeFacts(name="node", memory=2**30, cpu_milli=1000),
            data_directory=lambda: "..data",
            tell=lambda _: None,
        )
        prober = FlexProber(context, self.plugins, str(self.directory))
        prober.changed = self._noticed
        self._news: asyncio.Queue[str] = asyncio.Queue()
        self.watcher = FlexDriverWatcher(host, prober)

    def _noticed(self, name: PluginName) -> None:
        self._news.put_nowait(f"{'+' if name in self.plugins.plugins else '-'}{name}")

    async def news(self) -> str:
        """The next thing that was noticed."""
        async with asyncio.timeout(10):
            return await self._news.get()

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(self.watcher.run())
            yield
            running.cancel()

    def install(self, place: str = "example.com~d/d") -> Path:
        program = self.directory / place
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(SCRIPT)
        program.chmod(0o755)
        return program


async def test_drivers_that_are_there_are_found_at_the_start(tmp_path: Path) -> None:
    drivers = Drivers(tmp_path)
    drivers.install()
    async with drivers.watched():
        assert await drivers.news() == "+example.com/d"


async def test_a_driver_that_comes_later_is_found_and_dropped_when_it_goes(tmp_path: Path) -> None:
    drivers = Drivers(tmp_path)
    drivers.install("first/first")
    async with drivers.watched():
        await drivers.news()
        program = drivers.install()
        assert await drivers.news() == "+example.com/d"
        program.unlink()
        assert await drivers.news() == "-example.com/d"


async def test_the_directory_itself_may_go_and_come_back(tmp_path: Path) -> None:
    drivers = Drivers(tmp_path)
    drivers.install()
    async with drivers.watched():
        await drivers.news()
        shutil.rmtree(drivers.directory)
        assert await drivers.news() == "-example.com/d"
        drivers.install()
        assert await drivers.news() == "+example.com/d"
