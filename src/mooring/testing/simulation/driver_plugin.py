"""The volume plugin of a simulated driver: what runs in the manager's own process, and dies with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from mooring.errors import Doubtful, NotYet, Refused
from mooring.host.interface import FileKind, Host, Risk
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import FlexVolumeSource, Volume
from mooring.plugins.fs_group import give_to_group
from mooring.plugins.interface import NO_WISHES, ObjectRef, Offer, PluginContext, Setup, StageWishes, Trace
from mooring.testing.simulation.disks import DISKS, DRIVERS, skeleton
from mooring.testing.simulation.driver_effects import Request, Thing, Verb, device_path, stage_path
from mooring.testing.simulation.drivers import Drivers
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec


class DriverPlugin:
    """Serves the volumes of one simulated driver."""

    def __init__(self, context: PluginContext, name: PluginName, drivers: Drivers) -> None:
        self.name = name
        self._host: Host = context.host
        self._paths = context.paths
        self._drivers = drivers
        self._abilities = DRIVERS[name]

    # -- what plugins are asked ----------------------------------------------------------------------------------
    def supports(self, spec: VolumeSpec) -> bool:
        return spec.flex_driver == self.name

    def volume_name(self, spec: VolumeSpec) -> str:
        return spec.name

    def offer(self, spec: VolumeSpec) -> Offer:
        if spec.persistent_volume is None:
            return Offer(mounter=self, resizer=self)
        return Offer(
            mounter=self,
            stager=self if self._abilities.stages else None,
            attacher=self if self._abilities.attaches else None,
            maps_devices=spec.is_block,
        )

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        return ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        if self._abilities.forgetful:
            raise Refused(f"cannot tell what {volume_name!r} is", why="its name tells nothing")
        if volume_name not in DISKS:
            return VolumeSpec(volume=Volume(name=volume_name, flex_volume=FlexVolumeSource(driver=self.name)))
        return VolumeSpec(persistent_volume=skeleton(self.name, volume_name, block=block))

    def traces(self) -> Iterable[Trace]:
        """What its stages tell, unless their names tell it nothing."""
        place = f"{self._paths.plugin_dir(self.name)}/stages"
        if self._abilities.forgetful or self._host.look(place) is None:
            return
        for name in self._host.names_in(place):
            volume = skeleton(self.name, name, block=DISKS[name].block)
            yield Trace(spec=VolumeSpec(persistent_volume=volume))

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._published(uid, spec).place(self._paths.root)

    def _published(self, uid: PodUid, spec: VolumeSpec) -> Thing:
        return Thing("published", self.name, spec.name, uid)

    # -- once for the node ---------------------------------------------------------------------------------------
    async def attach(self, spec: VolumeSpec) -> str:
        await self._drivers.ask(Request(verb=Verb.ATTACH, thing=Thing("attached", self.name, spec.name)))
        return device_path(spec.name)

    async def detach(self, spec: VolumeSpec) -> None:
        await self._drivers.ask(Request(verb=Verb.DETACH, thing=Thing("attached", self.name, spec.name)))

    async def stage(self, spec: VolumeSpec, device_path: str, wishes: StageWishes = NO_WISHES) -> str:
        place = stage_path(self._paths.root, self.name, spec.name)
        thing = Thing("staged", self.name, spec.name)
        await self._drivers.ask(Request(verb=Verb.STAGE, thing=thing, place=place, device_path=device_path))
        return place

    async def unstage(self, spec: VolumeSpec, stage_path: str) -> None:
        place = Thing("staged", self.name, spec.name).place(self._paths.root)
        if stage_path not in ("", place):
            raise AssertionError(f"unstage of {spec.name!r} at {stage_path}, which is staged at {place}")
        thing = Thing("staged", self.name, spec.name)
        await self._drivers.ask(Request(verb=Verb.UNSTAGE, thing=thing, place=place))

    # -- for a pod -----------------------------------------------------------------------------------------------
    async def set_up(self, request: Setup) -> None:
        thing = self._published(request.uid, request.spec)
        place = thing.place(self._paths.root)
        directory = place.rpartition("/")[0] if thing.block else place
        made = self._host.look(directory) is None
        await self._run(lambda: self._host.make_directories(directory, 0o750), f"make {directory}")
        source = "" if thing.block or not self._abilities.stages else request.stage_path
        asked = Request(verb=Verb.PUBLISH, thing=thing, place=place, source=source, device_path=request.device_path)
        try:
            await self._drivers.ask(asked)
        except Refused:
            if not request.reconstructed:
                await self._remove_directory(place)
            raise
        except NotYet:
            if made:
                await self._remove_directory(place)
            raise
        if not thing.block:
            await _without_refusal(give_to_group(self._host, place, request))

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        thing = self._published(uid, spec)
        place = thing.place(self._paths.root)
        await self._drivers.ask(Request(verb=Verb.UNPUBLISH, thing=thing, place=place))
        await self._remove_directory(place)

    async def resize(self, uid: PodUid, spec: VolumeSpec, size: int) -> None:
        await self._drivers.ask(Request(verb=Verb.EXPAND, thing=self._published(uid, spec), size=size))

    async def _remove_directory(self, place: str) -> None:
        """Remove the directory that a volume was shown in, if that is all there is."""
        facts = self._host.look(place)
        if facts is not None and facts.kind is FileKind.DIRECTORY:
            await self._run(lambda: self._host.remove_directory(place), f"remove {place}")

    async def _run(self, call: Callable[[], object], what: str) -> None:
        await _without_refusal(self._host.run(call, risk=Risk.CHEAP, what=what))


async def _without_refusal(call: Awaitable[object]) -> None:
    """What the plugin does beside its driver's work says nothing of the volume when it is refused."""
    try:
        await call
    except Refused as error:
        raise Doubtful(error.what, why=error.why) from error
