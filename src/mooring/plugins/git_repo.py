"""gitRepo: a directory of the pod's own with a clone of a repository in it.

Kubernetes has switched it off for good: whoever writes the manifest makes the node run git on what anybody may have
put into a repository. mooring serves it only where the setting `allow_git_repo` says so.
"""

from __future__ import annotations

import posixpath

from mooring.errors import Refused
from mooring.host.interface import FileKind, Host, Risk
from mooring.host.programs import ProgramFailed, ProgramMissing
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import GitRepoVolumeSource, Volume
from mooring.plugins import empty_dir
from mooring.plugins.interface import Attributes, ObjectRef, Offer, PluginContext, Setup, refuse_block
from mooring.world.names import PluginName, PodUid
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/git-repo")
_DEADLINE = 110.0


class GitRepoPlugin:
    """The gitRepo volume type."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        self._mounter = GitRepoMounter(context)

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.git_repo is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        source = _source(spec)
        return f"{source.repository}:{source.revision}:{source.directory}"

    def offer(self, spec: VolumeSpec) -> Offer:
        attributes = Attributes(managed=True, relabel=True)
        return Offer(mounter=self._mounter, checker=self._mounter, attributes=attributes)

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        return ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        if block:
            raise refuse_block(volume_name)
        return VolumeSpec(volume=Volume(name=volume_name, git_repo=GitRepoVolumeSource(repository="")))


class GitRepoMounter:
    """Clones a repository once into an emptyDir; a clone that was broken off is made anew."""

    def __init__(self, context: PluginContext) -> None:
        self._host = context.host
        self._paths = context.paths
        self._is_allowed = context.allow_git_repo

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._paths.pod_volume_dir(uid, NAME, spec.name)

    def _marks(self, uid: PodUid, spec: VolumeSpec) -> tuple[str, str]:
        """The directories of the clone's own ready mark, and of that of the emptyDir it lies in."""
        own = self._paths.pod_plugin_dir(uid, NAME, spec.name)
        return own, self._paths.pod_plugin_dir(uid, empty_dir.NAME, f"wrapped_{spec.name}")

    def check(self, request: Setup) -> None:
        if not self._is_allowed:
            raise Refused(
                f"cannot set up volume {request.spec.name!r}",
                why="gitRepo volumes make the node run git on foreign content, and the setting allow_git_repo is off",
                next_step="Clone in an init container that shares an emptyDir, or set allow_git_repo to yes",
            )
        check_source(request.spec.name, _source(request.spec))

    async def set_up(self, request: Setup) -> None:
        self.check(request)
        path = self.path(request.uid, request.spec)
        await self._host.run(lambda: self._clone(request, path), risk=Risk.HANGING, what=f"clone into {path}")

    def _clone(self, request: Setup, path: str) -> None:
        ready, wrapped = self._marks(request.uid, request.spec)
        facts = self._host.look(f"{ready}/ready")
        if facts is not None and facts.kind is FileKind.FILE and self._host.look(path) is not None:
            return
        empty_dir.dismantle(self._host, path, wrapped)  # what is there without a mark was broken off
        empty_dir.prepare(self._host, empty_dir.Directory(path=path, ready=wrapped))
        try:
            clone(self._host, _source(request.spec), path)
        except (ProgramFailed, ProgramMissing, Refused) as error:
            empty_dir.dismantle(self._host, path, wrapped)
            raise Refused(f"cannot set up volume {request.spec.name!r}", why=f"{error.what}, {error.why}") from error
        if request.fs_group is not None:
            empty_dir.own(self._host, path, empty_dir.read_write(request.fs_group))
        if facts is None:
            self._host.make_directories(ready, 0o750)
            self._host.create_file(f"{ready}/ready", 0o644)

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        path, (ready, wrapped) = self.path(uid, spec), self._marks(uid, spec)

        def remove() -> None:
            if self._host.look(ready) is not None:
                self._host.remove_tree(ready)
            empty_dir.dismantle(self._host, path, wrapped)

        await self._host.run(remove, risk=Risk.BULKY, what=f"remove {path}")


def check_source(name: str, source: GitRepoVolumeSource) -> None:
    """Refuse what git would take for an option, or what leads out of the volume or into git's own files."""
    what = f"cannot set up volume {name!r}"
    words = (("repository", source.repository), ("revision", source.revision), ("directory", source.directory))
    for word, text in words:
        if text.startswith("-"):
            raise Refused(what, why=f"its {word} {text!r} begins with '-'")
    if not source.repository:
        raise Refused(what, why="it names no repository")
    parts = source.directory.replace("\\", "/").split("/")
    if source.directory.startswith("/") or ".." in parts:
        raise Refused(what, why=f"its directory {source.directory!r} leads out of the volume")
    if any(part.lower() == ".git" for part in parts):
        raise Refused(what, why=f"its directory {source.directory!r} lies among git's own files")
    cleaned = posixpath.normpath(source.directory) if source.directory else ""
    if source.revision and any(letter in cleaned for letter in "/\\"):
        raise Refused(what, why=f"its directory {source.directory!r} has several levels, and it has a revision")


def clone(host: Host, source: GitRepoVolumeSource, path: str) -> None:
    """Clone a repository below a path, and check a revision out where one is named."""
    _git(host, ["clone", "--", source.repository, *([source.directory] if source.directory else [])], path)
    if not source.revision:
        return
    work = _work_tree(host, source, path)
    _git(host, ["checkout", source.revision], work)
    _git(host, ["reset", "--hard"], work)


def _work_tree(host: Host, source: GitRepoVolumeSource, path: str) -> str:
    directory = posixpath.normpath(source.directory) if source.directory else ""
    if directory == ".":
        return path
    names = host.names_in(path)
    if len(names) != 1:
        raise Refused("cannot tell what git made", why=f"{path} holds {len(names)} entries where one was expected")
    return f"{path}/{names[0]}"


def _git(host: Host, arguments: list[str], directory: str) -> None:
    result = host.run_program(["git", *arguments], deadline=_DEADLINE, directory=directory)
    if result.status != 0:
        raise ProgramFailed(f"git {arguments[0]}", directory, result)


def _source(spec: VolumeSpec) -> GitRepoVolumeSource:
    assert spec.volume is not None
    assert spec.volume.git_repo is not None
    return spec.volume.git_repo
