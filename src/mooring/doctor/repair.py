"""Does what clears a leftover, each step on descriptors and only if its proof still holds right before it.

There is no recursion here and nothing that deletes a file with a byte in it: rmdir, and unlink of empty files, links
and sockets. A directory is reached from the root directory name by name, following no link and entering no mount.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import assert_never

from mooring.doctor import below_mounts, listeners, loops
from mooring.doctor.findings import (
    DetachLoop,
    RemoveEmptyDirectory,
    RemoveEmptyFile,
    RemoveLink,
    RemoveSocket,
    Repair,
    Step,
    UnmountBind,
    UnmountEmptyTmpfs,
    acts_on,
    words,
)
from mooring.host import syscalls
from mooring.host.descent import open_on_same_mount
from mooring.host.linux import LinuxHost
from mooring.host.mount_table import MountTable

_TOP = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_HANDLE = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DELETED = " (deleted)"


class Unproven(Exception):
    """What was found before is not so any more, and nothing was done."""


class Repairer:
    """Acts below one root directory."""

    def __init__(self, host: LinuxHost, root: str) -> None:
        self._host, self._root = host, root.rstrip("/")

    def clear(self, repair: Repair) -> str:
        """Do all steps; why it ended before the last one, in words, or nothing."""
        for step in repair:
            try:
                self._do(step)
            except FileNotFoundError:
                continue  # it is gone already
            except Unproven as error:
                return f"{acts_on(step)}: {error}"
            except OSError as error:
                return f"`{words(step)}`: {error.strerror or error}"
        return ""

    def _do(self, step: Step) -> None:
        match step:
            case RemoveEmptyDirectory(path):
                with self._above(path) as (directory, name):
                    _expect(directory, name, stat.S_IFDIR)
                    os.rmdir(name, dir_fd=directory)
            case RemoveEmptyFile(path, inode):
                with self._above(path) as (directory, name):
                    _expect_empty_file(directory, name, inode)
                    os.unlink(name, dir_fd=directory)
            case RemoveLink(path, text):
                with self._above(path) as (directory, name):
                    if os.readlink(name, dir_fd=directory) != text:
                        raise Unproven("it has become another link")
                    os.unlink(name, dir_fd=directory)
            case RemoveSocket(path, inode):
                with self._above(path) as (directory, name):
                    if _expect(directory, name, stat.S_IFSOCK).st_ino != inode:
                        raise Unproven("it has become another socket")
                    if not listeners.refuses(directory, name):
                        raise Unproven("somebody listens on it now")
                    os.unlink(name, dir_fd=directory)
            case UnmountEmptyTmpfs(path, mount):
                self._unmount_tmpfs(path, mount)
            case UnmountBind(path, mount, source):
                self._unmount_bind(path, mount, source)
            case DetachLoop(device, backing):
                self._detach(device, backing)
            case _:
                assert_never(step)

    @contextmanager
    def _above(self, path: str) -> Iterator[tuple[int, str]]:
        """The directory that holds a path, opened step by step, and the last name of the path.

        The directories right in the root directory may be mounts of their own; none below them is entered.
        """
        inside = f"{self._root}/"
        if not path.startswith(inside):
            raise Unproven("it does not lie below the root directory")
        *above, name = path[len(inside) :].split("/")
        directory = os.open(self._root or "/", _TOP)
        try:
            for depth, each in enumerate(above):
                inner = (
                    os.open(each, _TOP, dir_fd=directory)
                    if depth == 0
                    else open_on_same_mount(self._host.features, directory, each)
                )
                os.close(directory)
                directory = inner
            yield directory, name
        except OSError as error:
            if error.errno in (errno.EXDEV, errno.ELOOP):
                raise Unproven("a mount or a link has come to stand in its way") from error
            raise
        finally:
            os.close(directory)

    def _unmount_tmpfs(self, path: str, mount: int) -> None:
        """A tmpfs that is read-only cannot get a file between the look that finds it empty and its end."""
        self._expect_mount(path, mount)
        syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_REMOUNT | syscalls.MS_RDONLY, "")
        try:
            if not below_mounts.is_empty(path):
                raise Unproven("it is not empty any more")
            self._host.unmount(path)
        except (OSError, Unproven):
            syscalls.mount("tmpfs", path, "tmpfs", syscalls.MS_REMOUNT, "")
            raise

    def _unmount_bind(self, path: str, mount: int, source: str) -> None:
        table = self._expect_mount(path, mount)
        facts = table.at(path)
        if facts is None or below_mounts.source_of(table, facts) != source:
            raise Unproven("its files are not seen elsewhere any more")
        self._host.unmount(path)

    def _expect_mount(self, path: str, mount: int) -> MountTable:
        table = MountTable(self._host.mounts())
        found = table.at(path)
        if found is None or found.id != mount or len(table.tree_of(mount)) != 1:
            raise Unproven("something else is mounted there now")
        return table

    def _detach(self, device: str, backing: str) -> None:
        text = loops.backing_of(device)
        if text != f"{backing}{_DELETED}":
            raise Unproven("it has another file now")
        facts = loops.facts_of(device, backing, True, MountTable(self._host.mounts()))
        if facts.in_use or facts.keeps_bytes:
            raise Unproven(facts.in_use or "it holds bytes")
        self._host.detach_loop(device)


def _expect(directory: int, name: str, kind: int) -> os.stat_result:
    facts = os.stat(name, dir_fd=directory, follow_symlinks=False)
    if stat.S_IFMT(facts.st_mode) != kind:
        raise Unproven("something else has taken its place")
    return facts


def _expect_empty_file(directory: int, name: str, inode: int) -> None:
    handle = os.open(name, _HANDLE, dir_fd=directory)
    try:
        facts = os.fstat(handle)
    finally:
        os.close(handle)
    if not stat.S_ISREG(facts.st_mode) or facts.st_ino != inode:
        raise Unproven("something else has taken its place")
    if facts.st_size or facts.st_nlink != 1:
        raise Unproven("it is not empty any more")
