"""After a start: what earlier processes left on disk becomes doubt in the actual state of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from mooring.errors import MooringError
from mooring.host.interface import FileKind, Host
from mooring.host.paths import Paths, unescape_plugin_name
from mooring.plugins.manager import VolumePluginManager
from mooring.world.actual import ActualMount, ActualStateOfWorld, ActualVolume
from mooring.world.changes import Change, Reconstructed
from mooring.world.names import PluginName, PodUid, VolumeName, private_volume_name, shared_volume_name
from mooring.world.presence import Attachability, Presence


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A volume directory that nothing explains. It stays, and is shown as a finding."""

    pod: PodUid
    plugin: PluginName
    inner_name: str
    path: str
    why: str


def reconstruct(
    host: Host,
    paths: Paths,
    plugins: VolumePluginManager,
    actual: ActualStateOfWorld,
    tell: Callable[[Change], None],
) -> list[Leftover]:
    """Read the pods directory into the actual state of the world; return what could not be made sense of.

    Nothing is looked at but names: an empty directory left by a crash and a live mount are both just doubt, which
    the next set-up or teardown settles.
    """
    leftovers: list[Leftover] = []
    for uid in _names(host, paths.pods_dir):
        pod = PodUid(uid)
        facts = host.look(paths.pod_dir(uid))
        if facts is None or facts.kind is not FileKind.DIRECTORY:
            continue
        actual.directories[pod] = Presence.UNCERTAIN
        for plugin, inner_name in _volumes_on_disk(host, paths, uid):
            try:
                name = _adopt(plugins, actual, pod, plugin, inner_name)
            except (MooringError, ValueError) as error:
                why = error.why if isinstance(error, MooringError) else str(error)
                path = paths.pod_volume_dir(uid, plugin, inner_name)
                leftovers.append(Leftover(pod=pod, plugin=plugin, inner_name=inner_name, path=path, why=why))
                tell(Reconstructed(pod=pod, plugin=plugin, inner_name=inner_name, volume=None, why=why))
            else:
                tell(Reconstructed(pod=pod, plugin=plugin, inner_name=inner_name, volume=name))
    return leftovers


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.names_in(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _volumes_on_disk(host: Host, paths: Paths, uid: str) -> Iterator[tuple[PluginName, str]]:
    volumes = paths.pod_volumes_dir(uid)
    for directory in _names(host, volumes):
        for inner_name in _names(host, f"{volumes}/{directory}"):
            yield PluginName(unescape_plugin_name(directory)), inner_name


def _adopt(
    plugins: VolumePluginManager, actual: ActualStateOfWorld, pod: PodUid, plugin_name: PluginName, inner_name: str
) -> VolumeName:
    plugin = plugins.find_by_name(plugin_name)
    spec = plugin.reconstruct(inner_name)
    offer = plugin.offer(spec)
    shared = offer.stager is not None or offer.attacher is not None
    name = (
        shared_volume_name(plugin.name, plugin.volume_name(spec))
        if shared
        else private_volume_name(plugin.name, pod, inner_name)
    )
    known = actual.volumes.get(name)
    if known is None:
        known = ActualVolume(
            name=name,
            plugin=plugin.name,
            spec=spec,
            attachment=Presence.UNCERTAIN if offer.attacher is not None else Presence.ABSENT,
            attachability=Attachability.UNCERTAIN if offer.attacher is not None else Attachability.FALSE,
            stage=Presence.UNCERTAIN if offer.stager is not None else Presence.ABSENT,
            stage_reconstructed=offer.stager is not None,
        )
    mount = ActualMount(
        pod=pod,
        presence=Presence.UNCERTAIN,
        spec=spec,
        path=offer.mounter.path(pod, spec),
        reconstructed=True,
    )
    actual.put(replace(known, mounts={**known.mounts, pod: mount}))
    return name
