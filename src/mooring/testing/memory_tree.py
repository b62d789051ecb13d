"""The inodes, file systems and mounts of a `MemoryHost`, and how a path leads to one of them."""

from __future__ import annotations

import errno
import os
import stat
from typing import TypeAlias

from mooring.host.interface import FileFacts, FileKind

PAGE = 4096
_MOST_LINKS = 40  # as many as Linux follows in one path


class Node:
    """One inode. `entries` is set for directories only, `text` for links only, `data` for files only."""

    __slots__ = (
        "data",
        "entries",
        "gid",
        "inode",
        "kind",
        "mode",
        "modified_at",
        "mounts",
        "name",
        "parent",
        "text",
        "uid",
    )

    def __init__(self, kind: FileKind, mode: int, uid: int, gid: int, inode: int, now: float) -> None:
        self.kind = kind
        self.mode = mode
        self.uid = uid
        self.gid = gid
        self.inode = inode
        self.modified_at = now
        self.entries: dict[str, Node] | None = {} if kind is FileKind.DIRECTORY else None
        self.text: str | None = None
        self.data = b""
        self.parent: Node | None = None
        self.name = ""
        self.mounts: dict[int, Mount] | None = None  # what covers this node, by the id of the mount it is seen through


class FileSystem:
    """A disk or a tmpfs. `limit` is its size in bytes; None means that it never fills up."""

    __slots__ = ("device", "limit", "options", "read_only", "root", "source", "type", "used")

    def __init__(self, fs_type: str, source: str, device: int, root: Node, limit: int | None, options: str) -> None:
        self.type = fs_type
        self.source = source
        self.device = device
        self.root = root
        self.limit = limit
        self.options = options
        self.read_only = False
        self.used = 0

    def take(self, size: int, path: str) -> None:
        """Count a file's pages, or raise ENOSPC when they do not fit."""
        pages = (size + PAGE - 1) // PAGE * PAGE
        if self.limit is not None and self.used + pages > self.limit:
            raise failure(errno.ENOSPC, path)
        self.used += pages

    def give_back(self, size: int) -> None:
        self.used -= (size + PAGE - 1) // PAGE * PAGE


class Mount:
    """A file system, or a part of it, seen at a place of another mount."""

    __slots__ = ("children", "file_system", "flags", "holds", "id", "parent", "point", "read_only", "root", "swap")

    def __init__(
        self, number: int, parent: Mount | None, point: Node, file_system: FileSystem, root: Node, read_only: bool
    ) -> None:
        self.id = number
        self.parent = parent
        self.point = point
        self.file_system = file_system
        self.root = root
        self.read_only = read_only
        self.flags: tuple[str, ...] = ()  # other than ro, in any order
        self.swap: dict[int, int] = {}  # groups that are shown as others
        self.children = 0
        self.holds = 0

    def attach(self) -> None:
        if self.parent is not None:
            self.parent.children += 1
            if self.point.mounts is None:
                self.point.mounts = {}
            self.point.mounts[self.parent.id] = self

    def detach(self) -> None:
        if self.parent is not None and self.point.mounts is not None:
            self.parent.children -= 1
            del self.point.mounts[self.parent.id]
            self.point.mounts = self.point.mounts or None


Place: TypeAlias = tuple[Mount, Node]


def failure(number: int, path: str) -> OSError:
    """Return the OSError that Linux would have led to."""
    return OSError(number, os.strerror(number), path)


def topmost(mount: Mount, node: Node) -> Place:
    """Return what is seen at a place once everything mounted on it is there."""
    while node.mounts is not None and (upper := node.mounts.get(mount.id)) is not None:
        mount, node = upper, upper.root
    return mount, node


def resolve(root: Mount, path: str, *, follow: bool = True) -> Place:
    """Return where a path leads; a link in its last component is followed only on request."""
    mount, node = root, root.root
    for name in path.split("/"):
        if not name:
            continue
        entries = node.entries
        if entries is None or name in (".", ".."):
            return _resolve_with_links(root, path, follow)
        child = entries.get(name)
        if child is None:
            raise failure(errno.ENOENT, path)
        if child.mounts is not None:
            mount, node = topmost(mount, child)
        else:
            node = child
    if follow and node.text is not None:
        return _resolve_with_links(root, path, follow)
    return mount, node


def resolve_parent(root: Mount, path: str) -> tuple[Mount, Node, str]:
    """Return the directory that holds, or would hold, the last component of a path, and that component."""
    above, _, name = path.rstrip("/").rpartition("/")
    mount, node = resolve(root, above)
    if node.entries is None:
        raise failure(errno.ENOTDIR, path)
    return mount, node, name


def _resolve_with_links(root: Mount, path: str, follow: bool) -> Place:
    above: list[Place] = []
    mount, node = root, root.root
    pending = [name for name in reversed(path.split("/")) if name]
    links = 0
    while pending:
        name, entries = pending.pop(), node.entries
        if entries is None:
            raise failure(errno.ENOTDIR, path)
        if name == ".":
            continue
        if name == "..":
            mount, node = above.pop() if above else (root, root.root)
            continue
        child = entries.get(name)
        if child is None:
            raise failure(errno.ENOENT, path)
        if child.text is not None and (follow or pending):
            links += 1
            if links > _MOST_LINKS:
                raise failure(errno.ELOOP, path)
            if child.text.startswith("/"):
                above, mount, node = [], root, root.root
            pending.extend(part for part in reversed(child.text.split("/")) if part)
            continue
        above.append((mount, node))
        mount, node = topmost(mount, child)
    return mount, node


def resolve_beneath(top: Place, relative: str) -> Place:
    """Return where a path inside a volume leads: EXDEV when that is, or takes a way, outside of it."""
    if top[1].entries is None:
        raise failure(errno.ENOTDIR, relative)
    above = [top]
    pending = parts_inside(relative, relative)
    links = 0
    while pending:
        name, (mount, node) = pending.pop(), above[-1]
        if node.entries is None:
            raise failure(errno.ENOTDIR, relative)
        if name == "..":
            if len(above) == 1:
                raise failure(errno.EXDEV, relative)
            above.pop()
            continue
        child = node.entries.get(name)
        if child is None:
            raise failure(errno.ENOENT, relative)
        if child.text is None:
            above.append(topmost(mount, child))
            continue
        links += 1
        if links > _MOST_LINKS:
            raise failure(errno.ELOOP, relative)
        pending.extend(parts_inside(child.text, relative))
    return above[-1]


def parts_inside(text: str, relative: str) -> list[str]:
    """The components of a path that starts in a volume, last one first."""
    if text.startswith("/"):
        raise failure(errno.EXDEV, relative)
    if "\0" in text:
        raise failure(errno.EINVAL, relative)
    return [part for part in reversed(text.split("/")) if part not in ("", ".")]


def path_of(mount: Mount, node: Node) -> str:
    """Return the absolute path at which a place is seen now; renames above it are reflected."""
    names: list[str] = []
    current: Mount | None = mount
    while current is not None:
        while node is not current.root and node.parent is not None:
            names.append(node.name)
            node = node.parent
        node = current.point
        current = current.parent
    return "/" + "/".join(reversed(names))


def path_in_file_system(file_system: FileSystem, node: Node) -> str:
    """Return the path of a node from the root of its file system, with the kernel's mark when it was deleted."""
    names: list[str] = []
    while node.parent is not None:
        names.append(node.name)
        node = node.parent
    if node is not file_system.root:
        names.append(node.name)
        return f"/{'/'.join(reversed(names))}//deleted"
    return "/" + "/".join(reversed(names))


def facts_of(mount: Mount, node: Node) -> FileFacts:
    size = len(node.data) if node.text is None else len(os.fsencode(node.text))
    return FileFacts(
        kind=node.kind,
        mode=node.mode,
        uid=node.uid,
        gid=mount.swap.get(node.gid, node.gid),
        size=size,
        device=mount.file_system.device,
        inode=node.inode,
        modified_at=node.modified_at,
    )


def described(node: Node) -> str:
    """Return one line that says everything about a node that is worth comparing."""
    line = f"{node.kind.value} {stat.S_IMODE(node.mode):04o} {node.uid}:{node.gid}"
    if node.text is not None:
        return f"{line} -> {node.text}"
    return f"{line} {node.data!r}" if node.kind is FileKind.FILE else line
