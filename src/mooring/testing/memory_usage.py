"""How full the file systems and directories of a `MemoryHost` are."""

from __future__ import annotations

from mooring.host.interface import FileSystemUsage, TreeUsage
from mooring.testing.memory_tree import PAGE, FileSystem, Mount, Node, topmost

ENDLESS = 2**40
"""The size of a disk without a limit."""
INODES = 10**6


def file_system_usage(file_system: FileSystem) -> FileSystemUsage:
    capacity = file_system.limit if file_system.limit is not None else ENDLESS
    inodes = sum(1 for _ in _below(file_system.root))
    return FileSystemUsage(
        capacity=capacity,
        available=capacity - file_system.used,
        used=file_system.used,
        inodes=INODES,
        inodes_free=INODES - inodes,
        inodes_used=inodes,
    )


def _below(node: Node) -> list[Node]:
    found, pending = [], [node]
    while pending:
        here = pending.pop()
        found.append(here)
        pending.extend((here.entries or {}).values())
    return found


def tree_usage(mount: Mount, node: Node, budget: int) -> TreeUsage:
    used = inodes = 0
    pending = [node]
    while pending and budget > 0:
        here = pending.pop()
        budget -= 1
        inodes += 1
        used += (len(here.data) + PAGE - 1) // PAGE * PAGE
        children = (here.entries or {}).values()
        pending.extend(child for child in children if topmost(mount, child)[0] is mount)
    return TreeUsage(used=used, inodes=inodes, complete=not pending)
