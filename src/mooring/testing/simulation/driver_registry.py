"""Which simulated drivers a manager has: some plugins come and go while it runs."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.manager.volume_manager import VolumeManager
from mooring.plugins.config_map import ConfigMapPlugin
from mooring.plugins.downward_api import DownwardAPIPlugin
from mooring.plugins.empty_dir import EmptyDirPlugin
from mooring.plugins.host_path import HostPathPlugin
from mooring.plugins.interface import PluginContext, VolumePlugin
from mooring.plugins.manager import PluginFactory
from mooring.plugins.projected import ProjectedPlugin
from mooring.plugins.secret import SecretPlugin
from mooring.testing.simulation.disks import DRIVERS
from mooring.testing.simulation.driver_plugin import DriverPlugin
from mooring.testing.simulation.drivers import Drivers
from mooring.world.names import PluginName, PodUid

OWN_TYPES: tuple[PluginFactory, ...] = (
    EmptyDirPlugin,
    HostPathPlugin,
    SecretPlugin,
    DownwardAPIPlugin,
    ConfigMapPlugin,
    ProjectedPlugin,
)
"""The types of mooring's own that histories have volumes of."""


class DriverRegistry:
    """Gives each manager the plugins that are there, and tells it when one comes or goes."""

    def __init__(self, drivers: Drivers) -> None:
        self._drivers = drivers
        self._lost: set[PluginName] = set()  # drivers that are gone until they are brought back
        self._context: PluginContext

    def plugins(self, context: PluginContext) -> Iterator[VolumePlugin]:
        """What a manager has from the beginning to its end."""
        self._context = context
        yield from (factory(context) for factory in OWN_TYPES)
        yield from (self._plugin(name) for name, abilities in DRIVERS.items() if not abilities.leaves)

    def join(self, manager: VolumeManager) -> None:
        """Add the plugins that may leave again, as they are found before anything else is done."""
        for name, abilities in DRIVERS.items():
            if abilities.leaves and name not in self._lost:
                manager.plugins.replace(self._plugin(name))

    def lose(self, manager: VolumeManager, name: PluginName) -> None:
        self._drivers.away.add(name)
        self._lost.add(name)
        if DRIVERS[name].leaves:
            manager.plugins.remove(name)
        _tell(manager, name)

    def bring_back(self, manager: VolumeManager, name: PluginName) -> None:
        self._drivers.away.discard(name)
        self._lost.discard(name)
        if DRIVERS[name].leaves:
            manager.plugins.replace(self._plugin(name))
        _tell(manager, name)

    def bring_all_back(self, manager: VolumeManager) -> None:
        for name in DRIVERS:
            if name in self._drivers.away | self._lost:
                self.bring_back(manager, name)

    def _plugin(self, name: PluginName) -> DriverPlugin:
        return DriverPlugin(self._context, name, self._drivers)


def _tell(manager: VolumeManager, name: PluginName) -> None:
    """What failed or waited because of a driver is tried again at once, as the daemon has it."""
    for pod in manager.pods:
        if manager.desired.problems(PodUid(pod.metadata.uid)):
            manager.pod_state_changed(PodUid(pod.metadata.uid))
    wanted = {volume.name for volume in manager.desired.volumes.values() if volume.plugin == name}
    there = {volume.name for volume in manager.actual.volumes.values() if volume.plugin == name}
    for volume in sorted(wanted | there):
        manager.reconciler.resume(volume)
