"""Removes a directory tree without ever following a link or entering a mount.

All that can go goes first; then the mount point, or the first failure, that kept the rest is raised.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat

from mooring.host import descent
from mooring.host.features import KernelFeatures

_ABOVE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MOST_ENTRIES = 4  # times one directory is emptied while others keep filling it


def remove_tree(path: str, features: KernelFeatures) -> None:
    """Remove a directory and all below it; OSError EBUSY names a mount point that was left standing."""
    with contextlib.suppress(OSError):  # the usual case after an unmount: an empty directory, and one call
        os.rmdir(path)
        return
    remover = _Remover(features)
    above, name = posixpath.split(path.rstrip("/"))
    parent = os.open(above, _ABOVE)
    try:
        try:
            directory = remover.open_child(parent, name)
        except OSError as error:
            raise _told(error, path) from None
        descent.walk(remover, parent, name, directory, path)
    finally:
        os.close(parent)
    if (failure := remover.mount_point or remover.failure) is not None:
        raise failure


class _Remover:
    """A `descent.Visitor` that unlinks files and removes directories on the way up."""

    def __init__(self, features: KernelFeatures) -> None:
        self._features = features
        self._left: list[str] = []
        self._entered: dict[str, int] = {}
        self.mount_point: OSError | None = None
        self.failure: OSError | None = None

    def open_child(self, directory: int, name: str) -> int:
        try:
            return descent.open_on_same_mount(self._features, directory, name)
        except PermissionError:
            _make_accessible(directory, name)
            return descent.open_on_same_mount(self._features, directory, name)

    def enter(self, directory: int, path: str) -> list[str]:
        mode = stat.S_IMODE(os.fstat(directory).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(directory, mode | stat.S_IRWXU)
        directories: list[str] = []
        others: list[str] = []
        with os.scandir(directory) as entries:
            for entry in entries:
                (directories if entry.is_dir(follow_symlinks=False) else others).append(entry.name)
        for name in others:
            self._unlink(directory, name, path)
        return [name for name in directories if not _was_empty(directory, name)]

    def leave(self, above: int, name: str, directory: int, path: str) -> bool:
        try:
            os.rmdir(name, dir_fd=above)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                self._keep(path, error)
            elif not any(left.startswith(f"{path}/") for left in self._left):
                return self._give_up(path, error)
        return True

    def failed(self, directory: int, name: str, path: str, error: OSError) -> None:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):  # it was a directory a moment ago
            self._unlink(directory, name, posixpath.dirname(path))
        else:
            self._keep(path, error)

    def _unlink(self, directory: int, name: str, path: str) -> None:
        try:
            os.unlink(name, dir_fd=directory)
        except FileNotFoundError:
            return
        except OSError as error:
            self._keep(f"{path}/{name}", error)

    def _give_up(self, path: str, error: OSError) -> bool:
        """Tell whether a directory that someone fills again and again has been emptied often enough."""
        self._entered[path] = self._entered.get(path, 1) + 1
        if self._entered[path] <= _MOST_ENTRIES:
            return False
        self._keep(path, error)
        return True

    def _keep(self, path: str, error: OSError) -> None:
        self._left.append(path)
        failure = _told(error, path)
        if failure.errno == errno.EBUSY:
            self.mount_point = self.mount_point or failure
        else:
            self.failure = self.failure or failure


def _was_empty(directory: int, name: str) -> bool:
    """Remove a directory if nothing is in it nor mounted on it."""
    try:
        os.rmdir(name, dir_fd=directory)
    except OSError:
        return False
    return True


def _told(error: OSError, path: str) -> OSError:
    if error.errno in (errno.EXDEV, errno.EBUSY):
        return OSError(errno.EBUSY, "cannot remove it: it is a mount point", path)
    if error.errno == errno.ELOOP:
        return NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
    return OSError(error.errno, error.strerror, path)


def _make_accessible(directory: int, name: str) -> None:
    """Give the owner all permissions on a directory that cannot be opened; only root gets by without."""
    handle = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.chmod(f"/proc/self/fd/{handle}", stat.S_IRWXU)
    finally:
        os.close(handle)
