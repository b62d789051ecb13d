"""nfs: a directory that another machine exports, mounted anew for each pod."""

from __future__ import annotations

import ipaddress

from mooring.errors import Doubtful, Refused
from mooring.host.interface import Host, Risk
from mooring.host.mount_points import clear_mount_point
from mooring.host.network_mounts import mount_by_program
from mooring.host.paths import Paths
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import NFSVolumeSource, Volume
from mooring.plugins.interface import Attributes, ObjectRef, Offer, PluginContext, Setup, refuse_block
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/nfs")


class NFSPlugin:
    """The nfs volume type, in a pod or in a PersistentVolume."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        self._mounter = NFSMounter(context.host, context.paths)

    def supports(self, spec: VolumeSpec) -> bool:
        return _source(spec) is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        source = source_of(spec)
        return f"{source.server}/{source.path}"

    def offer(self, spec: VolumeSpec) -> Offer:
        return Offer(
            mounter=self._mounter,
            checker=self._mounter,
            attributes=Attributes(read_only=is_read_only(spec)),
            takes_mount_options=True,
        )

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        return ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        if block:
            raise refuse_block(volume_name)
        return VolumeSpec(volume=Volume(name=volume_name, nfs=NFSVolumeSource(server="", path=volume_name)))


class NFSMounter:
    """Mounts an export for a pod with mount(8), and unmounts it although its server may be dead."""

    def __init__(self, host: Host, paths: Paths) -> None:
        self._host = host
        self._paths = paths

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._paths.pod_volume_dir(uid, NAME, spec.name)

    def check(self, request: Setup) -> None:
        export(request.spec)

    async def set_up(self, request: Setup) -> None:
        path = self.path(request.uid, request.spec)
        if self._host.mount_at(path) is not None:
            return
        source = export(request.spec)
        what = f"mount {source} for volume {request.spec.name!r}"
        await self._host.run(lambda: self._mount(request.spec, source, path), risk=Risk.HANGING, what=what, at=path)

    def _mount(self, spec: VolumeSpec, source: str, path: str) -> None:
        self._host.make_directories(path, 0o750)
        try:
            mount_by_program(self._host, source, path, "nfs", mount_options(spec))
        except (Refused, Doubtful):
            clear_mount_point(self._host, path)  # of a helper that mounted and failed then
            raise

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        path = self.path(uid, spec)
        what = f"unmount volume {path}"
        await self._host.run(lambda: clear_mount_point(self._host, path), risk=Risk.HANGING, what=what, at=path)


def export(spec: VolumeSpec) -> str:
    """What is mounted, as mount(8) wants it: `server:path`, with an IPv6 address in brackets."""
    source = source_of(spec)
    what = f"cannot mount volume {spec.name!r}"
    if not source.server or source.server.startswith("-") or any(letter in source.server for letter in "/ \t\n,"):
        next_step = "Write a host name or an address"
        raise Refused(what, why=f"its NFS server {source.server!r} is no name of a machine", next_step=next_step)
    if not source.path.startswith("/"):
        next_step = "Write the path that the server exports"
        raise Refused(what, why=f"its NFS path {source.path!r} is not absolute", next_step=next_step)
    return f"{_bracketed(source.server)}:{source.path}"


def _bracketed(server: str) -> str:
    try:
        return f"[{server}]" if ipaddress.ip_address(server).version == 6 else server
    except ValueError:
        return server


def mount_options(spec: VolumeSpec) -> list[str]:
    """The PersistentVolume's mount options and `ro`, each once and sorted."""
    return sorted({*spec.mount_options, *(("ro",) if is_read_only(spec) else ())})


def is_read_only(spec: VolumeSpec) -> bool:
    """A pod's own volume says so in its source, a PersistentVolume in the claim or its own source."""
    return spec.read_only or source_of(spec).read_only


def source_of(spec: VolumeSpec) -> NFSVolumeSource:
    found = _source(spec)
    assert found is not None
    return found


def _source(spec: VolumeSpec) -> NFSVolumeSource | None:
    holder = spec.persistent_volume.spec if spec.persistent_volume is not None else spec.volume
    return holder.nfs if holder is not None else None
