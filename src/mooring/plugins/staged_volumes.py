"""What volume types with a device of their own have in common, once the node has it.

The device is attached and mounted by the stage; each pod gets a bind of that mount, or a map of the raw device.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from mooring.errors import Doubtful, Refused
from mooring.host import block_maps, mount_options
from mooring.host.file_systems import MountProblem, format_and_mount
from mooring.host.interface import Host, Risk
from mooring.host.mount_points import clear_mount_point
from mooring.host.paths import Paths
from mooring.plugins.fs_group import bind_for_pod, give_to_group
from mooring.plugins.interface import Setup
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec


class AttachedByStage:
    """The attacher of types whose attachment is no step of its own: the stage does it, and unstaging undoes it."""

    async def attach(self, spec: VolumeSpec) -> str:
        return ""

    async def detach(self, spec: VolumeSpec) -> None:
        return


class StagedBinds:
    """Binds the stage of a volume into a pod, and undoes it."""

    def __init__(
        self, host: Host, paths: Paths, plugin: PluginName, check: Callable[[VolumeSpec], object], *, owns: bool = True
    ) -> None:
        self._host = host
        self._paths = paths
        self._plugin = plugin
        self._check = check
        self._owns = owns

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._paths.pod_volume_dir(uid, self._plugin, spec.name)

    def check(self, request: Setup) -> None:
        self._check(request.spec)

    async def set_up(self, request: Setup) -> None:
        source, target = request.stage_path, self.path(request.uid, request.spec)
        if self._host.mount_at(target) is not None:
            return
        if not source:
            raise Refused(f"cannot set up volume {request.spec.name!r}", why="it is not known where it is staged")
        options = mount_options.parse(request.spec.mount_options)
        read_only = request.spec.read_only or options.read_only
        # Before the bind: once it is there it is never looked at again, so a crash must not come between.
        if self._owns and not read_only and not request.idmapped:
            await give_to_group(self._host, source, request)
        what = f"bind volume {request.spec.name}"
        await self._host.run(
            lambda: self._bind(request, target, read_only, options.mount_flags), risk=Risk.HANGING, what=what
        )

    def _bind(self, request: Setup, target: str, read_only: bool, flags: Sequence[str]) -> None:
        source = request.stage_path
        self._host.make_directories(target, 0o750)
        try:
            if self._owns:
                bind_for_pod(self._host, source, target, request, read_only=read_only, flags=flags)
            else:
                self._host.bind(source, target, read_only=read_only, flags=flags)
        except (OSError, Refused) as error:
            clear_mount_point(self._host, target)
            if isinstance(error, Refused):
                raise
            raise Refused(f"failed to mount {source} at {target}", why=error.strerror or str(error)) from error

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        path = self.path(uid, spec)
        await self._host.run(
            lambda: clear_mount_point(self._host, path), risk=Risk.HANGING, what=f"unmount volume {path}"
        )


class StagedMaps:
    """Maps the raw device of a volume for one pod, and undoes it.

    `find` looks for the device on the node, where the stage has brought it; `place` is its map directory.
    """

    def __init__(
        self,
        host: Host,
        paths: Paths,
        plugin: PluginName,
        find: Callable[[VolumeSpec], Awaitable[str]],
        place: Callable[[VolumeSpec], str],
        check: Callable[[VolumeSpec], object],
    ) -> None:
        self._host = host
        self._paths = paths
        self._plugin = plugin
        self._find = find
        self._place = place
        self._check = check

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._paths.pod_device(uid, self._plugin, spec.name)

    def check(self, request: Setup) -> None:
        self._check(request.spec)

    async def set_up(self, request: Setup) -> None:
        uid, spec = request.uid, request.spec
        place, links = self._place(spec), self._paths.pod_device_dir(uid, self._plugin)
        try:
            device = await self._find(spec)
            await self._host.run(
                lambda: block_maps.map_device(self._host, device, place, links, spec.name, uid),
                risk=Risk.HANGING,
                what=f"map the device of {spec.name}",
            )
        except Refused as error:
            if self._host.look(f"{place}/{uid}") is None and self._host.look(f"{links}/{spec.name}") is None:
                raise
            raise Doubtful(error.what, why=error.why, next_step=error.next_step) from error  # of an earlier try

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        links = self._paths.pod_device_dir(uid, self._plugin)
        await self._host.run(
            lambda: block_maps.unmap_device(self._host, self._place(spec), links, spec.name, uid),
            risk=Risk.HANGING,
            what=f"unmap {links}/{spec.name}",
        )


def mount_stage(
    host: Host, spec: VolumeSpec, device: str, path: str, fs_type: str, *, read_only: bool, label: str = ""
) -> None:
    """Format and mount a device at its stage, which becomes a directory if it is none; a failure removes it again."""
    if host.mount_at(path) is not None:
        return
    host.make_directories(path, 0o750)
    options = stage_options(spec, read_only=read_only, label=label)
    try:
        format_and_mount(host, device, path, fs_type, options)
    except MountProblem:
        if host.mount_at(path) is None and not host.names_in(path):
            clear_mount_point(host, path)
        raise


def stage_options(spec: VolumeSpec, *, read_only: bool, label: str) -> list[str]:
    """What a volume is mounted with at its stage: its own options, each once, and its SELinux label as the last."""
    options = sorted({*spec.mount_options, *(("ro",) if read_only else ())})
    return [*options, mount_options.context_option(label)] if label else options


def refuse_users(host: Host, directory: str) -> None:
    """Refuse to let go of a raw device that pods still have in the map directory of its volume."""
    users = block_maps.references(host, directory)
    if users:
        raise Doubtful(
            f"cannot let go of the device behind {directory!r}",
            why=f"the device is still referenced from other pods: {', '.join(users)}",
            next_step="Find out who has it; it is tried again by itself",
        )
