"""What surrounds the files of a `MemoryHost`: hooks, external programs, sysfs, huge pages and project quotas."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence

from mooring.host.interface import FileKind
from mooring.host.programs import ProgramResult
from mooring.host.storage_calls import ProjectUsage
from mooring.testing import memory_usage
from mooring.testing.memory_files import MemoryFiles
from mooring.testing.memory_mounts import MemoryMounts
from mooring.testing.memory_tree import FileSystem, Mount, Node, failure, resolve

Hook = Callable[[str, str], None]
_COUNTED_AT_MOST = 10**6


class MemoryStorageCalls:
    """What `MemoryHost` inherits. `huge_page_sizes` are those the machine has; `keeps_projects` is about its disk."""

    _files: MemoryFiles
    _mounts: MemoryMounts
    _root: Mount

    def __init__(self) -> None:
        self.before_call: Hook | None = None
        self.after_call: Hook | None = None
        self.between_steps: Hook | None = None
        self.program_result: Callable[[Sequence[str]], ProgramResult | None] | None = None
        self.programs_run: list[tuple[str, ...]] = []
        self.program_directories: list[str] = []
        self.huge_page_sizes: tuple[int, ...] = (2 * 2**20, 2**30)
        self.keeps_projects = False
        self._projects: dict[Node, int] = {}
        self.project_limits: dict[int, int] = {}

    # -- storage calls -------------------------------------------------------------------------------------------
    def write_into(self, path: str, data: bytes) -> None:
        self._before("write_into", path)
        _, node = resolve(self._root, path)
        if node.kind is FileKind.DIRECTORY:
            raise failure(errno.EISDIR, path)
        node.data = data + node.data[len(data) :]
        self._after("write_into", path)

    def mount_huge_pages(self, path: str, *, page_size: int, mode: int | None = None) -> None:
        self._before("mount_huge_pages", path)
        if page_size not in self.huge_page_sizes:
            raise failure(errno.EINVAL, path)
        words = [*([f"mode={mode:03o}"] if mode is not None else []), f"pagesize={page_size // 2**20}M"]
        self._mount_new("hugetlbfs", "nodev", path, 0o755 if mode is None else mode, ",".join(words))
        self._after("mount_huge_pages", path)

    def project_of(self, directory: str) -> int:
        return self._projects.get(self._project_node(directory), 0)

    def project_usage(self, directory: str, project: int) -> ProjectUsage:
        self._project_node(directory)
        used = inodes = 0
        for node in [node for node, number in self._projects.items() if number == project]:
            tree = memory_usage.tree_usage(self._root, node, _COUNTED_AT_MOST)
            used, inodes = used + tree.used, inodes + tree.inodes
        return ProjectUsage(used=used, inodes=inodes)

    def assign_project(self, directory: str, project: int, limit: int) -> None:
        self._before("assign_project", directory)
        self._projects[self._project_node(directory)] = project
        self.project_limits[project] = limit
        self._after("assign_project", directory)

    def release_project(self, directory: str, project: int) -> None:
        self._before("release_project", directory)
        self._projects.pop(self._project_node(directory), None)
        self.project_limits.pop(project, None)
        self._after("release_project", directory)

    def run_program(self, arguments: Sequence[str], *, deadline: float, directory: str = "/") -> ProgramResult:
        self._before("run_program", arguments[0])
        self.program_directories.append(directory)
        result = self._program(arguments)
        self._after("run_program", arguments[0])
        return result

    # -- what happens to machines --------------------------------------------------------------------------------
    def put_file(self, path: str, data: bytes | str = b"") -> None:
        """Let a file be there with this content, and the directories above it, as a kernel or a person would."""
        self._files.make_directories(os.path.dirname(path), 0o755)
        try:
            _, node = resolve(self._root, path)
        except FileNotFoundError:
            node = self._files.make(path, FileKind.FILE, 0o644)
        node.data = data.encode() if isinstance(data, str) else data

    def mount_network(self, path: str, source: str, fs_type: str, options: Sequence[str] = ()) -> None:
        """What a mount helper such as mount.nfs leaves behind: a new and empty file system at a path."""
        self._mount_new(fs_type, source, path, 0o755, "", flags=tuple(options))

    # -- inside --------------------------------------------------------------------------------------------------
    def _mount_new(
        self, fs_type: str, source: str, path: str, mode: int, options: str, *, flags: tuple[str, ...] = ()
    ) -> None:
        root = self._files.new_directory(mode)
        made = FileSystem(fs_type, source, self._mounts.new_device(), root, None, options)
        self._mounts.mount_device(path, made, read_only="ro" in flags, flags=flags)

    def _project_node(self, directory: str) -> Node:
        mount, node = resolve(self._root, directory, follow=False)
        if not self.keeps_projects or mount is not self._root:
            raise OSError(errno.EOPNOTSUPP, "the file system keeps no project quotas", directory)
        return node

    def _program(self, arguments: Sequence[str]) -> ProgramResult:
        self.programs_run.append(tuple(arguments))
        result = None if self.program_result is None else self.program_result(arguments)
        return ProgramResult(status=0) if result is None else result

    def _before(self, method: str, path: str) -> None:
        if self.before_call is not None:
            self.before_call(method, path)

    def _after(self, method: str, path: str) -> None:
        if self.after_call is not None:
            self.after_call(method, path)

    def _between(self, method: str, path: str) -> None:
        if self.between_steps is not None:
            self.between_steps(method, path)
