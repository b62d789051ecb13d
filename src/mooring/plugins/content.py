"""The common frame of volumes whose files come from objects: configMap, secret, downwardAPI, projected.

All four wrap an emptyDir: its ready mark carries the name `wrapped_<volume>`, its directory is their own. The mark is
shared by all four types, so a volume that changes its type is mounted only after its namesake has gone (the planner
sees to that).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from mooring.errors import Refused
from mooring.host.atomic_writer import DATA_LINK, write_payload
from mooring.host.interface import Host
from mooring.host.mount_limits import MountTableFull
from mooring.host.ownership_calls import Ownership
from mooring.kube.objects.volumes import EmptyDirVolumeSource
from mooring.plugins import empty_dir
from mooring.plugins.interface import PluginContext, Setup
from mooring.plugins.nested_mounts import nested_directories
from mooring.plugins.payload import Content, Payload
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec

Collect = Callable[[Setup], Content]
"""Works out the files of a volume; raises `NotYet` or `Refused` while nothing has been touched."""

Fetch = Callable[[Setup], Awaitable[Content]]
"""As `Collect`, where part of the content must be asked for."""

_PLAIN = EmptyDirVolumeSource()
_MAKE_ROOM = "Make room or make the place writable; it is tried again by itself"


class ContentMounter:
    """Writes what `collect` returns, all or nothing, into an emptyDir on disk or in memory.

    With `fetch` it writes what that returns, and `collect` only finds out what would be in the way.
    """

    def __init__(
        self,
        context: PluginContext,
        plugin: PluginName,
        collect: Collect,
        *,
        memory: bool,
        fetch: Fetch | None = None,
        torn_down: Callable[[PodUid], None] | None = None,
    ) -> None:
        self._context = context
        self._host = context.host
        self._paths = context.paths
        self._plugin = plugin
        self._collect = collect
        self._fetch = fetch
        self._memory = memory
        self._torn_down = torn_down

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._paths.pod_volume_dir(uid, self._plugin, spec.name)

    def _ready(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._paths.pod_plugin_dir(uid, empty_dir.NAME, f"wrapped_{spec.name}")

    def check(self, request: Setup) -> None:
        self._collect(request)

    async def set_up(self, request: Setup) -> float | None:
        path = self.path(request.uid, request.spec)
        try:
            content = await self._fetch(request) if self._fetch is not None else self._collect(request)
        except Refused:
            if not request.refresh and not request.reconstructed:
                await self.tear_down(request.uid, request.spec)  # of an earlier try in doubt: a refusal leaves nothing
            raise
        await self._host.do(f"write the files of {path}", fill, self._filling(request, path, content.files))
        return content.look_again_after

    def _filling(self, request: Setup, path: str, payload: Payload) -> Filling:
        directory = empty_dir.Directory(
            path=path,
            ready=self._ready(request.uid, request.spec),
            memory=self._memory,
            size=empty_dir.memory_size(request.pod, _PLAIN, self._context.node()) if self._memory else None,
            fs_group=request.fs_group,
            untrusted=f"{path}/{DATA_LINK}",
        )
        return Filling(
            volume=request.spec.name,
            directory=directory,
            files=payload,
            nested=nested_directories(request.pod, request.spec.name),
            stamp=self._context.data_directory(),
            is_seen=request.refresh or request.reconstructed,
        )

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        path = self.path(uid, spec)
        await self._host.do(f"remove {path}", empty_dir.dismantle, path, self._ready(uid, spec))
        if self._torn_down is not None:
            self._torn_down(uid)


class Filling(msgspec.Struct, frozen=True, kw_only=True):
    """What it takes to fill a volume, as plain values."""

    volume: str  # its name in the pod
    directory: empty_dir.Directory
    files: Payload
    nested: Sequence[str]  # directories in it that other volumes are mounted on
    stamp: str  # the name of a data directory, should one be needed
    is_seen: bool  # by containers, perhaps: then a failure changes nothing


def fill(host: Host, wanted: Filling) -> None:
    """Let a volume show just the files that it should. A failure leaves what containers see, or else nothing."""
    try:
        _fill(host, wanted)
    except (OSError, Refused) as error:
        if wanted.is_seen:
            raise
        # Only a teardown that worked makes this a refusal; if it fails too, the doubt is real.
        directory = wanted.directory
        empty_dir.dismantle(host, directory.path, directory.ready)
        if isinstance(error, Refused):
            raise
        raise Refused(
            f"cannot set up volume {wanted.volume!r}",
            why=f"{error.strerror or error} at {error.filename or directory.path}",
            next_step=error.next_step if isinstance(error, MountTableFull) else _MAKE_ROOM,
        ) from error


def _fill(host: Host, wanted: Filling) -> None:
    path, group = wanted.directory.path, wanted.directory.fs_group
    is_new = empty_dir.prepare(host, wanted.directory)
    for directory in wanted.nested:
        host.make_directories(f"{path}/{directory}", 0o755)
    write_payload(
        host,
        path,
        wanted.files,
        stamp=lambda: wanted.stamp,
        # The whole volume, not just the new files: links and nested mount points belong to the group as well.
        set_ownership=None if group is None else lambda _: empty_dir.own(host, path, read_only(group)),
        hidden={directory.partition("/")[0] for directory in wanted.nested},
        is_empty=is_new and not wanted.nested,
    )


def read_only(gid: int) -> Ownership:
    """Group ownership of what containers may only read."""
    return Ownership(gid=gid, file_mask=0o440, directory_mask=0o2550)


def default_mode(mode: int | None) -> int:
    """The mode of files that name none."""
    return 0o644 if mode is None else mode
