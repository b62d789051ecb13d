"""Paths inside a volume, opened so that nothing outside of it is ever reached, whatever its users do meanwhile.

Links inside the volume are followed as long as they stay in it; absolute ones never do. openat2(2) guarantees that in
one call; on kernels without it the path is walked on descriptors, which `..` only ever leads back along.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from mooring.host import syscalls
from mooring.host.features import KernelFeatures

_HANDLE = os.O_PATH | os.O_CLOEXEC
_ROOT = _HANDLE | os.O_DIRECTORY
_NEW_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_WITHIN = syscalls.RESOLVE_BENEATH | syscalls.RESOLVE_NO_MAGICLINKS
_MOST_ATTEMPTS = 64  # openat2 gives up with EAGAIN when something is renamed under a `..`
_MOST_LINKS = 40  # as many as Linux follows in one path


@contextmanager
def open_beneath(features: KernelFeatures, root: str, relative: str) -> Iterator[int]:
    """A handle (O_PATH) of what a relative path leads to inside a root directory.

    OSError EXDEV when it leads out of the root, ELOOP for links that lead in circles.
    """
    with _open_root(root) as top:
        try:
            handle = _open(features, top, relative)
        except OSError as error:
            raise _told(error, root, relative) from None
        try:
            yield handle
        finally:
            os.close(handle)


def make_directories(features: KernelFeatures, root: str, relative: str, mode: int) -> None:
    """mkdir -p inside a root directory; new directories get exactly this mode, setgid included."""
    with _open_root(root) as top:
        try:
            parts = _parts(relative)
            directory, missing = _existing_part(features, top, parts)
            _make_below(directory, missing, mode)
        except OSError as error:
            raise _told(error, root, relative) from None


@contextmanager
def _open_root(root: str) -> Iterator[int]:
    handle = os.open(root, _ROOT)
    try:
        yield handle
    finally:
        os.close(handle)


def _parts(relative: str) -> list[str]:
    """The components of a path that starts in the root; `.` and slashes to no purpose are no part of it."""
    if relative.startswith("/"):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    if "\0" in relative:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    return [part for part in relative.split("/") if part not in ("", ".")]


def _told(error: OSError, root: str, relative: str) -> OSError:
    return OSError(error.errno, error.strerror, f"{root}/{relative}")


def _open(features: KernelFeatures, top: int, relative: str) -> int:
    parts = _parts(relative)
    if not features.confined_open:
        return _walk(top, parts)
    try:
        return _open_confined(top, parts, _ROOT)  # asking for a directory makes an automount happen
    except NotADirectoryError:
        return _open_confined(top, parts, _HANDLE)


def _open_confined(top: int, parts: list[str], flags: int) -> int:
    relative = "/".join(parts) or "."
    for _ in range(_MOST_ATTEMPTS):
        try:
            return syscalls.openat2(top, relative, flags, _WITHIN)
        except BlockingIOError:
            continue
    return _walk(top, parts)


def _walk(top: int, parts: list[str]) -> int:
    """Open a path one component at a time: a link is read, never followed by the kernel."""
    handles = [os.dup(top)]
    pending = parts[::-1]
    links = 0
    try:
        while pending:
            name = pending.pop()
            if name == "..":
                _step_back(handles)
                continue
            handle = os.open(name, _HANDLE | os.O_NOFOLLOW, dir_fd=handles[-1])
            if not stat.S_ISLNK(os.fstat(handle).st_mode):
                handles.append(handle)
                continue
            links += 1
            pending.extend(_link_parts(handle, links))
        return handles.pop()
    finally:
        for handle in handles:
            os.close(handle)


def _step_back(handles: list[int]) -> None:
    """Take `..`: back along the way that was come, never further."""
    if not stat.S_ISDIR(os.fstat(handles[-1]).st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if len(handles) == 1:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    os.close(handles.pop())


def _link_parts(link: int, count: int) -> list[str]:
    """The components of a link's text, last one first; its handle is closed."""
    try:
        text = os.readlink("", dir_fd=link)
    finally:
        os.close(link)
    if count > _MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return _parts(text)[::-1]


def _existing_part(features: KernelFeatures, top: int, parts: list[str]) -> tuple[int, list[str]]:
    """A handle of the deepest directory of a path that is there, and the components that are missing."""
    for count in range(len(parts), 0, -1):
        try:
            handle = _open(features, top, "/".join(parts[:count]))
        except FileNotFoundError:
            continue
        if not stat.S_ISDIR(os.fstat(handle).st_mode):
            os.close(handle)
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return handle, parts[count:]
    return os.dup(top), parts


def _make_below(directory: int, names: list[str], mode: int) -> None:
    """Make one directory in the other, starting in the one behind a descriptor, which is closed."""
    try:
        for name in names:
            made = _make_in(directory, name, mode)
            os.close(directory)
            directory = made
    finally:
        os.close(directory)


def _make_in(directory: int, name: str, mode: int) -> int:
    if name == "..":  # of a directory that does not exist
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    try:
        os.mkdir(name, 0o700, dir_fd=directory)
    except FileExistsError:  # made by somebody else meanwhile, or a link that leads nowhere: that is not followed
        return os.open(name, _ROOT | os.O_NOFOLLOW, dir_fd=directory)
    made = os.open(name, _NEW_DIRECTORY, dir_fd=directory)
    try:
        os.fchmod(made, mode)
    except OSError:
        os.close(made)
        raise
    return made
