"""Making, changing, undoing and looking at mounts, in the best way this kernel offers.

Looking never enters the mounted file system, so a server that no longer answers does not block it.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Sequence

from mooring.host import mount_facts, syscalls
from mooring.host.features import KernelFeatures
from mooring.host.interface import MountFacts
from mooring.host.mount_events import Shown
from mooring.host.mount_limits import MountRoom, most_mounts, worded
from mooring.host.mount_options import MountOptions
from mooring.host.mount_table import CurrentMounts
from mooring.host.same_mount import mount_id_behind

_FLAGS = {  # what a bind remount has to repeat, since it replaces all flags of the mount
    "nosuid": 0x2,
    "nodev": 0x4,
    "noexec": 0x8,
    "nosymfollow": 0x100,
    "noatime": 0x400,
    "nodiratime": 0x800,
    "relatime": 0x200000,
}


_CLONE = syscalls.OPEN_TREE_CLONE | syscalls.OPEN_TREE_CLOEXEC


class Mounts:
    """The mounts of the mount namespace this was made in."""

    def __init__(self, features: KernelFeatures) -> None:
        self._features = features
        self._noswap = ",noswap" if features.tmpfs_without_swap else ""
        self._current: CurrentMounts | None = None

    def mount_tmpfs(self, path: str, size: int | None, mode: int | None) -> None:
        options = f",size={size}" if size else ""
        if mode is not None:
            options += f",mode={mode:o}"
        try:
            syscalls.mount("tmpfs", path, "tmpfs", 0, (options + self._noswap)[1:])
        except OSError as error:
            raise worded(error, path) from None

    def resize_tmpfs(self, path: str, size: int) -> None:
        syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_REMOUNT, f"size={size}")

    def bind(self, source: str, target: str, options: MountOptions, recursive: bool) -> None:
        try:
            self._bind(source, target, options, recursive)
        except OSError as error:
            raise worded(error, target) from None

    def _bind(self, source: str, target: str, options: MountOptions, recursive: bool) -> None:
        if not self._features.detached_mounts:
            self._bind_in_place(source, target, options.for_mount()[0], recursive)
            return
        flags = _CLONE | (syscalls.AT_RECURSIVE if recursive else 0)
        _place(syscalls.open_tree(syscalls.AT_FDCWD, source, flags), target, options.for_fsmount(), recursive)

    def bind_open(self, descriptor: int, target: str, read_only: bool) -> None:
        """Bind what a descriptor was opened on, wherever the path it was opened by leads now."""
        try:
            self._bind_open(descriptor, target, read_only)
        except OSError as error:
            raise worded(error, target) from None

    def _bind_open(self, descriptor: int, target: str, read_only: bool) -> None:
        if not self._features.detached_mounts:
            flags = syscalls.MS_RDONLY if read_only else 0
            self._bind_in_place(f"/proc/self/fd/{descriptor}", target, flags, recursive=False)
            return
        tree = syscalls.open_tree(descriptor, "", _CLONE | syscalls.AT_EMPTY_PATH)
        _place(tree, target, syscalls.MOUNT_ATTR_RDONLY if read_only else 0, recursive=False)

    def unmount(self, path: str, lazy: bool, force: bool) -> None:
        flags = (syscalls.MNT_DETACH if lazy else 0) | (syscalls.MNT_FORCE if force else 0)
        syscalls.umount2(path, syscalls.UMOUNT_NOFOLLOW | flags)

    def at(self, path: str) -> MountFacts | None:
        """The topmost mount whose root is exactly this path."""
        try:
            if self._features.unique_mount_ids:
                return self._ask_about(path)
            identity = self._identity_in_table(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return None if identity is None else self._table().table().by_id(identity)

    def id_at(self, path: str) -> int | None:
        """The id of the topmost mount whose root is exactly this path."""
        try:
            if self._features.unique_mount_ids:
                identity = syscalls.mount_identity(path, unique=True)
                return identity.id if identity.is_root else None
            return self._identity_in_table(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def by_id(self, identity: int) -> MountFacts | None:
        """The mount with an id, if it is still there."""
        if not self._features.unique_mount_ids:
            return self._table().table().by_id(identity)
        try:
            return mount_facts.from_statmount(syscalls.statmount(identity, mount_facts.ALL_FACTS))
        except FileNotFoundError:
            return None

    def shown(self, identity: int) -> Shown | None:
        """What the mount with an id shows, if it is still there."""
        if not self._features.unique_mount_ids:
            mount = self._table().table().by_id(identity)
            return mount_facts.shown_by(mount) if mount is not None else None
        try:
            shown = mount_facts.shown_in_statmount(syscalls.statmount(identity, mount_facts.SHOWN_FACTS))
            if not os.major(shown.device):
                return shown
            mask = mount_facts.SHOWN_FACTS | mount_facts.ROOT_FACT
            return mount_facts.shown_in_statmount(syscalls.statmount(identity, mask), with_root=True)
        except FileNotFoundError:
            return None

    def make_writable(self, path: str) -> None:
        if self._features.detached_mounts:
            syscalls.clear_mount_attributes(path, syscalls.MOUNT_ATTR_RDONLY)
            return
        mount = self.at(path)
        flags = sum(_FLAGS.get(option, 0) for option in mount.options) if mount is not None else 0
        syscalls.mount("", path, "", syscalls.MS_BIND | syscalls.MS_REMOUNT | flags, "")

    def room(self) -> MountRoom:
        used = len(syscalls.listmount()) if self._features.unique_mount_ids else len(self.all())
        return MountRoom(used=used, limit=most_mounts())

    def all(self) -> Sequence[MountFacts]:
        return self._table().table().mounts

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None

    def _ask_about(self, path: str) -> MountFacts | None:
        identity = syscalls.mount_identity(path, unique=True)
        if not identity.is_root:
            return None
        return mount_facts.from_statmount(syscalls.statmount(identity.id, mount_facts.ALL_FACTS))

    def _identity_in_table(self, path: str) -> int | None:
        if self._features.mount_root_attribute:
            identity = syscalls.mount_identity(path, unique=False)
            return identity.id if identity.is_root else None
        here = _mount_id_of_path(path, os.O_NOFOLLOW)
        above = _mount_id_of_path(posixpath.dirname(path), os.O_DIRECTORY)
        return here if here != above or path == "/" else None

    def _table(self) -> CurrentMounts:
        if self._current is None:
            self._current = CurrentMounts(self._features)
        return self._current

    def _bind_in_place(self, source: str, target: str, added: int, recursive: bool) -> None:
        """Bind with mount(2), which ignores flags: adding them takes a second call per mount."""
        syscalls.mount(source, target, "", syscalls.MS_BIND | (syscalls.MS_REC if recursive else 0), "")
        if not added:
            return
        try:
            top = self.at(target)
            for mount in self._table().table().tree_of(top.id) if top else ():
                flags = sum(_FLAGS.get(option, 0) for option in mount.options)
                flags |= syscalls.MS_RDONLY if mount.options[:1] == ("ro",) else 0
                syscalls.mount("", mount.path, "", syscalls.MS_BIND | syscalls.MS_REMOUNT | flags | added, "")
        except OSError:
            syscalls.umount2(target, syscalls.UMOUNT_NOFOLLOW | syscalls.MNT_DETACH)
            raise


def _place(tree: int, target: str, attributes: int, recursive: bool) -> None:
    """Attach a detached mount at a path, complete with its flags; its descriptor is closed."""
    try:
        if attributes:
            syscalls.mount_setattr(tree, attributes, recursive=recursive)
        syscalls.move_mount(tree, target)
    finally:
        os.close(tree)


def _mount_id_of_path(path: str, flags: int) -> int:
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC | flags)
    try:
        return mount_id_behind(descriptor)
    finally:
        os.close(descriptor)
