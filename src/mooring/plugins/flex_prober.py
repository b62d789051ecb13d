"""Which FlexVolume drivers this node has: programs in a directory, found and dropped while mooring runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress

from mooring.errors import MooringError, Refused
from mooring.host.interface import FileFacts, FileKind
from mooring.plugins.flex_driver import Capabilities, FlexDriver
from mooring.plugins.flex_volume import FlexVolumePlugin
from mooring.plugins.interface import PluginContext
from mooring.plugins.manager import VolumePluginManager
from mooring.world.names import PluginName

log = logging.getLogger(__name__)


class FlexProber:
    """Keeps the plugins of FlexVolume drivers as their directory has them.

    A driver lies at `<directory>/<vendor>~<driver>/<driver>`. One that cannot be initialised is a problem, and is
    tried again at the next probe.
    """

    def __init__(self, context: PluginContext, plugins: VolumePluginManager, directory: str) -> None:
        self._context = context
        self._host = context.host
        self._plugins = plugins
        self.directory = directory
        self.changed: Callable[[PluginName], None] = lambda _: None
        self._turn = asyncio.Lock()  # each driver is initialised once, whoever asks
        self._known: dict[PluginName, FileFacts] = {}
        self._problems: dict[PluginName, MooringError] = {}

    def driver_directories(self) -> list[str]:
        """The directories that drivers lie in, or may come to lie in."""
        try:
            names = self._host.names_in(self.directory)
        except (FileNotFoundError, NotADirectoryError):
            return []
        places = [f"{self.directory}/{name}" for name in names if not name.startswith(".")]
        return [place for place in places if self._kind(place) is FileKind.DIRECTORY]

    async def probe(self) -> None:
        """Initialise drivers that are new or were changed, and drop those that are gone."""
        async with self._turn:
            found = self._installed()
            for name in sorted(self._known.keys() - found.keys()):
                self._drop(name)
            for name, (executable, facts) in sorted(found.items()):
                if self._known.get(name) != facts:
                    await self._add(name, executable, facts)

    def assume_all(self) -> None:
        """Take every driver for one that can do what drivers usually can, without running any."""
        for name, (executable, facts) in sorted(self._installed().items()):
            self._serve(FlexDriver(self._host, name, executable), Capabilities(), facts)

    async def _add(self, name: PluginName, executable: str, facts: FileFacts) -> None:
        driver = FlexDriver(self._host, name, executable)
        try:
            capabilities = await driver.initialise()
        except (MooringError, OSError) as error:
            self._note(name, error)
        else:
            self._note(name, None)
            self._serve(driver, capabilities, facts)
            self.changed(name)

    def _serve(self, driver: FlexDriver, capabilities: Capabilities, facts: FileFacts) -> None:
        plugin = FlexVolumePlugin(self._context, driver, capabilities)
        if self._plugins.replace(plugin):
            self._known[plugin.name] = facts

    def _drop(self, name: PluginName) -> None:
        del self._known[name]
        self._plugins.remove(name)
        self.changed(name)
        log.info("FlexVolume driver %s is gone", name)

    def _note(self, name: PluginName, error: MooringError | OSError | None) -> None:
        before = self._problems.pop(name, None)
        if before is not None:
            with suppress(ValueError):
                self._plugins.problems.remove(before)
        if error is not None:
            why = error.why if isinstance(error, MooringError) else error.strerror or str(error)
            problem = Refused(
                f"cannot use FlexVolume driver {name!r}", why=why, next_step=f"Mend the driver in {self.directory}"
            )
            self._problems[name] = problem
            self._plugins.problems.append(problem)

    def _installed(self) -> dict[PluginName, tuple[str, FileFacts]]:
        found: dict[PluginName, tuple[str, FileFacts]] = {}
        for place in self.driver_directories():
            directory = place.rpartition("/")[2]
            driver = directory.rpartition("~")[2]
            facts = self._host.look_through(f"{place}/{driver}") if driver else None
            if facts is not None and facts.kind is FileKind.FILE and facts.mode & 0o111:
                found[PluginName(directory.replace("~", "/"))] = (f"{place}/{driver}", facts)
        return found

    def _kind(self, path: str) -> FileKind | None:
        facts = self._host.look_through(path)
        return facts.kind if facts is not None else None
