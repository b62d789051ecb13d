"""flexVolume: volumes that a driver, a program in a directory of this node, attaches and mounts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

from msgspec.structs import replace

from mooring.errors import Doubtful, Refused
from mooring.host.file_systems import grow_to_device
from mooring.host.interface import Host, Risk
from mooring.host.mount_points import clear_mount_point
from mooring.host.paths import Paths, checked_component
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import FlexVolumeSource, Volume
from mooring.plugins import flex_options
from mooring.plugins.flex_driver import Capabilities, FlexDriver, NotSupported
from mooring.plugins.flex_options import is_read_only, options_of, source_of
from mooring.plugins.fs_group import give_to_group, refuse_idmapped
from mooring.plugins.interface import (
    NO_WISHES,
    Attributes,
    Growing,
    ObjectRef,
    Offer,
    PluginContext,
    Setup,
    StageWishes,
    Trace,
    refuse_block,
)
from mooring.plugins.staged_volumes import mount_stage
from mooring.world.names import PluginName, PodUid
from mooring.world.pod_facts import ON_ROOT_MISMATCH
from mooring.world.spec import VolumeSpec

_DIRECTORY = "kubernetes.io/flexvolume"


class FlexVolumePlugin:
    """The volumes of one driver. What the driver can do is known from its initialisation."""

    def __init__(self, context: PluginContext, driver: FlexDriver, capabilities: Capabilities) -> None:
        self.name = PluginName(driver.name)
        self.capabilities = capabilities
        self._driver = driver
        self._places = FlexPlaces(context.host, context.paths, driver.name)
        self._attacher = FlexAttacher(context, driver)
        self._stager = FlexStager(context.host, driver, self._places)
        self._mounter = FlexMounter(context, driver, capabilities)
        self.expander = FlexExpander(context.host, driver, capabilities)

    def supports(self, spec: VolumeSpec) -> bool:
        source = source_of(spec)
        return source is not None and source.driver == self.name

    def volume_name(self, spec: VolumeSpec) -> str:
        return spec.name

    def offer(self, spec: VolumeSpec) -> Offer:
        read_only = is_read_only(spec)
        attaches = self.capabilities.attach
        return Offer(
            mounter=self._mounter,
            stager=self._stager if attaches else None,
            attacher=self._attacher if attaches else None,
            checker=self._mounter,
            expander=self.expander if self.expander.requires_fs_resize else None,
            attributes=Attributes(
                read_only=read_only, managed=not read_only, relabel=self.capabilities.selinux_relabel
            ),
        )

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        reference = flex_options.secret_reference(spec, pod)
        return (reference,) if reference is not None else ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        if block:
            raise refuse_block(volume_name)
        return self._places.skeleton(volume_name)

    def traces(self) -> Iterable[Trace]:
        return self._places.traces() if self.capabilities.attach else ()


@dataclass(frozen=True, slots=True)
class FlexPlaces:
    """Where the devices of a driver are mounted once for the node."""

    host: Host
    paths: Paths
    driver: str

    def stage(self, name: str) -> str:
        return f"{self._mounts}/{checked_component(name)}"

    @property
    def _mounts(self) -> str:
        return f"{self.paths.plugin_dir(_DIRECTORY)}/{self.driver}/mounts"

    def traces(self) -> Iterable[Trace]:
        try:
            names = self.host.names_in(self._mounts)
        except (FileNotFoundError, NotADirectoryError):
            return ()
        return [Trace(spec=self.skeleton(name)) for name in names]

    def skeleton(self, name: str) -> VolumeSpec:
        return VolumeSpec(volume=Volume(name=name, flex_volume=FlexVolumeSource(driver=self.driver)))


class FlexAttacher:
    """Attaches with the driver; one that does not support it has nothing to attach.

    Where others attach, the driver is asked by them, on their machine, and they tell the device.
    """

    def __init__(self, context: PluginContext, driver: FlexDriver) -> None:
        self._node = context.node
        self._by_others = context.attached_by_others
        self._driver = driver

    async def attach(self, spec: VolumeSpec) -> str:
        if self._by_others:
            return ""
        options = options_of(spec)
        with suppress(NotSupported):  # whatever it answers, the volume keeps its own name; only a failure counts
            await self._driver.volume_name(options)
        try:
            return await self._driver.attach(options, self._node().name)
        except NotSupported:
            return ""

    async def detach(self, spec: VolumeSpec) -> None:
        if self._by_others:
            return
        try:
            await self._driver.detach(spec.name, self._node().name)
        except NotSupported:
            return


class FlexStager:
    """Mounts a device once for the node: by the driver, or as any device when it leaves that to mooring."""

    def __init__(self, host: Host, driver: FlexDriver, places: FlexPlaces) -> None:
        self._host = host
        self._driver = driver
        self._places = places

    async def stage(self, spec: VolumeSpec, device_path: str, wishes: StageWishes = NO_WISHES) -> str:
        path, options = self._places.stage(spec.name), options_of(spec)
        if self._host.mount_at(path) is not None:
            return path
        try:
            device = await self._driver.wait_for_attach(device_path, options)
        except NotSupported:
            device = device_path
        self._host.make_directories(path, 0o750)
        try:
            await self._driver.mount_device(path, device, options)
        except NotSupported:
            if device:
                await self._mount(spec, device, path)
        except Refused as error:
            raise _left_behind(self._host, path, error) from error
        return path

    async def _mount(self, spec: VolumeSpec, device: str, path: str) -> None:
        source = source_of(spec)
        fs_type = source.fs_type if source is not None else ""
        await self._host.run(
            lambda: mount_stage(self._host, spec, device, path, fs_type, read_only=is_read_only(spec)),
            risk=Risk.HANGING,
            what=f"mount {device} for volume {spec.name}",
        )

    async def unstage(self, spec: VolumeSpec, stage_path: str) -> None:
        path = self._places.stage(spec.name)
        await _take_away(self._host, path, self._driver.unmount_device)


class FlexMounter:
    """Gives a volume to a pod: by the driver, or as a bind of the stage when it leaves that to mooring."""

    def __init__(self, context: PluginContext, driver: FlexDriver, capabilities: Capabilities) -> None:
        self._host = context.host
        self._paths = context.paths
        self._objects = context.objects
        self._driver = driver
        self._capabilities = capabilities

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._paths.pod_volume_dir(uid, self._driver.name, spec.name)

    def check(self, request: Setup) -> None:
        flex_options.mount_options_of(request, self._objects, self._driver.name)

    async def set_up(self, request: Setup) -> None:
        path = self.path(request.uid, request.spec)
        refuse_idmapped(request)
        options = flex_options.mount_options_of(request, self._objects, self._driver.name)
        before = self._host.mount_at(path) is not None
        if not before:
            self._host.make_directories(path, 0o750)
            try:
                await self._driver.mount(path, options)
            except NotSupported:
                await self._host.run(lambda: self._bind(request, path), risk=Risk.HANGING, what=f"bind {path}")
            except Refused as error:
                raise _left_behind(self._host, path, error) from error
        if request.fs_group is not None and self._capabilities.fs_group and not is_read_only(request.spec):
            # What was mounted before may have been left by a process that ended before it came to this.
            policy = ON_ROOT_MISMATCH if before else request.fs_group_policy
            await give_to_group(self._host, path, replace(request, fs_group_policy=policy))

    def _bind(self, request: Setup, path: str) -> None:
        if not request.stage_path:
            clear_mount_point(self._host, path)
            why = "its driver neither mounts volumes for pods nor attaches them"
            raise Refused(f"cannot set up volume {request.spec.name!r}", why=why)
        self._host.bind(request.stage_path, path, read_only=is_read_only(request.spec))

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        await _take_away(self._host, self.path(uid, spec), self._driver.unmount)


class FlexExpander:
    """Lets the volume of a driver, and its file system, grow."""

    def __init__(self, host: Host, driver: FlexDriver, capabilities: Capabilities) -> None:
        self._host = host
        self._driver = driver
        self.requires_fs_resize = capabilities.requires_fs_resize

    async def expand(self, request: Growing) -> None:
        """Let the file system fill what the volume has become."""
        path = request.stage_path or request.path
        await self.expand_file_system(request.spec, request.device_path, path, request.size, request.before)

    async def expand_volume(self, spec: VolumeSpec, stage_path: str, new_size: int, old_size: int) -> int:
        """Returns the size it has then."""
        try:
            return await self._driver.expand_volume(options_of(spec), stage_path, new_size, old_size)
        except NotSupported:
            return new_size

    async def expand_file_system(self, spec: VolumeSpec, device: str, path: str, new_size: int, old_size: int) -> None:
        try:
            await self._driver.expand_file_system(options_of(spec), device, path, new_size, old_size)
        except NotSupported:
            await self._host.run(
                lambda: grow_to_device(self._host, device, path), risk=Risk.HANGING, what=f"grow volume {spec.name}"
            )


def _left_behind(host: Host, path: str, error: Refused) -> Refused | Doubtful:
    """What a driver's refusal means: nothing is there once its directory has gone, else there is doubt."""
    if host.mount_at(path) is None:
        try:
            clear_mount_point(host, path)
        except (Doubtful, OSError):
            return Doubtful(error.what, why=error.why, next_step=error.next_step)
        return error
    return Doubtful(error.what, why=error.why, next_step=error.next_step)


async def _take_away(host: Host, path: str, ask: Callable[[str], Awaitable[None]]) -> None:
    """Let the driver unmount a path, or unmount it if the driver leaves that to mooring; then remove what is left."""
    if host.mount_at(path) is None and host.look(path) is None:
        return
    with suppress(NotSupported):
        await ask(path)
    await host.run(lambda: clear_mount_point(host, path), risk=Risk.HANGING, what=f"unmount {path}", at=path)
