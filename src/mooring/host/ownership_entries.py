"""Sets the group and the mode of single entries, and counts. What is right already is left alone.

Few imports on purpose: the processes that share a large tree begin with this.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable

from mooring.host import same_mount, syscalls

MOST_ERRORS = 10
_CLEARED_BY_CHOWN = stat.S_ISUID | stat.S_ISGID
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_KIND, _DIRECTORY, _LINK = 0o170000, stat.S_IFDIR, stat.S_IFLNK


class Task:
    """What is to be set, and in which of the kernel's ways: numbers, so that it can be handed to a process.

    `beware_of_mounts` concerns files: directories are safe from being entered in any case.
    """

    __slots__ = (
        "beware_of_mounts",
        "chmod_without_following",
        "confined_open",
        "directory_mask",
        "file_mask",
        "gid",
        "mount_root_attribute",
    )

    def __init__(
        self,
        gid: int,
        file_mask: int,
        directory_mask: int,
        confined_open: int,
        mount_root_attribute: int,
        chmod_without_following: int,
        beware_of_mounts: int,
    ) -> None:
        self.gid, self.file_mask, self.directory_mask = gid, file_mask, directory_mask
        self.confined_open = bool(confined_open)
        self.mount_root_attribute = bool(mount_root_attribute)
        self.chmod_without_following = bool(chmod_without_following)
        self.beware_of_mounts = bool(beware_of_mounts)

    def numbers(self) -> list[int]:
        ways = (self.confined_open, self.mount_root_attribute, self.chmod_without_following, self.beware_of_mounts)
        return [self.gid, self.file_mask, self.directory_mask, *map(int, ways)]


class Alone:
    """Guards hard links in a walk that nobody shares: nobody else comes upon the same file."""

    def __enter__(self) -> None:
        return

    def __exit__(self, *_: object) -> None:
        return


class EntryOwner:
    """Gives entries to a group. A failure concerns its entry only; it is counted, and the first few are told.

    `shared` is entered while a file with several names is changed: another process may have come upon another name.
    """

    def __init__(self, task: Task, shared: Alone) -> None:
        self.task = task
        self._shared = shared
        self.visited = self.changed = self.failed = 0
        self.errors: list[str] = []

    def own_all(self, directory: int, names: Iterable[str], path: str) -> list[str]:
        """Own entries that are no directories, and return the names of those that turn out to be."""
        gid, mask, look = self.task.gid, self.task.file_mask, os.stat
        directories: list[str] = []
        right, simple = 0, not self.task.beware_of_mounts
        for name in names:
            try:
                facts = look(name, dir_fd=directory, follow_symlinks=False)
                mode = facts.st_mode
                kind = mode & _KIND
                if kind == _DIRECTORY:
                    directories.append(name)
                elif facts.st_gid == gid and (mode & mask == mask or kind == _LINK):
                    right += 1
                elif simple and facts.st_nlink == 1:
                    self._change(directory, name, facts)
                else:
                    self._change_with_care(directory, name, facts)
            except FileNotFoundError:
                continue
            except OSError as error:
                self.visited += 1
                self.note(f"{path}/{name}", error)
        self.visited += right
        return directories

    def own_directory(self, descriptor: int, path: str) -> None:
        self.visited += 1
        try:
            facts = os.fstat(descriptor)
            mode = stat.S_IMODE(facts.st_mode)
            wanted = mode | self.task.directory_mask
            if facts.st_gid != self.task.gid:
                os.fchown(descriptor, -1, self.task.gid)
            if wanted != mode:
                os.fchmod(descriptor, wanted)
            self.changed += wanted != mode or facts.st_gid != self.task.gid
        except OSError as error:
            self.note(path, error)

    def note(self, path: str, error: OSError) -> None:
        """Count a failure; the entry itself is counted elsewhere."""
        self.failed += 1
        if len(self.errors) < MOST_ERRORS:
            self.errors.append(f"{path}: {error.strerror}")

    def _change_with_care(self, directory: int, name: str, facts: os.stat_result) -> None:
        """Change what may be a mount point, or have other names that others come upon."""
        if self.task.beware_of_mounts and same_mount.is_mount_point(
            directory, name, mount_root_attribute=self.task.mount_root_attribute
        ):
            return
        if facts.st_nlink == 1:
            self._change(directory, name, facts)
            return
        with self._shared:
            self._change(directory, name, os.stat(name, dir_fd=directory, follow_symlinks=False))

    def _change(self, directory: int, name: str, facts: os.stat_result) -> None:
        mode = stat.S_IMODE(facts.st_mode)
        is_link = facts.st_mode & _KIND == _LINK
        wanted = mode if is_link else mode | self.task.file_mask
        wrong_group = facts.st_gid != self.task.gid
        if wrong_group:
            os.chown(name, -1, self.task.gid, dir_fd=directory, follow_symlinks=False)
        if not is_link and (wanted != mode or (wrong_group and mode & _CLEARED_BY_CHOWN)):
            self._change_mode(directory, name, wanted)
        self.visited += 1
        self.changed += wrong_group or wanted != mode

    def _change_mode(self, directory: int, name: str, mode: int) -> None:
        """chmod that can not be led astray by a link put there meanwhile."""
        if self.task.chmod_without_following:
            syscalls.fchmodat2(directory, name, mode)
            return
        handle = os.open(name, _HANDLE, dir_fd=directory)
        try:
            if not stat.S_ISLNK(os.fstat(handle).st_mode):
                os.chmod(f"/proc/self/fd/{handle}", mode)
        finally:
            os.close(handle)
