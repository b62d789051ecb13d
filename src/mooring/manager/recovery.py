"""After a start: all that earlier processes may have left is found, and what cannot be explained is kept apart."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress

from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.host.records import Damage
from mooring.manager.intents import Intents
from mooring.manager.quarantine import Quarantine
from mooring.manager.reconstruction import Leftover, Reconstruction
from mooring.plugins.manager import VolumePluginManager
from mooring.world.actual import ActualStateOfWorld
from mooring.world.changes import Change
from mooring.world.findings import Finding
from mooring.world.names import PodUid, VolumeName
from mooring.world.planner import KeptApart

log = logging.getLogger(__name__)

_MARKER = "boot-id"


class Recovery:
    """Finds what is on this node from intent records, pods' directories and plugins' own places, once at each start."""

    def __init__(
        self,
        host: Host,
        paths: Paths,
        plugins: VolumePluginManager,
        actual: ActualStateOfWorld,
        intents: Intents,
        *,
        may_clean: Callable[[PodUid], bool],
        tell: Callable[[Change], None],
    ) -> None:
        self._host, self._paths, self._plugins = host, paths, plugins
        self._actual, self._intents, self._tell = actual, intents, tell
        self._damaged: tuple[Damage, ...] = ()
        # While a record cannot be used, anything that nobody can make sense of may be what it told of.
        self._quarantine = Quarantine(
            host, actual, may_clean=lambda pod: not self._damaged and may_clean(pod), tell=tell
        )

    def begin(self) -> None:
        """Fill the actual state of the world with doubt about everything found."""
        self._intents.sweep()
        found = self._intents.read()
        self._damaged = found.damaged
        reconstruction = Reconstruction(
            self._host,
            self._paths,
            self._plugins,
            self._actual,
            self._tell,
            intents=found.intents,
            rebooted=self._mark_boot(),
        )
        self._quarantine.begin(reconstruction)

    def look_again(self) -> list[PodUid]:
        """Try once more to explain what was kept apart; returns the pods for which something was settled."""
        return self._quarantine.look_again()

    @property
    def leftovers(self) -> list[Leftover]:
        return self._quarantine.leftovers

    def volumes(self) -> Iterator[VolumeName]:
        """Volumes kept apart of which a record tells: they count as in use."""
        return self._quarantine.volumes()

    def kept_apart(self) -> frozenset[KeptApart]:
        """What lies in pods' directories, cannot be made sense of, and is told of by a record that is or was there."""
        told = (leftover.found for leftover in self.leftovers if leftover.intent is not None or self._damaged)
        return frozenset((each.plugin, each.inner_name, each.pod) for each in told if each.pod)

    def findings(self) -> Iterator[Finding]:
        for leftover in self.leftovers:
            yield Finding(
                kind="leftover",
                where=leftover.path,
                what=f"a volume directory that cannot be made sense of: {leftover.why}",
                next_step="Look what it holds; mooring leaves it alone",
            )
        for damage in self._damaged:
            yield Finding(
                kind="record",
                where=damage.path,
                what=f"a record that cannot be used: {damage.why}",
                next_step="`mooring doctor` shows what is mounted; remove the file once nothing of it is left",
            )

    def _mark_boot(self) -> bool:
        """Whether the machine was booted since the last start here; leaves a mark for the next one."""
        boot = self._host.boot_id()
        before = self._marked_boot()
        if before != boot:
            try:
                self._host.make_directories(self._paths.root, 0o755)
                self._host.write_durably(self._paths.root, {_MARKER: f"{boot}\n".encode()})
            except OSError as error:
                log.info("cannot mark that this boot was seen: %s", error)
                # Without any mark the next start takes nothing for gone; with the old one it would take all for gone.
                with suppress(OSError):
                    self._host.remove_file(f"{self._paths.root}/{_MARKER}")
        return bool(before) and before != boot

    def _marked_boot(self) -> str:
        try:
            return self._host.read_file(f"{self._paths.root}/{_MARKER}").decode("utf-8", "replace").strip()
        except OSError:
            return ""
