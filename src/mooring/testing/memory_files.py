"""What changes files on a `MemoryHost`: making, writing, renaming, owning and removing, with the errors of Linux."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence

from mooring.host.interface import FileKind, NewFile
from mooring.host.ownership_calls import Ownership, OwnershipReport
from mooring.host.paths import checked_component
from mooring.testing.memory_tree import (
    FileSystem,
    Mount,
    Node,
    Place,
    failure,
    parts_inside,
    resolve,
    resolve_beneath,
    resolve_parent,
)

UMASK = 0o022


class MemoryFiles:
    """The files below one root mount. `step(method, path)` is called after each part of a call that has several."""

    root: Mount

    def __init__(self, now: Callable[[], float], uid: int, gid: int, step: Callable[[str, str], None]) -> None:
        self._now = now
        self._uid, self._gid = uid, gid
        self._step = step
        self._last_inode = 1

    def new_directory(self, mode: int) -> Node:
        """Return a directory that is nowhere yet: the root of a file system."""
        self._last_inode += 1
        return Node(FileKind.DIRECTORY, mode & 0o7777, self._uid, self._gid, self._last_inode, self._now())

    def make(self, path: str, kind: FileKind, mode: int) -> Node:
        """Make one empty thing of any kind; its mode is exact but for what its directory hands down."""
        mount, directory, name = resolve_parent(self.root, path)
        return self._make_in(mount, directory, name, kind, mode, path)

    def make_directories(self, path: str, mode: int) -> bool:
        """mkdir -p; returns whether the last one was made now."""
        try:
            directory = resolve(self.root, path)[1]
        except FileNotFoundError:
            for above in _each_prefix(path):
                self._make_directory_if_missing(above, path, mode)
            return True
        if directory.entries is None:
            raise failure(errno.EEXIST, path)
        return False

    def make_beneath(self, top: Place, relative: str, mode: int) -> None:
        """mkdir -p inside a volume, with exact modes."""
        place, missing = _existing_part(top, relative)
        for name in missing:
            mount, directory = place
            found = _children(directory, relative).get(name)
            if name == ".." or (found is not None and found.entries is None):
                raise failure(errno.ENOENT if name == ".." else errno.ENOTDIR, relative)
            made = self._make_in(mount, directory, name, FileKind.DIRECTORY, 0o700, relative)
            made.mode = mode & 0o7777
            place = (mount, made)
            self._step("make_subpath", relative)

    def write(self, directory: str, files: Sequence[NewFile]) -> None:
        mount, node = resolve(self.root, directory)
        for file in files:
            self._write_one(mount, node, directory, file)
            self._step("write_files", f"{directory}/{file.path}")

    def rename(self, old: str, new: str) -> None:
        mount, from_directory, from_name = resolve_parent(self.root, old)
        to_mount, to_directory, to_name = resolve_parent(self.root, new)
        node = _entry(from_directory, from_name, old)
        if mount is not to_mount:
            raise failure(errno.EXDEV, old)
        _check_writable(mount, old)
        replaced = _children(to_directory, new).get(to_name)
        if replaced is node:
            return
        _check_rename(node, replaced, to_directory, new)
        if replaced is not None:
            _drop(mount.file_system, replaced)
        del _children(from_directory, old)[from_name]
        _children(to_directory, new)[to_name] = node
        node.parent, node.name = to_directory, to_name
        from_directory.modified_at = to_directory.modified_at = self._now()

    def change_mode(self, path: str, mode: int) -> None:
        mount, node = resolve(self.root, path)
        _check_writable(mount, path)
        node.mode = mode & 0o7777

    def own(self, path: str, ownership: Ownership) -> Iterator[OwnershipReport]:
        """Own a tree, entry by entry; after each one yields what was done so far."""
        mount, top = resolve(self.root, path, follow=False)
        _check_writable(mount, path)
        changed = 0
        nodes = _children_first(top, lambda child: child.mounts is not None and mount.id in child.mounts)
        for visited, node in enumerate(nodes, start=1):
            mask = ownership.directory_mask if node.entries is not None else ownership.file_mask
            mode = node.mode if node.text is not None else node.mode | mask
            if node.gid != ownership.gid or node.mode != mode:
                node.gid, node.mode = ownership.gid, mode
                changed += 1
                self._step("set_ownership", path)
            yield OwnershipReport(visited=visited, changed=changed)

    def remove_file(self, path: str) -> None:
        mount, directory, name = resolve_parent(self.root, path)
        node = _entry(directory, name, path)
        if node.entries is not None:
            raise failure(errno.EISDIR, path)
        self._remove(mount, node, path)

    def remove_directory(self, path: str) -> None:
        mount, directory, name = resolve_parent(self.root, path)
        node = _entry(directory, name, path)
        if node.entries is None:
            raise failure(errno.ENOTDIR, path)
        self._remove(mount, node, path)

    def remove_tree(self, path: str) -> None:
        mount, directory, name = resolve_parent(self.root, path)
        top = _entry(directory, name, path)
        if top.entries is None:
            raise failure(errno.ENOTDIR, path)
        _check_writable(mount, path)
        if top.mounts is not None:
            raise _mount_in_the_way(path)
        blocked: list[Node] = []

        def is_mount_point(node: Node) -> bool:
            if node.mounts is not None:
                blocked.append(node)
            return node.mounts is not None

        for node in _children_first(top, is_mount_point):
            if not node.entries:
                self._remove(mount, node, path)
                self._step("remove_tree", path)
        if blocked:
            raise _mount_in_the_way(path + _path_below(top, blocked[0]))

    def _make_directory_if_missing(self, path: str, whole: str, mode: int) -> None:
        try:
            directory = resolve(self.root, path)[1]
        except FileNotFoundError:
            self.make(path, FileKind.DIRECTORY, mode & ~UMASK)
            self._step("make_directories", path)
            return
        if directory.entries is None:
            raise failure(errno.ENOTDIR, whole)

    def _make_in(self, mount: Mount, directory: Node, name: str, kind: FileKind, mode: int, path: str) -> Node:
        entries = _children(directory, path)
        if not name or name in entries:
            raise failure(errno.EEXIST, path)
        _check_writable(mount, path)
        self._last_inode += 1
        now = self._now()
        node = Node(kind, mode & 0o7777, self._uid, self._gid, self._last_inode, now)
        if kind is FileKind.DIRECTORY:
            node.mode &= 0o1777  # mkdir(2) takes no setuid and setgid bits
        if directory.mode & 0o2000:
            node.gid = directory.gid
            node.mode |= 0o2000 if kind is FileKind.DIRECTORY else 0
        node.parent, node.name = directory, name
        entries[name] = node
        directory.modified_at = now
        return node

    def _write_one(self, mount: Mount, directory: Node, where: str, file: NewFile) -> None:
        path = f"{where}/{file.path}"
        *above, name = file.path.split("/")
        for part in above:
            checked_component(part)
            child = _children(directory, path).get(part)
            if child is None:
                child = self._make_in(mount, directory, part, FileKind.DIRECTORY, 0o777 & ~UMASK, path)
            directory = child
        node = self._make_in(mount, directory, name, FileKind.FILE, file.mode, path)
        if file.uid is not None:
            node.uid = file.uid
        mount.file_system.take(len(file.data), path)
        node.data = file.data

    def _remove(self, mount: Mount, node: Node, path: str) -> None:
        if node.mounts is not None:
            raise failure(errno.EBUSY, path)
        _check_writable(mount, path)
        if node.entries:
            raise failure(errno.ENOTEMPTY, path)
        if node.parent is not None and node.parent.entries is not None:
            del node.parent.entries[node.name]
            node.parent.modified_at = self._now()
        _drop(mount.file_system, node)


def _existing_part(top: Place, relative: str) -> tuple[Place, list[str]]:
    """The deepest directory of a path inside a volume that is there, and the components that are missing."""
    parts = parts_inside(relative, relative)[::-1]
    for count in range(len(parts), 0, -1):
        try:
            place = resolve_beneath(top, "/".join(parts[:count]))
        except FileNotFoundError:
            continue
        if place[1].entries is None:
            raise failure(errno.ENOTDIR, relative)
        return place, parts[count:]
    return top, parts


def _check_writable(mount: Mount, path: str) -> None:
    if mount.read_only:
        raise failure(errno.EROFS, path)


def _drop(file_system: FileSystem, node: Node) -> None:
    node.parent = None
    file_system.give_back(len(node.data))


def _children(directory: Node, path: str) -> dict[str, Node]:
    if directory.entries is None:
        raise failure(errno.ENOTDIR, path)
    return directory.entries


def _entry(directory: Node, name: str, path: str) -> Node:
    if not name:
        raise failure(errno.EBUSY, path)  # the root directory
    node = _children(directory, path).get(name)
    if node is None:
        raise failure(errno.ENOENT, path)
    return node


def _each_prefix(path: str) -> Iterator[str]:
    cut = path.find("/", 1)
    while cut > 0:
        yield path[:cut]
        cut = path.find("/", cut + 1)
    yield path


def _check_rename(node: Node, replaced: Node | None, to_directory: Node, new: str) -> None:
    above: Node | None = to_directory
    while above is not None:
        if above is node:
            raise failure(errno.EINVAL, new)
        above = above.parent
    if replaced is not None and node.entries is not None and replaced.entries is None:
        raise failure(errno.ENOTDIR, new)
    if replaced is not None and node.entries is None and replaced.entries is not None:
        raise failure(errno.EISDIR, new)
    if node.mounts is not None or (replaced is not None and replaced.mounts is not None):
        raise failure(errno.EBUSY, new)
    if replaced is not None and replaced.entries:
        raise failure(errno.ENOTEMPTY, new)


def _children_first(top: Node, is_covered: Callable[[Node], bool]) -> Iterator[Node]:
    """Yield a tree's nodes, children before their directory, without what is covered by a mount."""
    pending = [(top, False)]
    while pending:
        node, entered = pending.pop()
        if not entered and node is not top and is_covered(node):
            continue
        if entered or node.entries is None:
            yield node
        else:
            pending.append((node, True))
            pending.extend((child, False) for child in reversed(node.entries.values()))


def _mount_in_the_way(path: str) -> OSError:
    return OSError(errno.EBUSY, "cannot remove it: it is a mount point", path)


def _path_below(top: Node, node: Node) -> str:
    names: list[str] = []
    while node is not top and node.parent is not None:
        names.append(f"/{node.name}")
        node = node.parent
    return "".join(reversed(names))
