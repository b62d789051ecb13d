"""Being told when mounts of this namespace come, go or change, by whoever makes them do so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from mooring.host.mount_limits import MountRoom


@dataclass(frozen=True, slots=True, kw_only=True)
class MountNews:
    """What others did to the mounts of this namespace since the last look."""

    attached: tuple[int, ...] = ()  # ids of mounts that came, or came to another place
    detached: tuple[int, ...] = ()  # ids of mounts that went, or left their place
    everything: bool = False  # which mounts changed is not known: each may have
    flags_unseen: bool = False  # flags may have changed, and the news do not tell


class Shown(NamedTuple):
    """What a mount shows: as much as is needed to tell later whether it was changed, and is found out fast."""

    parent_id: int
    device: int
    root: str  # empty for a file system without a device
    is_in_memory: bool
    read_only: bool  # the mount itself
    is_file_system_read_only: bool


class MountEvents(Protocol):
    """A subscription to changes of mounts."""

    def take(self) -> MountNews:
        """What happened since the last call. Only after it the next change is announced."""
        ...

    def close(self) -> None: ...


class MountWatchCalls(Protocol):
    """The part of a `Host` that is about what becomes of mounts. None of it enters a mounted file system."""

    def mount_id_at(self, path: str) -> int | None:
        """The id of the topmost mount whose root is exactly this path, or None: `mount_at` without the other facts."""
        ...

    def shown_by(self, identity: int) -> Shown | None:
        """What the mount with this id shows, if it is still there: `mount_by_id` in a third of the time."""
        ...

    def make_writable(self, path: str) -> None:
        """Take the read-only flag off the mount at a path; its file system may be read-only all the same."""
        ...

    def mount_room(self) -> MountRoom: ...

    def watch_mounts(self, announce: Callable[[], None]) -> MountEvents:
        """Have a function called on the running event loop when there is news of mounts that others changed."""
        ...
