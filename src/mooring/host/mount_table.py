"""The mount table of this namespace, indexed, and read again only when the kernel says that it changed."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable, Iterator, Sequence

from mooring.errors import MooringError
from mooring.host import mount_facts, syscalls
from mooring.host.features import KernelFeatures
from mooring.host.interface import MountFacts

MOUNTINFO = "/proc/self/mountinfo"
_DELETED = " (deleted)"  # what the kernel appends to the path of a mount point that was removed under it
_MOST_READS = 10


def parse_mountinfo(text: str) -> list[MountFacts]:
    """Return the mounts of a mountinfo text, in its order."""
    return [mount_facts.from_line(line, number) for number, line in enumerate(text.splitlines(), 1) if line]


def read_mountinfo(*, in_one_piece: bool) -> str:
    """Read mountinfo; where the kernel can miss mounts while others change (before 5.8), until two reads agree."""
    before = None
    for _ in range(_MOST_READS):
        with open(MOUNTINFO, "rb") as file:
            text = file.read()
        if in_one_piece or text == before:
            return text.decode("utf-8", "surrogateescape")
        before = text
    raise MooringError(
        "cannot read the mount table",
        why=f"it changed during each of {_MOST_READS} reads",
        next_step="Try again when fewer mounts are being made",
    )


class MountTable:
    """All mounts at one moment. A mount comes after the one it is mounted on, so upper ones after lower ones."""

    def __init__(self, mounts: Iterable[MountFacts]) -> None:
        self._by_id = {mount.id: mount for mount in mounts}
        self.mounts: Sequence[MountFacts] = tuple(_parents_first(self._by_id))
        self._by_path: dict[str, list[MountFacts]] = {}
        self._by_content: dict[tuple[int, str], list[MountFacts]] = {}
        self._covers: dict[tuple[int, str], MountFacts] = {}
        for mount in self.mounts:
            self._by_path.setdefault(mount.path, []).append(mount)
            self._by_content.setdefault((mount.device, mount.root), []).append(mount)
            self._covers[mount.parent_id, mount.path] = mount

    def by_id(self, identity: int) -> MountFacts | None:
        return self._by_id.get(identity)

    def at(self, path: str) -> MountFacts | None:
        """The mount seen at exactly this path, the topmost of a stack."""
        candidates = self._by_path.get(path) or self._by_path.get(path + _DELETED) or []
        return next((mount for mount in reversed(candidates) if self._is_visible(mount)), None)

    def holding(self, path: str) -> MountFacts | None:
        """The mount through which a path (without links in it) is seen."""
        return next((mount for above in _path_and_above(path) if (mount := self.at(above)) is not None), None)

    def tree_of(self, identity: int) -> list[MountFacts]:
        """A mount and all that is mounted on it, at any depth."""
        tree: dict[int, MountFacts] = {}
        for mount in self.mounts:
            if mount.id == identity or mount.parent_id in tree:
                tree[mount.id] = mount
        return list(tree.values())

    def showing(self, device: int, root: str) -> list[MountFacts]:
        """The mounts that show exactly this directory of this file system."""
        return list(self._by_content.get((device, root), ()))

    def references(self, path: str) -> list[str]:
        """The other places where the directory at `path` is mounted. Links in the path are not followed.

        A bind of a directory below it is no reference to it.
        """
        mount = self.holding(path)
        if mount is None:
            raise MooringError(
                f"cannot tell where {path!r} is mounted elsewhere", why="no mount of this namespace holds it"
            )
        rest = path[len(mount.path.rstrip("/")) :].rstrip("/")
        root = mount.root.rstrip("/") + rest or "/"
        return [other.path for other in self.showing(mount.device, root) if other.id != mount.id]

    def _is_visible(self, mount: MountFacts) -> bool:
        """Tell whether nothing is mounted over a mount's place, or over a place above it, all the way up."""
        current = mount
        if (current.id, current.path) in self._covers:
            return False
        while (parent := self._by_id.get(current.parent_id)) is not None:
            for above in _path_and_above(current.path):
                cover = self._covers.get((parent.id, above))
                if cover is not None and cover is not current:
                    return False
                if above == parent.path:
                    break
            current = parent
        return True


class CurrentMounts:
    """The mount table of this namespace as it is now; a poll of mountinfo tells whether the last reading still holds.

    The kernel does not tell when a directory above a mount point is renamed, so paths can be as old as the last change.
    """

    def __init__(self, features: KernelFeatures) -> None:
        self._features = features
        self._descriptor = os.open(MOUNTINFO, os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._descriptor, select.POLLPRI)
        self._table: MountTable | None = None

    def table(self) -> MountTable:
        if self._poll.poll(0) or self._table is None:
            self._table = MountTable(self._read())
        return self._table

    def close(self) -> None:
        os.close(self._descriptor)

    def _read(self) -> Iterable[MountFacts]:
        if self._features.unique_mount_ids:
            return _identified_mounts()
        return parse_mountinfo(read_mountinfo(in_one_piece=self._features.mount_root_attribute))


class MountWatcher:
    """Calls back whenever the mount table of this namespace changed; give its `fileno` to `loop.add_reader`."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._on_change = on_change
        self._file = os.open(MOUNTINFO, os.O_RDONLY | os.O_CLOEXEC)
        # mountinfo is always readable, which would keep a loop busy: this epoll wakes for changes alone.
        self._epoll = select.epoll()
        self._epoll.register(self._file, select.EPOLLPRI)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def ready(self) -> None:
        """The callback for `loop.add_reader`: being woken is the news, and draining makes room for the next."""
        self._epoll.poll(0)
        self._on_change()

    def drain(self) -> bool:
        """Whether something changed that no loop was woken for."""
        return bool(self._epoll.poll(0))

    def close(self) -> None:
        self._epoll.close()
        os.close(self._file)


def _identified_mounts() -> Iterator[MountFacts]:
    for identity in syscalls.listmount():
        try:
            answer = syscalls.statmount(identity, mount_facts.ALL_FACTS)
        except FileNotFoundError:  # unmounted meanwhile
            continue
        facts = mount_facts.from_statmount(answer)
        if facts.path:  # else it lies outside of the root directory of this process
            yield facts


def _parents_first(by_id: dict[int, MountFacts]) -> Iterator[MountFacts]:
    """The kernel lists mounts in the order they were made, which may not be the order they were put on each other."""
    listed: set[int] = set()
    for mount in by_id.values():
        chain = []
        current: MountFacts | None = mount
        while current is not None and current.id not in listed:
            listed.add(current.id)
            chain.append(current)
            current = by_id.get(current.parent_id)
        yield from reversed(chain)


def _path_and_above(path: str) -> Iterator[str]:
    current = path
    while len(current) > 1:
        yield current
        current = current[: current.rindex("/")] or "/"
    yield "/"
