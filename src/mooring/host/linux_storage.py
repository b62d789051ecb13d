"""The storage calls of `LinuxHost`: attributes in sysfs, huge pages, project quotas, and external programs."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from mooring.host import project_quotas, syscalls
from mooring.host.programs import PLACES, ProgramResult, run_program
from mooring.host.storage_calls import ProjectUsage


class LinuxStorageCalls:
    """What `LinuxHost` inherits. `search_path` is where programs are looked for, as in the variable PATH."""

    def __init__(self, search_path: str = PLACES) -> None:
        self._search_path = search_path

    def write_into(self, path: str, data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            if os.write(descriptor, data) != len(data):
                raise OSError(errno.EIO, "it took only a part of what was written", path)
        except OSError as error:
            raise OSError(error.errno, error.strerror, path) from None
        finally:
            os.close(descriptor)

    def mount_huge_pages(self, path: str, *, page_size: int, mode: int | None = None) -> None:
        words = [f"pagesize={page_size}", *([f"mode={mode:o}"] if mode is not None else [])]
        syscalls.mount("nodev", path, "hugetlbfs", 0, ",".join(words))

    def project_of(self, directory: str) -> int:
        return project_quotas.project_of(directory)

    def project_usage(self, directory: str, project: int) -> ProjectUsage:
        return project_quotas.project_usage(directory, project)

    def assign_project(self, directory: str, project: int, limit: int) -> None:
        project_quotas.assign_project(directory, project, limit)

    def release_project(self, directory: str, project: int) -> None:
        project_quotas.release_project(directory, project)

    def run_program(self, arguments: Sequence[str], *, deadline: float, directory: str = "/") -> ProgramResult:
        return run_program(arguments, deadline=deadline, directory=directory, places=self._search_path)
