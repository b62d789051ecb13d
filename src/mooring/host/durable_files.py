"""Files that are on the disk, whole, when the call that wrote them returns."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

NEW = ".new"
"""How the name of a file ends that was not finished; it is never taken for the file."""

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW_FILE = os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class DurableCalls(Protocol):
    """The part of a `Host` that is about what must outlive a crash."""

    def write_durably(self, directory: str, files: Mapping[str, bytes]) -> None:
        """Put these files, by name, into a directory, each replaced in one step; all are on disk when it returns.

        The directory is made, for its owner only, where it is missing. BULKY: it waits for the disk.
        """
        ...

    def boot_id(self) -> str:
        """Which run of the machine this is: another one after each boot."""
        ...


class RecordFiles(DurableCalls, Protocol):
    """What records are kept with; every `Host` has it."""

    def names_in(self, path: str) -> list[str]: ...

    def read_file(self, path: str) -> bytes: ...

    def remove_file(self, path: str) -> None: ...


class LinuxDurableCalls:
    """What `LinuxHost` inherits."""

    def write_durably(self, directory: str, files: Mapping[str, bytes]) -> None:
        write_durably(directory, files)

    def boot_id(self) -> str:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()


def write_durably(directory: str, files: Mapping[str, bytes]) -> None:
    """Each file is synced by itself, and the directory once for all of them."""
    handle = _open(directory)
    try:
        for name, data in files.items():
            _write_file(handle, f"{name}{NEW}", data)
        for name in files:
            os.rename(f"{name}{NEW}", name, src_dir_fd=handle, dst_dir_fd=handle)
        os.fsync(handle)
    except OSError as error:  # it names a path relative to a descriptor
        for unfinished in files:
            with suppress(OSError):
                os.unlink(f"{unfinished}{NEW}", dir_fd=handle)
        raise OSError(error.errno, error.strerror, f"{directory}/{name}") from None
    finally:
        os.close(handle)


def _open(directory: str) -> int:
    with suppress(FileExistsError):
        os.mkdir(directory, 0o700)
        above = os.open(posixpath.dirname(directory), _DIRECTORY)
        try:
            os.fsync(above)
        finally:
            os.close(above)
    return os.open(directory, _DIRECTORY)


def _write_file(directory: int, name: str, data: bytes) -> None:
    descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=directory)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
