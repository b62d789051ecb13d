"""Gives a tree to a group: children before their directory and the root last, so that a walk cut short is seen.

Entries that are already right are left alone. A failure concerns its entry only; it is counted and reported, and the
root then stays as it is, for the next look at it to show that not all is done.
"""

from __future__ import annotations

import errno
import logging
import os
import posixpath

from mooring.host import descent, same_mount
from mooring.host.features import KernelFeatures
from mooring.host.ownership_calls import Ownership, OwnershipReport, OwnershipWalk
from mooring.host.ownership_entries import Alone, EntryOwner, Task
from mooring.host.ownership_team import Team, default_size
from mooring.host.ownership_walk import TreeWalk

log = logging.getLogger(__name__)

LARGE = 2_000
"""Entries after which a tree counts as large, and processes are started to share it."""

_ALONE = Alone()
_ABOVE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC


class _Shared(Exception):
    """Raised to leave a walk because others are ready to take it over."""


def set_ownership(path: str, ownership: Ownership, features: KernelFeatures) -> OwnershipReport:
    """Set group and mode bits on a tree, or on a single file or link, here and now."""
    above, name = posixpath.split(path.rstrip("/") or "/")
    parent = os.open(above, _ABOVE)
    try:
        try:
            directory = os.open(name or ".", same_mount.DIRECTORY, dir_fd=parent)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise OSError(error.errno, error.strerror, path) from None
            os.lstat(name, dir_fd=parent)
            owner = EntryOwner(_task(ownership, features, parent), _ALONE)
            owner.own_all(parent, [name], above)
            return _report(owner)
    finally:
        os.close(parent)
    try:
        owner = EntryOwner(_task(ownership, features, directory), _ALONE)
        tree = TreeWalk(owner, directory, path, None)
        try:
            tree.run()
        finally:
            tree.close()
        return _with_root(owner, directory, path)
    finally:
        os.close(directory)


def own_tree(
    path: str,
    ownership: Ownership,
    features: KernelFeatures,
    walk: OwnershipWalk,
    *,
    large: int = LARGE,
    workers: int | None = None,
) -> OwnershipReport:
    """Set group and mode bits on a tree of any size; OSError ECANCELED when the walk was stopped.

    A tree that proves large is shared among processes as soon as they are ready, which begin it anew: what is done by
    then costs them a look.
    """
    walk.begin(ownership.gid)
    directory = os.open(path, same_mount.DIRECTORY)
    try:
        owner = EntryOwner(_task(ownership, features, directory), _ALONE)
        here = _Here(owner, walk, large, default_size() if workers is None else workers)
        try:
            here.own_below(directory, path)
            walk.count(owner.visited, owner.changed, owner.failed)
            if walk.stopped:
                raise OSError(errno.ECANCELED, "the walk was stopped before its end", path)
            report = _with_root(owner, directory, path)
        finally:
            here.close()
        walk.count(report.visited, report.changed, report.failed)
        return report
    finally:
        os.close(directory)


class _Here:
    """A walk in this process that calls others to help when the tree proves large."""

    def __init__(self, owner: EntryOwner, walk: OwnershipWalk, large: int, workers: int) -> None:
        self._owner, self._walk, self._large, self._workers = owner, walk, large, workers
        self._team: Team | None = None

    def own_below(self, directory: int, path: str) -> None:
        tree = TreeWalk(self._owner, directory, path, self._look_up)
        try:
            tree.run()
        except _Shared:
            assert self._team is not None
            self._share(self._team, directory, path)
        finally:
            tree.close()

    def _share(self, team: Team, directory: int, path: str) -> None:
        owner = self._owner
        self._walk.share(team.processes)
        team.own_below(os.open(".", same_mount.DIRECTORY, dir_fd=directory), path, self._walk, owner.changed)
        owner.visited, owner.failed, owner.errors = team.visited, team.failed, team.errors
        owner.changed += team.changed

    def _look_up(self) -> None:
        owner, walk = self._owner, self._walk
        walk.count(owner.visited, owner.changed, owner.failed)
        if walk.stopped:
            raise OSError(errno.ECANCELED, "the walk was stopped before its end")
        if self._workers and owner.visited >= self._large and self._are_others_ready():
            raise _Shared

    def _are_others_ready(self) -> bool:
        try:
            if self._team is None:
                self._team = Team(self._owner.task, size=self._workers)
            return self._team.is_ready
        except OSError as error:  # no process can be started now: it takes longer alone
            log.warning("a large tree is walked by one process alone: %s", error)
            self._workers = 0
            return False

    def close(self) -> None:
        if self._team is not None:
            self._team.close()


def _with_root(owner: EntryOwner, directory: int, path: str) -> OwnershipReport:
    """Own the root, all below it being done."""
    if owner.failed:
        owner.visited += 1
    else:
        owner.own_directory(directory, path)
    return _report(owner)


def _report(owner: EntryOwner) -> OwnershipReport:
    return OwnershipReport(
        visited=owner.visited, changed=owner.changed, failed=owner.failed, errors=tuple(owner.errors)
    )


def _task(ownership: Ownership, features: KernelFeatures, directory: int) -> Task:
    return Task(
        ownership.gid,
        ownership.file_mask,
        ownership.directory_mask,
        features.confined_open,
        features.mount_root_attribute,
        features.chmod_without_following,
        descent.may_hold_mounts(features, directory),
    )
