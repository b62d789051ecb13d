"""Which plugin serves a volume."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from mooring.errors import MooringError, NotYet, Refused
from mooring.plugins.interface import PluginContext, VolumePlugin
from mooring.plugins.removed_types import removed_type
from mooring.world.names import PluginName, PodUid, VolumeName, private_volume_name, shared_volume_name
from mooring.world.spec import VolumeSpec

PluginFactory = Callable[[PluginContext], VolumePlugin]

_NAME = re.compile(r"(?:[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


class Prober(Protocol):
    """Who finds plugins that come and go while mooring runs: drivers of FlexVolumes, in a directory."""

    directory: str

    async def probe(self) -> None:
        """Bring the plugins to what the directory has now."""
        ...


class VolumePluginManager:
    """The plugins of this node. One that cannot be used is left out and remembered in `problems`; the rest work."""

    def __init__(self, plugins: Iterable[VolumePlugin] = ()) -> None:
        self._plugins: dict[PluginName, VolumePlugin] = {}
        self._found_later: set[PluginName] = set()
        self.problems: list[MooringError] = []
        self.prober: Prober | None = None  # None: no plugins come while mooring runs
        for plugin in plugins:
            self.register(plugin)

    @property
    def plugins(self) -> Mapping[PluginName, VolumePlugin]:
        return self._plugins

    def register(self, plugin: VolumePlugin) -> None:
        if not _NAME.fullmatch(plugin.name):
            why = "a plugin's name is `domain/name` of letters, digits, `-`, `_` and `.`"
            self.problems.append(Refused(f"volume plugin has invalid name: {plugin.name!r}", why=why))
        elif plugin.name in self._plugins:
            why = "a name belongs to one plugin alone"
            self.problems.append(Refused(f"volume plugin {plugin.name!r} was registered more than once", why=why))
        else:
            self._plugins[plugin.name] = plugin

    def replace(self, plugin: VolumePlugin) -> bool:
        """Let a plugin that came while mooring runs serve, also in place of an earlier such one; true if it does."""
        if plugin.name in self._found_later:
            del self._plugins[plugin.name]
        self.register(plugin)
        serves = self._plugins.get(plugin.name) is plugin
        if serves:
            self._found_later.add(plugin.name)
        return serves

    def remove(self, name: PluginName) -> None:
        """Let a plugin that came while mooring runs, and has gone, serve no more."""
        if name in self._found_later:
            self._found_later.discard(name)
            del self._plugins[name]

    def find_by_spec(self, spec: VolumeSpec) -> VolumePlugin:
        """The one plugin that supports a spec."""
        found = [plugin for plugin in self._plugins.values() if plugin.supports(spec)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ",".join(plugin.name for plugin in found)
            raise Refused(f"cannot serve volume {spec.name!r}", why=f"multiple volume plugins matched: {names}")
        removed = removed_type(spec)
        if removed is not None:
            what, instead = f"cannot serve volume {spec.name!r}", f"Use {removed.instead}"
            raise Refused(what, why=f"no volume plugin matched: {removed.why}", next_step=instead)
        if spec.flex_driver and self.prober is not None:
            raise _missing_driver(spec, self.prober.directory)
        raise Refused(
            f"cannot serve volume {spec.name!r}",
            why=f"no volume plugin matched: mooring has none for {_source_of(spec)}",
            next_step=f"It serves {', '.join(sorted(self._plugins))}",
        )

    def find_by_name(self, name: PluginName) -> VolumePlugin:
        plugin = self._plugins.get(name)
        if plugin is None:
            raise Refused(f"cannot find volume plugin {name!r}", why=f"no volume plugin matched name: {name}")
        return plugin


def unique_volume_name(plugin: VolumePlugin, spec: VolumeSpec, pod: PodUid) -> VolumeName:
    """What a volume is called on this node: the same before a restart and after it.

    A volume that is attached or staged once per node is shared by its pods; any other belongs to one pod alone.
    """
    offer = plugin.offer(spec)
    if offer.attacher is not None or offer.stager is not None:
        return shared_volume_name(plugin.name, plugin.volume_name(spec))
    return private_volume_name(plugin.name, pod, spec.name)


def _missing_driver(spec: VolumeSpec, directory: str) -> NotYet:
    driver = spec.flex_driver
    place = f"{directory}/{driver.replace('/', '~')}/{driver.rpartition('/')[2]}"
    return NotYet(
        f"cannot serve volume {spec.name!r}",
        why=f"no volume plugin matched: no FlexVolume driver {driver!r} is installed",
        next_step=f"Install it as {place}; it is found at once",
    )


def _source_of(spec: VolumeSpec) -> str:
    return f"the source {', '.join(spec.source_names) or 'of this volume'}"
