"""Binding the stage of a local volume into a pod. Only its first user changes who owns the files."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from mooring.errors import Doubtful, MooringError, Refused
from mooring.host import mount_options
from mooring.host.interface import Host, Risk
from mooring.host.mount_points import clear_mount_point
from mooring.host.mount_table import MountTable
from mooring.host.resolution import resolved
from mooring.plugins.fs_group import bind_for_pod, give_to_group
from mooring.plugins.interface import PluginContext, Setup
from mooring.plugins.local_places import NAME, checked_kind, usable_path
from mooring.world.changes import Noticed
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec


class LocalMounter:
    """Binds the stage of a volume into a pod, and undoes it."""

    def __init__(self, context: PluginContext) -> None:
        self._host = context.host
        self._paths = context.paths
        self._tell = context.tell
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._paths.pod_volume_dir(uid, NAME, spec.name)

    def check(self, request: Setup) -> None:
        checked_kind(self._host, request.spec)

    async def set_up(self, request: Setup) -> None:
        lock = self._locks.setdefault(request.stage_path, asyncio.Lock())
        what, at = f"bind volume {request.spec.name}", request.stage_path
        async with lock:  # two volumes may be the same directory, and only one user is the first
            # Before the bind: once it is there it is never looked at again, so a crash must not come between.
            if request.fs_group is not None and not _is_read_only(request.spec) and not request.idmapped:
                await self._change_owner(request, request.fs_group)
            await self._host.run(lambda: self._bind(request), risk=Risk.HANGING, what=what, at=at)

    def _bind(self, request: Setup) -> None:
        source, target = request.stage_path, self.path(request.uid, request.spec)
        if self._host.mount_at(target) is not None:
            return
        _check(request)
        options = mount_options.parse(request.spec.mount_options)
        self._host.make_directories(target, 0o750)
        read_only = _is_read_only(request.spec)
        try:
            bind_for_pod(self._host, source, target, request, read_only=read_only, flags=options.mount_flags)
        except (OSError, Refused) as error:
            clear_mount_point(self._host, target)
            if isinstance(error, Refused):
                raise
            why = error.strerror or str(error)
            raise Refused(f"local: failed to mount {source} at {target}", why=why) from error

    async def _change_owner(self, request: Setup, group: int) -> None:
        what, at = f"look who uses volume {request.spec.name}", request.stage_path
        found = await self._host.run(lambda: self._look(request), risk=Risk.HANGING, what=what, at=at)
        if found is None:
            return
        path, is_used, gid = found
        if not is_used:
            await give_to_group(self._host, path, request)
        elif gid != group:
            message = (
                f"The requested fsGroup is {group}, but volume {request.spec.name} already belongs to group {gid} and"
                " is used by another pod; this one may not be able to share it"
            )
            self._tell(
                Noticed(pod=request.pod, volume=request.spec.name, reason="AlreadyMountedVolume", message=message)
            )

    def _look(self, request: Setup) -> tuple[str, bool, int] | None:
        """The real path of a volume that is yet to be bound, whether other pods use it, and its group."""
        if self._host.mount_at(self.path(request.uid, request.spec)) is not None:
            return None
        _check(request)
        prefix = f"{self._paths.pods_dir}/"
        try:
            real = resolved(self._host, request.stage_path)  # a walk follows no link, not even one it begins with
            is_used = any(path.startswith(prefix) for path in references(self._host, real))
            facts = self._host.look(real)
        except OSError as error:
            why = f"{error.strerror or error} at {error.filename}"
            raise Refused(f"cannot tell who uses volume {request.spec.name!r}", why=why) from error
        return real, is_used, facts.gid if facts is not None else -1

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        path = self.path(uid, spec)
        await self._host.run(
            lambda: clear_mount_point(self._host, path), risk=Risk.HANGING, what=f"unmount volume {path}"
        )


def references(host: Host, path: str) -> list[str]:
    """The other places where a directory, whose path has no links, is mounted."""
    try:
        return MountTable(host.mounts()).references(path)
    except MooringError as error:
        raise Doubtful(error.what, why=error.why) from error


def _check(request: Setup) -> None:
    usable_path(request.spec)
    if not request.stage_path:
        raise Refused(f"cannot set up volume {request.spec.name!r}", why="it is not known where it is staged")


def _is_read_only(spec: VolumeSpec) -> bool:
    return spec.read_only or mount_options.parse(spec.mount_options).read_only
