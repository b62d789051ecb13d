"""The files that hold the blocks of volumes: made sparse, copied by sharing blocks where that works, grown.

Everything here may take long, so it is called inside `host.run`.
"""

from __future__ import annotations

import errno
import os
import posixpath
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fcntl import ioctl
from typing import Protocol

from mooring.host.durable_files import NEW

_FICLONE = 0x40049409
_FIFREEZE, _FITHAW = 0xC0045877, 0xC0045878
_LOOP_SET_CAPACITY = 0x4C07
_CANNOT_SHARE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EXDEV, errno.EINVAL, errno.ENOSYS)
_CANNOT_FREEZE = (errno.EOPNOTSUPP, errno.ENOTTY, errno.EBUSY)  # EBUSY: somebody froze it already
_PIECE = 1 << 24
_NEW_FILE = os.O_CREAT | os.O_TRUNC | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC


class BackingFiles(Protocol):
    """What the driver does to files of blocks, and to loop devices beyond what a host offers."""

    def create(self, path: str, size: int) -> None:
        """Make a file of so many bytes that takes no room yet; it is on the disk, whole, when this returns."""
        ...

    def copy(self, source: str, path: str, size: int) -> None:
        """Make a file that begins as another one does, sharing its blocks where the file system can."""
        ...

    def grow(self, path: str, size: int) -> None:
        """Let a file have at least so many bytes."""
        ...

    def notice_size(self, device: str) -> None:
        """Let a loop device have the size that its file has now."""
        ...

    def settle(self, device: str) -> None:
        """Write to the file what was written to its loop device."""
        ...

    def freeze(self, path: str) -> bool:
        """Keep everybody from writing to a file system, which is then whole on its device; false if it cannot."""
        ...

    def thaw(self, path: str) -> None:
        """Undo `freeze`, also one of a process that has died; nothing happens when it is not frozen."""
        ...


class LinuxBackingFiles:
    """Files and loop devices of the machine itself."""

    def create(self, path: str, size: int) -> None:
        with _put_in_place(path) as descriptor:
            os.ftruncate(descriptor, size)

    def copy(self, source: str, path: str, size: int) -> None:
        origin = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with _put_in_place(path) as descriptor:
                _copy_blocks(origin, descriptor)
                os.ftruncate(descriptor, max(size, os.fstat(origin).st_size))
        finally:
            os.close(origin)

    def grow(self, path: str, size: int) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            if os.fstat(descriptor).st_size < size:
                os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def notice_size(self, device: str) -> None:
        _order(device, os.O_RDONLY, _LOOP_SET_CAPACITY)

    def settle(self, device: str) -> None:
        descriptor = os.open(device, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def freeze(self, path: str) -> bool:
        try:
            _order(path, os.O_RDONLY | os.O_DIRECTORY, _FIFREEZE)
        except OSError as error:
            if error.errno in _CANNOT_FREEZE:
                return False
            raise
        return True

    def thaw(self, path: str) -> None:
        try:
            _order(path, os.O_RDONLY | os.O_DIRECTORY, _FITHAW)
        except OSError as error:
            if error.errno not in (errno.EINVAL, *_CANNOT_FREEZE):  # EINVAL: it is not frozen
                raise


@contextmanager
def _put_in_place(path: str) -> Iterator[int]:
    """A new file that appears under its name, and on the disk, only when it is finished."""
    unfinished = f"{path}{NEW}"
    descriptor = os.open(unfinished, _NEW_FILE, 0o600)
    try:
        yield descriptor
        os.fsync(descriptor)
        os.rename(unfinished, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise
    finally:
        os.close(descriptor)
    _sync_directory(posixpath.dirname(path))


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _copy_blocks(origin: int, copy: int) -> None:
    """Share all blocks, or else copy those that hold anything."""
    try:
        ioctl(copy, _FICLONE, origin)
    except OSError as error:
        if error.errno not in _CANNOT_SHARE:
            raise
        for start, end in _pieces_with_data(origin):
            _copy_piece(origin, copy, start, end)


def _pieces_with_data(descriptor: int) -> Iterator[tuple[int, int]]:
    end = 0
    while True:
        try:
            start = os.lseek(descriptor, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: nothing but a hole up to the end
                raise
            return
        end = os.lseek(descriptor, start, os.SEEK_HOLE)
        yield start, end


def _copy_piece(origin: int, copy: int, start: int, end: int) -> None:
    os.lseek(copy, start, os.SEEK_SET)
    while start < end:
        done = os.sendfile(copy, origin, start, min(_PIECE, end - start))
        if done == 0:
            raise OSError(errno.EIO, "the file became shorter while it was copied")
        start += done


def _order(path: str, access: int, request: int) -> None:
    descriptor = os.open(path, access | os.O_CLOEXEC)
    try:
        ioctl(descriptor, request, struct.pack("=i", 0))
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None
    finally:
        os.close(descriptor)
