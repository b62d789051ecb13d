"""The plugins mooring brings, and those that other packages add."""

from __future__ import annotations

from importlib.metadata import entry_points

from mooring.errors import Refused
from mooring.plugins.config_map import ConfigMapPlugin
from mooring.plugins.downward_api import DownwardAPIPlugin
from mooring.plugins.empty_dir import EmptyDirPlugin
from mooring.plugins.fc import FCPlugin
from mooring.plugins.git_repo import GitRepoPlugin
from mooring.plugins.host_path import HostPathPlugin
from mooring.plugins.image import ImagePlugin
from mooring.plugins.interface import PluginContext
from mooring.plugins.iscsi import ISCSIPlugin
from mooring.plugins.local import LocalPlugin
from mooring.plugins.manager import PluginFactory, VolumePluginManager
from mooring.plugins.nfs import NFSPlugin
from mooring.plugins.projected import ProjectedPlugin
from mooring.plugins.secret import SecretPlugin

BUILTIN: tuple[PluginFactory, ...] = (
    EmptyDirPlugin,
    GitRepoPlugin,
    HostPathPlugin,
    NFSPlugin,
    SecretPlugin,
    ISCSIPlugin,
    DownwardAPIPlugin,
    FCPlugin,
    ConfigMapPlugin,
    ProjectedPlugin,
    LocalPlugin,
    ImagePlugin,
)

ENTRY_POINTS = "mooring.volume_plugins"
"""Packages add a plugin with an entry point of this group that takes a `PluginContext` and returns the plugin."""


def make_plugins(context: PluginContext) -> VolumePluginManager:
    """All plugins of this installation. One that cannot even be loaded is remembered as a problem."""
    manager = VolumePluginManager(factory(context) for factory in BUILTIN)
    for point in entry_points(group=ENTRY_POINTS):
        try:
            plugin = point.load()(context)
        except Exception as error:  # foreign code: whatever it raises costs its own volumes only
            manager.problems.append(
                Refused(
                    f"cannot load volume plugin {point.name!r}",
                    why=f"{type(error).__name__}: {error}",
                    next_step="Mend or remove the package that brings it",
                )
            )
        else:
            manager.register(plugin)
    return manager
