"""After a start: what earlier processes left on disk becomes doubt in the actual state of the world."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from mooring.errors import MooringError, Refused
from mooring.host.interface import FileKind, Host
from mooring.host.paths import Paths, unescape_plugin_name
from mooring.manager.intents import Intent
from mooring.plugins.interface import (
    KnownByPlace,
    LabelKeeper,
    Offer,
    PodwiseReconstruction,
    Trace,
    Traceable,
    VolumePlugin,
)
from mooring.plugins.manager import VolumePluginManager, unique_volume_name
from mooring.world.actual import ActualMount, ActualStateOfWorld, ActualVolume
from mooring.world.changes import Change, Reconstructed
from mooring.world.names import PluginName, PodUid, VolumeName, shared_volume_name
from mooring.world.presence import Attachability, Presence
from mooring.world.spec import VolumeSpec


class Found(msgspec.Struct, frozen=True):
    """A name among the volumes or, if `block`, the raw devices of a pod."""

    pod: PodUid
    plugin: PluginName
    inner_name: str
    block: bool


class Leftover(msgspec.Struct, frozen=True, kw_only=True):
    """A volume directory, or a link to a device, that nothing explains. It stays, and is shown as a finding."""

    found: Found
    path: str
    why: str
    intent: Intent | None = None  # the record that tells of it, if there is one


class Reconstruction:
    """Reads pods' directories, intent records and what plugins keep into the actual state of the world.

    Nothing is looked at but names: an empty directory left by a crash and a live mount are both just doubt, which
    the next set-up or teardown settles. After a boot of the machine (`rebooted`) nothing that was mounted can be there
    any more, and a refusal to mount it again leaves no doubt.
    """

    def __init__(
        self,
        host: Host,
        paths: Paths,
        plugins: VolumePluginManager,
        actual: ActualStateOfWorld,
        tell: Callable[[Change], None],
        *,
        intents: Sequence[Intent] = (),
        rebooted: bool = False,
    ) -> None:
        self._host, self._paths, self._plugins = host, paths, plugins
        self._actual, self._tell, self._rebooted = actual, tell, rebooted
        self._intents = intents
        # Asking what a plugin is takes a while.
        self._podwise: dict[PluginName, PodwiseReconstruction | None] = {}
        self._keepers: dict[PluginName, LabelKeeper | None] = {}
        self._by_place = {(each.pod, each.plugin, each.spec.name): each for each in intents if each.pod is not None}

    def run(self) -> list[Leftover]:
        """Put all that is found into the actual state of the world; returns what could not be made sense of."""
        leftovers: list[Leftover] = []
        pods = _names(self._host, self._paths.pods_dir)
        self._host.expect_chores(len(pods))  # whatever becomes of them
        for uid in pods:
            pod = PodUid(uid)
            facts = self._host.look(self._paths.pod_dir(uid))
            if facts is None or facts.kind is not FileKind.DIRECTORY:
                continue
            self._actual.directories[pod] = Presence.UNCERTAIN
            for found in _volumes_on_disk(self._host, self._paths, pod):
                leftover = self._adopt(found)
                if leftover is not None:
                    leftovers.append(leftover)
        told = {leftover.intent.key for leftover in leftovers if leftover.intent is not None}
        rest = (intent for intent in self._intents if intent.key not in told)
        leftovers.extend(left for intent in rest if (left := self._adopt_intent(intent)) is not None)
        for each in self._plugins.plugins.values():
            if isinstance(each, Traceable):
                self._adopt_traces(each, each.traces())
        return leftovers

    def adopt_again(self, leftover: Leftover) -> bool:
        """Try once more with what could not be made sense of; whether it is settled."""
        if leftover.intent is not None:
            return self._adopt_intent(leftover.intent) is None
        return self._adopt(leftover.found) is None

    def _adopt(self, found: Found) -> Leftover | None:
        """Take a volume of a pod into the actual state of the world, in doubt, or say why not."""
        intent = self._by_place.get((found.pod, found.plugin, found.inner_name))
        try:
            plugin = self._plugins.find_by_name(found.plugin)
            spec = intent.spec if intent is not None else self._reconstructed(plugin, found)
            name = unique_volume_name(plugin, spec, found.pod)
            label = intent.label if intent is not None else self._label(plugin, found)
            self._put(name, plugin, spec, found.pod, label)
        except (MooringError, ValueError) as error:
            return self._left(found, intent, error)
        self._told(found, name)
        return None

    def _reconstructed(self, plugin: VolumePlugin, found: Found) -> VolumeSpec:
        if plugin.name not in self._podwise:
            self._podwise[plugin.name] = plugin if isinstance(plugin, PodwiseReconstruction) else None
        podwise = self._podwise[plugin.name]
        if podwise is not None:
            return podwise.reconstruct_for(found.pod, found.inner_name, block=found.block)
        return plugin.reconstruct(found.inner_name, block=found.block)

    def _label(self, plugin: VolumePlugin, found: Found) -> str:
        if plugin.name not in self._keepers:
            self._keepers[plugin.name] = plugin if isinstance(plugin, LabelKeeper) else None
        keeper = self._keepers[plugin.name]
        return keeper.label_of(found.pod, found.inner_name) if keeper is not None and not found.block else ""

    def _adopt_intent(self, intent: Intent) -> Leftover | None:
        """Take in what a record tells and no directory of a pod showed."""
        found = Found(intent.pod or PodUid(""), intent.plugin, intent.spec.name, intent.spec.is_block)
        held = self._actual.volumes.get(intent.volume)
        if intent.pod is not None and held is not None and intent.pod in held.mounts:
            return None
        try:
            plugin = self._plugins.find_by_name(intent.plugin)
            if unique_volume_name(plugin, intent.spec, found.pod) != intent.volume:
                raise Refused(f"cannot tell what {intent.volume!r} is", why="its record has the name of another volume")
            self._put(intent.volume, plugin, intent.spec, intent.pod, intent.label, intent)
        except (MooringError, ValueError) as error:
            return self._left(found, intent, error)
        if intent.pod is not None or held is None:
            self._told(found, intent.volume)
        return None

    def _put(
        self,
        name: VolumeName,
        plugin: VolumePlugin,
        spec: VolumeSpec,
        pod: PodUid | None,
        label: str,
        intent: Intent | None = None,
    ) -> None:
        offer = plugin.offer(spec)
        known = self._actual.volumes.get(name) or self._in_doubt(name, plugin, spec, offer)
        if intent is not None and pod is None:
            known = self._with_node_part(known, offer, intent)
        if pod is not None:
            if pod in known.mounts:
                raise Refused(f"cannot tell what {name!r} is", why="the pod has it as a directory and as a device")
            known = self._with_mount(known, pod, spec, offer)
        if label and known.label is None:  # that it was mounted without one is as good as not known
            known = replace(known, label=label)
        self._actual.put(known)

    def _with_node_part(self, known: ActualVolume, offer: Offer, intent: Intent) -> ActualVolume:
        """The volume with what a record tells of the node's own part; what this process did itself it knows better."""
        doubt = self._in_doubt(known.name, self._plugins.find_by_name(known.plugin), known.spec, offer)
        if known.attachment is Presence.ABSENT:
            known = replace(known, attachment=doubt.attachment, attachability=doubt.attachability)
        if known.stage is Presence.ABSENT:
            known = replace(known, stage=doubt.stage, stage_reconstructed=doubt.stage_reconstructed)
        device_path, stage_path = known.device_path or intent.device_path, known.stage_path or intent.path
        return replace(known, device_path=device_path, stage_path=stage_path)

    def _left(self, found: Found, intent: Intent | None, error: MooringError | ValueError) -> Leftover:
        why = error.why if isinstance(error, MooringError) else str(error)
        place = self._paths.pod_device if found.block else self._paths.pod_volume_dir
        path = place(found.pod, found.plugin, found.inner_name) if found.pod else self._paths.intents_dir
        self._told(found, None, why)
        return Leftover(found=found, path=path, why=why, intent=intent)

    def _told(self, found: Found, volume: VolumeName | None, why: str = "") -> None:
        self._tell(
            Reconstructed(pod=found.pod, plugin=found.plugin, inner_name=found.inner_name, volume=volume, why=why)
        )

    def _adopt_traces(self, plugin: VolumePlugin, traces: Iterable[Trace]) -> None:
        """Adopt what a plugin itself has on the node: a crash may have come before a pod's directory showed it."""
        by_place = self._names_by_place(plugin)
        for trace in traces:
            offer = plugin.offer(trace.spec)
            name = by_place.get(_place(plugin, trace.spec)) or shared_volume_name(
                plugin.name, plugin.volume_name(trace.spec)
            )
            volume = self._actual.volumes.get(name) or self._in_doubt(name, plugin, trace.spec, offer)
            for pod in trace.pods:
                if pod not in volume.mounts:
                    volume = self._with_mount(volume, pod, trace.spec, offer)
            self._actual.put(volume)

    def _names_by_place(self, plugin: VolumePlugin) -> dict[str, VolumeName]:
        """The volumes of a plugin that pods and records told of, with the names that they have there."""
        held = (each for each in self._actual.volumes.values() if each.plugin == plugin.name)
        return {place: each.name for each in held if (place := _place(plugin, each.spec))}

    def _in_doubt(self, name: VolumeName, plugin: VolumePlugin, spec: VolumeSpec, offer: Offer) -> ActualVolume:
        """A volume of which nothing is known but that it may be there."""
        return ActualVolume(
            name=name,
            plugin=plugin.name,
            spec=spec,
            attachment=Presence.UNCERTAIN if offer.attachable else Presence.ABSENT,
            attachability=Attachability.UNCERTAIN if offer.attachable else Attachability.FALSE,
            stage=Presence.UNCERTAIN if offer.stager is not None else Presence.ABSENT,
            stage_reconstructed=offer.stager is not None and not self._rebooted,
        )

    def _with_mount(self, volume: ActualVolume, pod: PodUid, spec: VolumeSpec, offer: Offer) -> ActualVolume:
        mount = ActualMount(
            pod=pod,
            presence=Presence.UNCERTAIN,
            spec=spec,
            path=offer.mounter.path(pod, spec),
            reconstructed=not self._rebooted,
        )
        return replace(volume, mounts={**volume.mounts, pod: mount})


def _place(plugin: VolumePlugin, spec: VolumeSpec) -> str:
    """Where the node keeps a volume, if that tells it from others of its plugin."""
    if not isinstance(plugin, KnownByPlace):
        return ""
    try:
        return plugin.place_of(spec)
    except (Refused, ValueError):
        return ""


def _names(host: Host, path: str) -> list[str]:
    try:
        return host.names_in(path)
    except (FileNotFoundError, NotADirectoryError):
        return []


def _volumes_on_disk(host: Host, paths: Paths, pod: PodUid) -> Iterator[Found]:
    for place, block in ((paths.pod_volumes_dir(pod), False), (paths.pod_devices_dir(pod), True)):
        for directory in _names(host, place):
            for inner_name in _names(host, f"{place}/{directory}"):
                yield Found(pod, PluginName(unescape_plugin_name(directory)), inner_name, block)
