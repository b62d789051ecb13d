"""The part of the `Host` protocol that storage needs beyond files and ordinary mounts.

Attributes of the kernel that are written like files, huge pages, and project quotas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectUsage:
    """What the files of a project take on their file system."""

    used: int  # in bytes
    inodes: int


class StorageCalls(Protocol):
    """Calls of a host that volumes on networks, huge pages and limited directories are made with."""

    def write_into(self, path: str, data: bytes) -> None:
        """Write to a file that is there, in one call and from its beginning, as attributes in sysfs want it."""
        ...

    def mount_huge_pages(self, path: str, *, page_size: int, mode: int | None = None) -> None:
        """Mount a hugetlbfs of pages of so many bytes. OSError EINVAL when the machine has no pages of that size."""
        ...

    # Project quotas: OSError EOPNOTSUPP where the file system keeps none. The number of a project is its owner's to
    # choose; 0 is no project.
    def project_of(self, directory: str) -> int:
        """The project that a directory belongs to, with all that is made in it."""
        ...

    def project_usage(self, directory: str, project: int) -> ProjectUsage:
        """What a project takes on the file system that a directory lies on."""
        ...

    def assign_project(self, directory: str, project: int, limit: int) -> None:
        """Give an empty directory to a project that may take so many bytes and no more; 0 is no limit."""
        ...

    def release_project(self, directory: str, project: int) -> None:
        """Take the limit of a project away, and the directory out of it."""
        ...
