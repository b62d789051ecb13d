"""After a start: what earlier processes left on disk becomes doubt in the actual state of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from mooring.errors import MooringError, Refused
from mooring.host.interface import FileKind, Host
from mooring.host.paths import Paths, unescape_plugin_name
from mooring.plugins.interface import Offer, Trace, Traceable, VolumePlugin
from mooring.plugins.manager import VolumePluginManager, unique_volume_name
from mooring.world.actual import ActualMount, ActualStateOfWorld, ActualVolume
from mooring.world.changes import Change, Reconstructed
from mooring.world.names import PluginName, PodUid, VolumeName, shared_volume_name
from mooring.world.presence import Attachability, Presence
from mooring.world.spec import VolumeSpec


@dataclass(frozen=True, slots=True)
class _Found:
    """A name among the volumes or, if `block`, the raw devices of a pod."""

    plugin: PluginName
    inner_name: str
    block: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A volume directory, or a link to a device, that nothing explains. It stays, and is shown as a finding."""

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
    """Read the pods directory, and what plugins keep beside it, into the actual state of the world.

    Returns what could not be made sense of.

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
        for found in _volumes_on_disk(host, paths, uid):
            plugin, inner_name = found.plugin, found.inner_name
            try:
                name = _adopt(plugins, actual, pod, found)
            except (MooringError, ValueError) as error:
                why = error.why if isinstance(error, MooringError) else str(error)
                where = paths.pod_device if found.block else paths.pod_volume_dir
                path = where(uid, plugin, inner_name)
                leftovers.append(Leftover(pod=pod, plugin=plugin, inner_name=inner_name, path=path, why=why))
                tell(Reconstructed(pod=pod, plugin=plugin, inner_name=inner_name, volume=None, why=why))
            else:
                tell(Reconstructed(pod=pod, plugin=plugin, inner_name=inner_name, volume=name))
    for each in plugins.plugins.values():
        if isinstance(each, Traceable):
            _adopt_traces(each, each.traces(), actual)
    return leftovers


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.names_in(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _volumes_on_disk(host: Host, paths: Paths, uid: str) -> Iterator[_Found]:
    for place, block in ((paths.pod_volumes_dir(uid), False), (paths.pod_devices_dir(uid), True)):
        for directory in _names(host, place):
            for inner_name in _names(host, f"{place}/{directory}"):
                yield _Found(PluginName(unescape_plugin_name(directory)), inner_name, block)


def _adopt(plugins: VolumePluginManager, actual: ActualStateOfWorld, pod: PodUid, found: _Found) -> VolumeName:
    plugin = plugins.find_by_name(found.plugin)
    spec = plugin.reconstruct(found.inner_name, block=found.block)
    offer = plugin.offer(spec)
    name = unique_volume_name(plugin, spec, pod)
    known = actual.volumes.get(name) or _in_doubt(name, plugin, spec, offer)
    if pod in known.mounts:
        raise Refused(f"cannot tell what {name!r} is", why="the pod has it as a directory and as a device")
    actual.put(_with_mount(known, pod, spec, offer))
    return name


def _adopt_traces(plugin: VolumePlugin, traces: Iterable[Trace], actual: ActualStateOfWorld) -> None:
    """Adopt what a plugin itself has on the node: a crash may have come before a pod's directory showed it."""
    for trace in traces:
        offer = plugin.offer(trace.spec)
        name = shared_volume_name(plugin.name, plugin.volume_name(trace.spec))
        volume = actual.volumes.get(name) or _in_doubt(name, plugin, trace.spec, offer)
        for pod in trace.pods:
            if pod not in volume.mounts:
                volume = _with_mount(volume, pod, trace.spec, offer)
        actual.put(volume)


def _in_doubt(name: VolumeName, plugin: VolumePlugin, spec: VolumeSpec, offer: Offer) -> ActualVolume:
    """A volume of which nothing is known but that it may be there."""
    return ActualVolume(
        name=name,
        plugin=plugin.name,
        spec=spec,
        attachment=Presence.UNCERTAIN if offer.attacher is not None else Presence.ABSENT,
        attachability=Attachability.UNCERTAIN if offer.attacher is not None else Attachability.FALSE,
        stage=Presence.UNCERTAIN if offer.stager is not None else Presence.ABSENT,
        stage_reconstructed=offer.stager is not None,
    )


def _with_mount(volume: ActualVolume, pod: PodUid, spec: VolumeSpec, offer: Offer) -> ActualVolume:
    mount = ActualMount(
        pod=pod,
        presence=Presence.UNCERTAIN,
        spec=spec,
        path=offer.mounter.path(pod, spec),
        reconstructed=True,
    )
    return replace(volume, mounts={**volume.mounts, pod: mount})
