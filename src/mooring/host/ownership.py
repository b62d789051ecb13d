"""Gives a tree to a group: children before their directory and the root last, so that a walk cut short is seen.

Entries that are already right are left alone. A failure concerns its entry only; it is counted and reported.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat

from mooring.host import descent, syscalls
from mooring.host.features import KernelFeatures
from mooring.host.interface import Ownership, OwnershipReport

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ABOVE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_ERRORS = 10
_CLEARED_BY_CHOWN = stat.S_ISUID | stat.S_ISGID


def set_ownership(path: str, ownership: Ownership, features: KernelFeatures) -> OwnershipReport:
    """Set group and mode bits on a tree, or on a single file or link."""
    walker = _Owner(ownership, features)
    above, name = posixpath.split(path.rstrip("/") or "/")
    parent = os.open(above, _ABOVE)
    try:
        try:
            directory = os.open(name or ".", _DIRECTORY, dir_fd=parent)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise OSError(error.errno, error.strerror, path) from None
            walker.own_entry(parent, name, os.lstat(name, dir_fd=parent), above)
        else:
            walker.beware_of_mounts = descent.may_hold_mounts(features, directory)
            descent.walk(walker, parent, name, directory, path)
    finally:
        os.close(parent)
    return walker.report()


class _Owner:
    """A `descent.Visitor` that sets group and mode."""

    def __init__(self, ownership: Ownership, features: KernelFeatures) -> None:
        self._gid = ownership.gid
        self._file_mask = ownership.file_mask
        self._directory_mask = ownership.directory_mask
        self._features = features
        self.beware_of_mounts = True  # on files, that is: directories are safe from being entered in any case
        self._visited = self._changed = self._failed = 0
        self._errors: list[str] = []

    def report(self) -> OwnershipReport:
        return OwnershipReport(
            visited=self._visited, changed=self._changed, failed=self._failed, errors=tuple(self._errors)
        )

    def open_child(self, directory: int, name: str) -> int:
        return descent.open_on_same_mount(self._features, directory, name)

    def enter(self, directory: int, path: str) -> list[str]:
        directories: list[str] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        directories.append(entry.name)
                    else:
                        self._own_child(directory, entry, path)
                except FileNotFoundError:
                    continue
                except OSError as error:
                    self._note(f"{path}/{entry.name}", error)
        return directories

    def leave(self, above: int, name: str, directory: int, path: str) -> bool:
        self._visited += 1
        try:
            facts = os.fstat(directory)
            mode = stat.S_IMODE(facts.st_mode)
            wanted = mode | self._directory_mask
            if facts.st_gid != self._gid:
                os.fchown(directory, -1, self._gid)
            if wanted != mode:
                os.fchmod(directory, wanted)
            self._changed += wanted != mode or facts.st_gid != self._gid
        except OSError as error:
            self._note(path, error)
        return True

    def failed(self, directory: int, name: str, path: str, error: OSError) -> None:
        if error.errno != errno.EXDEV:  # a mount is somebody else's
            self._visited += 1
            self._note(path, error)

    def own_entry(self, directory: int, name: str, facts: os.stat_result, path: str) -> None:
        """Set group and mode of anything but a directory."""
        self._visited += 1
        mode = stat.S_IMODE(facts.st_mode)
        wanted = mode | self._mask_for(facts)
        try:
            if facts.st_gid != self._gid:
                os.chown(name, -1, self._gid, dir_fd=directory, follow_symlinks=False)
                mode &= ~_CLEARED_BY_CHOWN
            if wanted != mode and not stat.S_ISLNK(facts.st_mode):
                self._change_mode(directory, name, wanted)
            self._changed += 1
        except FileNotFoundError:
            return
        except OSError as error:
            self._note(f"{path}/{name}", error)

    def _own_child(self, directory: int, entry: os.DirEntry[str], path: str) -> None:
        facts = entry.stat(follow_symlinks=False)
        mask = self._mask_for(facts)
        if facts.st_gid == self._gid and facts.st_mode & mask == mask:
            self._visited += 1
        elif not (self.beware_of_mounts and descent.is_mount_point(self._features, directory, entry.name)):
            self.own_entry(directory, entry.name, facts, path)

    def _mask_for(self, facts: os.stat_result) -> int:
        return 0 if stat.S_ISLNK(facts.st_mode) else self._file_mask

    def _change_mode(self, directory: int, name: str, mode: int) -> None:
        """chmod that can not be led astray by a link put there meanwhile."""
        if self._features.chmod_without_following:
            syscalls.fchmodat2(directory, name, mode)
            return
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
        try:
            if not stat.S_ISLNK(os.fstat(handle).st_mode):
                os.chmod(f"/proc/self/fd/{handle}", mode)
        finally:
            os.close(handle)

    def _note(self, path: str, error: OSError) -> None:
        self._failed += 1
        if len(self._errors) < _MOST_ERRORS:
            self._errors.append(f"{path}: {error.strerror}")
