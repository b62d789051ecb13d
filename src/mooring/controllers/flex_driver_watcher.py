"""Looks for FlexVolume drivers again whenever something happens in their directory."""

from __future__ import annotations

import asyncio
import logging

from mooring.host import inotify
from mooring.host.inotify import DirectoryWatcher
from mooring.host.interface import Host
from mooring.plugins.flex_prober import FlexProber

log = logging.getLogger(__name__)


class FlexDriverWatcher:
    """Watches the directory of drivers and the directories in it. Nothing is polled."""

    def __init__(self, host: Host, prober: FlexProber) -> None:
        self._host = host
        self._prober = prober
        self._changed = asyncio.Event()

    async def run(self) -> None:
        """Probe now and at every change, until cancelled."""
        watcher = DirectoryWatcher(lambda _: self._changed.set(), also=inotify.ATTRIBUTES)
        try:
            while True:
                self._changed.clear()
                self._watch(watcher)
                await self._prober.probe()
                if self._watch(watcher):  # what came there before it was watched
                    continue
                await self._changed.wait()
        finally:
            watcher.close()

    def _watch(self, watcher: DirectoryWatcher) -> bool:
        """Watch what is there; true when something was not watched before."""
        try:
            self._host.make_directories(self._prober.directory, 0o755)
        except OSError as error:
            log.warning("cannot make %s: %s", self._prober.directory, error.strerror)
            return False
        wanted = {self._prober.directory, *self._prober.driver_directories()}
        fresh = wanted - watcher.directories
        for directory in watcher.directories - wanted:
            watcher.forget(directory)
        for directory in sorted(fresh):
            try:
                watcher.watch(directory)
            except OSError as error:  # it has gone meanwhile, which is an event of the directory above
                log.debug("cannot watch %s: %s", directory, error.strerror)
        return bool(fresh & watcher.directories)
