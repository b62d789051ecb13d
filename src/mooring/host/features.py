"""What this kernel can do, found out by trying each call once with harmless arguments; versions are never compared."""

from __future__ import annotations

import enum
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from mooring.host import syscalls
from mooring.host.mount_facts import ALL_FACTS, SOURCE_FACT, facts_mask

_NO_DESCRIPTOR = -1


class Tier(enum.Enum):
    """How mounts are made and looked at; the first tier can do all that the later ones can."""

    IDENTIFIED = 1  # each mount has an id that is never reused and answers questions by itself (Linux 6.13)
    DETACHED = 2  # mounts are completed before they become visible; the mount table is text (Linux 5.12)
    CLASSIC = 3  # mount(2), and the mount table as text


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFeatures:
    """Which calls work here. Where one is missing, an older way is used that gives the same result."""

    unique_mount_ids: bool  # statx STATX_MNT_ID_UNIQUE, statmount with source and options, listmount
    detached_mounts: bool  # open_tree, move_mount, mount_setattr
    mount_root_attribute: bool  # statx says whether a path is a mount point
    confined_open: bool  # openat2: a directory is opened only when it lies on the same mount
    chmod_without_following: bool  # fchmodat2
    tmpfs_without_swap: bool  # the noswap option of tmpfs; never inside a user namespace
    mount_events: bool = False  # fanotify tells which mounts came and went, by ids that are never reused (Linux 6.15)

    @property
    def tier(self) -> Tier:
        if not (self.detached_mounts and self.confined_open and self.mount_root_attribute):
            return Tier.CLASSIC
        return Tier.IDENTIFIED if self.unique_mount_ids else Tier.DETACHED

    def limited_to(self, tier: Tier) -> KernelFeatures:
        """Return the features of an older kernel, so that its ways can be taken on this one."""
        newer = tier is not Tier.CLASSIC
        return replace(
            self,
            unique_mount_ids=self.unique_mount_ids and tier is Tier.IDENTIFIED,
            detached_mounts=self.detached_mounts and newer,
            mount_root_attribute=self.mount_root_attribute and newer,
            confined_open=self.confined_open and newer,
            chmod_without_following=self.chmod_without_following and tier is Tier.IDENTIFIED,
            mount_events=self.mount_events and tier is Tier.IDENTIFIED,
        )

    def description(self) -> str:
        """Return one sentence for people who ask why this machine does things as it does."""
        match self.tier:
            case Tier.IDENTIFIED:
                how = "mounts are made detached, and each has an id that is never reused"
            case Tier.DETACHED:
                how = "mounts are made detached; the mount table is read as text"
            case Tier.CLASSIC:
                how = "mounts are made with mount(2); the mount table is read as text"
        swap = "tmpfs keeps out of swap" if self.tmpfs_without_swap else "tmpfs may be swapped out"
        told = "fanotify tells which mounts change" if self.mount_events else "a poll tells that mounts change"
        return f"tier {self.tier.value} of {len(Tier)}: {how}; {swap}; {told}"


def probe() -> KernelFeatures:
    """Try everything once. Nothing is mounted, made or changed."""
    identity = _statx_identity()
    unique = identity is not None and identity.is_unique and _has_statmount(identity.id)
    return KernelFeatures(
        unique_mount_ids=unique,
        detached_mounts=_exists(_try_open_tree) and _exists(_try_move_mount) and _exists(_try_mount_setattr),
        mount_root_attribute=identity is not None and identity.is_root is not None,
        confined_open=_exists(_try_openat2),
        chmod_without_following=_exists(_try_fchmodat2),
        tmpfs_without_swap=_has_noswap(),
        mount_events=unique and _has_mount_events(),
    )


def _exists(attempt: Callable[[], None]) -> bool:
    try:
        attempt()
    except OSError as error:
        return error.errno != errno.ENOSYS
    return True


def _statx_identity() -> syscalls.MountIdentity | None:
    try:
        return syscalls.mount_identity("/", unique=True)
    except OSError:
        return None


def _has_statmount(root_id: int) -> bool:
    try:
        syscalls.listmount()
        return bool(facts_mask(syscalls.statmount(root_id, ALL_FACTS)) & SOURCE_FACT)
    except OSError:
        return False


def _try_open_tree() -> None:
    os.close(syscalls.open_tree(syscalls.AT_FDCWD, "/", syscalls.OPEN_TREE_CLOEXEC))


def _try_move_mount() -> None:
    syscalls.move_mount(_NO_DESCRIPTOR, "/")


def _try_mount_setattr() -> None:
    syscalls.mount_setattr(_NO_DESCRIPTOR, 0, recursive=False)


def _try_openat2() -> None:
    os.close(syscalls.openat2(syscalls.AT_FDCWD, "/", os.O_PATH, syscalls.RESOLVE_NO_XDEV))


def _try_fchmodat2() -> None:
    syscalls.fchmodat2(_NO_DESCRIPTOR, "nothing", 0)


def _has_noswap() -> bool:
    try:
        descriptor = syscalls.fsopen("tmpfs")
    except OSError:
        return False
    try:
        syscalls.fsconfig_flag(descriptor, "noswap")
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _has_mount_events() -> bool:
    try:
        os.close(syscalls.watch_mount_namespace())
    except OSError:
        return False
    return True
