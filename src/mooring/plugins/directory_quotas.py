"""Project quotas for directories of pods: the kernel counts what a volume holds, and may keep it below its limit."""

from __future__ import annotations

import errno
import logging

from mooring.errors import Refused
from mooring.host.interface import Host

log = logging.getLogger(__name__)

OFF, ACCOUNT, ENFORCE = "off", "account", "enforce"
MODES = (OFF, ACCOUNT, ENFORCE)

_FIRST = 1048577  # as a kubelet's
_CANDIDATES = 128
_TAKEN_FILES = ("/etc/projects", "/etc/projid")


def apply_quota(host: Host, directory: str, limit: int, mode: str) -> bool:
    """Give a new directory a project of its own; false where the file system keeps none. One that has it keeps it."""
    try:
        if host.project_of(directory) >= _FIRST:
            return True
        project = _free_project(host, directory)
        host.assign_project(directory, project, limit if mode == ENFORCE else 0)
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return False
    return True


def release_quota(host: Host, directory: str) -> None:
    """Give back the project of a directory that is about to be removed; a failure costs a number, no more."""
    try:
        project = host.project_of(directory)
        if project >= _FIRST:
            host.release_project(directory, project)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.ENOENT, errno.ENOTDIR):
            log.warning("cannot release the quota of %s: %s", directory, error.strerror)


def quota_usage(host: Host, directory: str) -> int | None:
    """The bytes that a directory's project takes; None when it has none."""
    try:
        project = host.project_of(directory)
        return host.project_usage(directory, project).used if project >= _FIRST else None
    except OSError as error:
        if error.errno != errno.EOPNOTSUPP:
            raise
        return None


def _free_project(host: Host, directory: str) -> int:
    """The first number that nobody has written down and that no file belongs to."""
    taken = set[int]()
    for file in _TAKEN_FILES:
        taken |= _numbers_in(host, file)
    for project in range(_FIRST, _FIRST + _CANDIDATES + len(taken)):
        if project not in taken and host.project_usage(directory, project).inodes == 0:
            return project
    what = f"cannot limit {directory!r}"
    raise Refused(what, why=f"no project number of {_CANDIDATES} from {_FIRST} on is free")


def _numbers_in(host: Host, file: str) -> set[int]:
    """Lines are `number:path` in the one file, and `name:number` in the other."""
    try:
        lines = host.read_file(file).decode("utf-8", "replace").splitlines()
    except OSError:
        return set()
    return {int(part) for line in lines for part in line.split(":") if part.isdecimal()}
