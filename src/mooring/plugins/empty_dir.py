"""emptyDir: a directory of the pod's own, on disk or in memory, that goes with the pod."""

from __future__ import annotations

import contextlib
import errno
import os

import msgspec

from mooring.errors import Doubtful, NotYet, Refused
from mooring.host.interface import FileFacts, FileKind, Host, MountFacts, Risk
from mooring.host.ownership_calls import Ownership, OwnershipReport
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import EmptyDirVolumeSource, Volume
from mooring.kube.quantity import parse_quantity
from mooring.plugins import huge_pages
from mooring.plugins.directory_quotas import OFF, apply_quota, release_quota
from mooring.plugins.interface import Attributes, NodeFacts, ObjectRef, Offer, PluginContext, Setup, refuse_block
from mooring.world.names import PluginName, PodUid
from mooring.world.pod_facts import memory_limit
from mooring.world.spec import VolumeSpec

NAME = PluginName("kubernetes.io/empty-dir")
MEMORY = "Memory"
_LITTLE_MEMORY = 2**20
"""Bytes whose pages are given back in no time: more of them would keep other volumes waiting."""


class Directory(msgspec.Struct, frozen=True, kw_only=True):
    """What a directory of this kind is to be: where it lies, where its ready mark lies, and what holds it."""

    path: str
    ready: str  # the directory that holds the `ready` mark
    memory: bool = False
    page_size: int | None = None  # of huge pages that hold it, in bytes
    is_page_size_stated: bool = False  # else any huge pages that are there will do
    size: int | None = None  # of a memory file system, in bytes
    mode: int | None = None
    fs_group: int | None = None
    untrusted: str = ""  # a link to what must not be taken for whole unless the directory is ready

    @property
    def is_mounted(self) -> bool:
        """Whether it is a file system of its own."""
        return self.memory or self.page_size is not None


def prepare(host: Host, wanted: Directory) -> bool:
    """Make the directory and, in memory, its file system; what is ready already stays as it is.

    Returns whether it was made now, and is empty.
    """
    mark = f"{wanted.ready}/ready"
    marked = host.look(mark)
    if marked is not None and _is_ready(host, wanted, marked):
        return False
    is_new = marked is None and host.make_directories(wanted.path, 0o777)
    if not is_new:
        _clear_what_was_left(host, wanted, mark if marked is not None else "")
        host.make_directories(wanted.path, 0o777)
    if not wanted.is_mounted:
        host.change_mode(wanted.path, wanted.mode if wanted.mode is not None else 0o777)
    else:
        _mount(host, wanted, None if is_new else host.mount_at(wanted.path))
    if wanted.fs_group is not None:
        own(host, wanted.path, read_write(wanted.fs_group))
    host.make_directories(wanted.ready, 0o750)
    host.create_file(mark, 0o644)
    return is_new


def _clear_what_was_left(host: Host, wanted: Directory, mark: str) -> None:
    """Remove what an earlier time left and what would be wrong from now on, before anything is made."""
    if wanted.is_mounted:
        _refuse_to_hide_data(host, wanted.path)
    if mark:
        host.remove_file(mark)  # a reboot left it behind: it must not speak for what is mounted and not yet owned
    if wanted.untrusted and host.look(wanted.untrusted) is not None:
        host.remove_file(wanted.untrusted)  # a teardown stopped half way


def _mount(host: Host, wanted: Directory, there: MountFacts | None) -> None:
    if there is None and wanted.page_size is not None:
        # Users of all pods write to it, as to a tmpfs, whose mode is so by itself.
        host.mount_huge_pages(
            wanted.path, page_size=wanted.page_size, mode=0o1777 if wanted.mode is None else wanted.mode
        )
    elif there is None:
        host.mount_tmpfs(wanted.path, size=wanted.size, mode=wanted.mode)
    elif wanted.page_size is not None:
        _check_pages(wanted, there)


def _check_pages(wanted: Directory, there: MountFacts) -> None:
    """What is mounted already must be of the pages that the medium states."""
    if wanted.is_page_size_stated and huge_pages.mounted_page_size(there) != wanted.page_size:
        stated = huge_pages.size_name(wanted.page_size or 0)
        why = f"{there.path} is there with other pages than those of {stated}"
        raise Doubtful("cannot set up a volume of huge pages", why=why, next_step="Remove the pod that has it first")


def _refuse_to_hide_data(host: Host, path: str) -> None:
    """A volume that was on disk and is now wanted in memory would be covered with all that is in it."""
    if host.look(path) is None or host.mount_at(path) is not None:
        return
    names = host.names_in(path)
    if names:
        raise Refused(
            "cannot set up a volume in memory",
            why=f"{path} holds data on disk ({names[0]!r}), which a memory file system would hide",
            next_step="Give the volume its old medium or another name, or save the data and remove it",
        )


def _is_ready(host: Host, wanted: Directory, marked: FileFacts) -> bool:
    if marked.kind is not FileKind.FILE:
        return False
    if wanted.page_size is not None:
        there = host.mount_at(wanted.path)
        if there is not None:
            _check_pages(wanted, there)
        return there is not None
    if wanted.memory:
        return host.mount_id_at(wanted.path) is not None
    return host.look(wanted.path) is not None


def dismantle_little(host: Host, path: str, ready: str) -> bool:
    """Whether it was a few pages of memory, and is gone. One that was found does not tell its medium."""
    there = host.mount_at(path)
    if there is None or there.fs_type != "tmpfs" or host.file_system_usage(path).used > _LITTLE_MEMORY:
        return False
    dismantle(host, path, ready, may_have_quota=True)
    return True


def dismantle(host: Host, path: str, ready: str, *, may_have_quota: bool = False) -> None:
    """Take the directory and all its content away; what is gone already is fine.

    The mark goes first, and nothing is asked that the removal itself answers.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
        host.remove_file(f"{ready}/ready")
    with contextlib.suppress(FileNotFoundError):
        host.remove_tree(ready)
    for _ in range(_STACKED_MOUNTS):
        if not _unmounted(host, path):
            break
        with contextlib.suppress(OSError):  # another mount lies there, or a directory that is not empty
            host.remove_directory(path)
            return
    if may_have_quota:
        release_quota(host, path)
    with contextlib.suppress(FileNotFoundError):
        host.remove_tree(path)


_STACKED_MOUNTS = 16
"""How many mounts on top of each other are taken away; more than one is left by a crash at most."""

_NOT_MOUNTED = (errno.EINVAL, errno.ENOENT, errno.ENOTDIR, errno.EPERM)
"""What umount(2) says of a place where nothing is mounted; to who may not mount it says so of every place."""


def _unmounted(host: Host, path: str) -> bool:
    """Take one mount away; False when there is none."""
    try:
        host.unmount(path)
    except OSError as error:
        if error.errno in _NOT_MOUNTED:
            return False
        raise
    return True


def read_write(gid: int) -> Ownership:
    """Group ownership of what containers may write to."""
    return Ownership(gid=gid, file_mask=0o660, directory_mask=0o2770)


def own(host: Host, path: str, ownership: Ownership) -> None:
    """Give a tree to a group; entries that could not be changed are an error, with the first of them named."""
    check_owned(host.set_ownership(path, ownership), ownership)


def check_owned(report: OwnershipReport, ownership: Ownership) -> None:
    """Raise what a walk that did not give everything to its group stands for."""
    if report.failed:
        first = report.errors[0]
        # chown(2) answers so for a group that the user namespace does not map, and for no other reason here.
        unmapped = first.endswith(os.strerror(errno.EINVAL))
        why = "the group does not exist in this user namespace" if unmapped else first
        raise OSError(errno.EPERM, f"{report.failed} entries could not be given to group {ownership.gid}: {why}")


def memory_size(pod: Pod, source: EmptyDirVolumeSource, node: NodeFacts) -> int:
    """The size of a memory file system: the node's memory, or a smaller limit of the pod or of the volume."""
    limit = node.memory
    own_limit = parse_quantity(source.size_limit).value if source.size_limit is not None else 0
    for smaller in (memory_limit(pod), own_limit):
        if smaller is not None and 0 < smaller <= limit:
            limit = smaller
    return limit


class EmptyDirPlugin:
    """The emptyDir volume type."""

    name = NAME

    def __init__(self, context: PluginContext) -> None:
        self._mounter = EmptyDirMounter(context)

    def supports(self, spec: VolumeSpec) -> bool:
        return spec.volume is not None and spec.volume.empty_dir is not None

    def volume_name(self, spec: VolumeSpec) -> str:
        return spec.name

    def offer(self, spec: VolumeSpec) -> Offer:
        attributes = Attributes(managed=True, relabel=True)
        return Offer(mounter=self._mounter, resizer=self._mounter, checker=self._mounter, attributes=attributes)

    def references(self, spec: VolumeSpec, pod: Pod) -> tuple[ObjectRef, ...]:
        return ()

    def reconstruct(self, volume_name: str, *, block: bool = False) -> VolumeSpec:
        if block:
            raise refuse_block(volume_name)
        return VolumeSpec(volume=Volume(name=volume_name, empty_dir=EmptyDirVolumeSource()))


class EmptyDirMounter:
    def __init__(self, context: PluginContext) -> None:
        self._context = context
        self._host = context.host
        self._paths = context.paths

    def path(self, uid: PodUid, spec: VolumeSpec) -> str:
        return self._paths.pod_volume_dir(uid, NAME, spec.name)

    def check(self, request: Setup) -> None:
        self._wanted(request)

    async def set_up(self, request: Setup) -> None:
        wanted = self._wanted(request)
        what = f"set up emptyDir {wanted.path}"
        if wanted.fs_group is None:
            await self._host.do(what, prepare, wanted)
        else:  # the content is walked, and a pod's directory may hold a lot of it after a restart
            await self._host.run(lambda: prepare(self._host, wanted), risk=Risk.BULKY, what=what)
        mode = self._context.project_quotas
        # Whoever owns a file may move it to another project, except inside a user namespace.
        if mode != OFF and request.size_limit and not wanted.is_mounted and request.pod.spec.host_users is False:
            limit = request.size_limit
            await self._host.run(
                lambda: apply_quota(self._host, wanted.path, limit, mode), risk=Risk.BULKY, what=f"limit {wanted.path}"
            )

    def _wanted(self, request: Setup) -> Directory:
        source = _source(request.spec)
        medium, name = source.medium, request.spec.name
        pages = None
        if huge_pages.is_medium(medium):
            pages = huge_pages.page_size(request.pod, name, medium)
            huge_pages.check_pool(self._host, name, pages)
        elif medium not in ("", MEMORY):
            raise _unknown_medium(name, medium)
        memory = medium == MEMORY
        return Directory(
            path=self.path(request.uid, request.spec),
            ready=self._paths.pod_plugin_dir(request.uid, NAME, request.spec.name),
            memory=memory,
            page_size=pages,
            is_page_size_stated=medium != huge_pages.MEDIUM,
            size=memory_size(request.pod, source, self._context.node()) if memory else None,
            mode=source.mode,
            fs_group=request.fs_group,
        )

    async def tear_down(self, uid: PodUid, spec: VolumeSpec) -> None:
        path, ready = self.path(uid, spec), self._paths.pod_plugin_dir(uid, NAME, spec.name)
        what = f"remove emptyDir {path}"
        if not await self._host.do(what, dismantle_little, path, ready):
            await self._host.run(
                lambda: dismantle(self._host, path, ready, may_have_quota=True), risk=Risk.BULKY, what=what
            )

    async def resize(self, uid: PodUid, spec: VolumeSpec, size: int) -> None:
        """Give a memory-backed volume another size while it is used."""
        what = f"cannot resize volume {spec.name!r}"
        if _source(spec).medium != MEMORY:
            raise Refused(what, why="only memory-backed emptyDir volumes can be resized")
        if size <= 0:
            raise Refused(what, why="addition or removal of a size limit is not supported")
        path = self.path(uid, spec)
        if self._host.mount_at(path) is None:
            raise NotYet(what, why="it is not yet mounted; deferring resize")
        await self._host.run(lambda: self._host.resize_tmpfs(path, size), risk=Risk.CHEAP, what=f"resize {path}")


def _source(spec: VolumeSpec) -> EmptyDirVolumeSource:
    assert spec.volume is not None
    assert spec.volume.empty_dir is not None
    return spec.volume.empty_dir


def _unknown_medium(name: str, medium: str) -> Refused:
    return Refused(
        f"cannot set up volume {name!r}",
        why=f"unknown storage medium {medium!r}",
        next_step="Write Memory or HugePages, or leave the medium out for a directory on disk",
    )
