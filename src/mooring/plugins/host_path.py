"""hostPath: a file, directory, socket or device of the machine itself. Nothing is mounted; it is only checked."""

from __future__ import annotations

from mooring.errors import Refused
from mooring.host.interface import FileKind, Host, Risk
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import HostPathVolumeSource, Volume
from mooring.plugins.interface import Attributes, ObjectRef, Offer, PluginContext, Setup, refuse_block
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/host-path")

_WANTED_KINDS = {
    "Directory": FileKind.DIRECTORY,
    "DirectoryOrCreate": FileKind.DIRECTORY,
    "File": FileKind.FILE,
    "FileOrCreate": FileKind.FILE,
    "Socket": FileKind.SOCKET,
    "CharDevice": FileKind.CHARACTER_DEVICE,
    "BlockDevice": FileKind.BLOCK_DEVICE,
}
_IN_WORDS = {
    FileKind.DIRECTORY: "a directory",
    FileKind.FILE: "a file",
    FileKind.SOCKET: "a socket file",
    FileKind.CHARACTER_DEVICE: "a character device",
    FileKind.BLOCK_DEVICE: "a block device",
    FileKind.FIFO: "a fifo",
    FileKind.LINK: "a link",
}


class HostPathPlugin:
    """The hostPath volume type, written in a pod or in a PersistentVolume."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        self._mounter = HostPathMounter(context.host)

    def supports(self, spec: VolumeSpec) -> bool:
        return _source(spec) is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        return _needed(spec).path

    def offer(self, spec: VolumeSpec) -> Offer:
        attributes = Attributes(read_only=spec.read_only)
        return Offer(mounter=self._mounter, checker=self._mounter, attributes=attributes)

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        return ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        """Of a name alone; nothing of a hostPath lies under the pod's directory, so this only serves leftovers."""
        if block:
            raise refuse_block(volume_name)
        return VolumeSpec(volume=Volume(name=volume_name, host_path=HostPathVolumeSource(path=f"/{volume_name}")))


class HostPathMounter:
    def __init__(self, host: Host) -> None:
        self._host = host

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return _needed(spec).path

    def check(self, request: Setup) -> None:
        source = _needed(request.spec)
        _refuse_backsteps(request.spec.name, source.path)
        if source.type:
            missing_kind(self._host, request.spec.name, source)

    async def set_up(self, request: Setup) -> None:
        source = _needed(request.spec)
        _refuse_backsteps(request.spec.name, source.path)
        if source.type:
            await self._host.run(
                lambda: ensure(self._host, request.spec.name, source),
                risk=Risk.HANGING,
                what=f"look at {source.path}",
                at=source.path,
            )

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        return None


def _refuse_backsteps(name: str, path: str) -> None:
    if ".." in path.split("/"):
        raise Refused(
            f"cannot set up volume {name!r}",
            why=f"invalid HostPath `{path}`: must not contain '..'",
            next_step="Write the path without going up",
        )


def ensure(host: Host, name: str, source: HostPathVolumeSource) -> None:
    """Make sure the path is of the kind asked for, creating it where the type says so."""
    missing = missing_kind(host, name, source)
    try:
        if missing is FileKind.DIRECTORY:
            host.make_directories(source.path, 0o755)
        elif missing is FileKind.FILE:
            host.create_file(source.path, 0o644)
    except FileNotFoundError as error:
        raise Refused(
            f"cannot set up volume {name!r}",
            why=f"{source.path} cannot be created: the directory it belongs into does not exist",
            next_step="Create that directory: type FileOrCreate makes the file alone",
        ) from error
    except (FileExistsError, NotADirectoryError) as error:  # it was not there when it was looked for
        raise Refused(
            f"cannot set up volume {name!r}",
            why=f"{source.path} cannot be created: a link to nothing stands there, or a file above it",
            next_step="Remove that, or choose another path",
        ) from error


def missing_kind(host: Host, name: str, source: HostPathVolumeSource) -> FileKind | None:
    """What is to be created at the path, if anything; refuses when something else than asked for is there."""
    what = f"cannot set up volume {name!r}"
    wanted = _WANTED_KINDS.get(source.type)
    if wanted is None:
        known = ", ".join(_WANTED_KINDS)
        raise Refused(what, why=f"{source.type} is an invalid volume type", next_step=f"Known types are {known}")
    facts = host.look_through(source.path)
    if facts is None and source.type.endswith("OrCreate"):
        return wanted
    if facts is None or facts.kind is not wanted:
        found = "nothing is there" if facts is None else f"it is {_IN_WORDS[facts.kind]}"
        raise Refused(
            what,
            why=f"hostPath type check failed: {source.path} is not {_IN_WORDS[wanted]} ({found})",
            next_step=f"Create {_IN_WORDS[wanted]} at {source.path}, or change the volume's type",
        )
    return None


def _source(spec: VolumeSpec) -> HostPathVolumeSource | None:
    if spec.persistent_volume is not None:
        return spec.persistent_volume.spec.host_path
    return spec.volume.host_path if spec.volume is not None else None


def _needed(spec: VolumeSpec) -> HostPathVolumeSource:
    source = _source(spec)
    assert source is not None
    return source
