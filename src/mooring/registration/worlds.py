"""The sockets that there are and the plugins that are registered, and what is to be done about the difference."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NewType

Incarnation = NewType("Incarnation", int)
"""Tells a socket from the one that was at the same path before; every socket ever seen has another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What tells one file from the next at the same path, as far as a file system does: inodes are used again."""

    device: int
    inode: int
    modified_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """What a plugin says of itself. The endpoint is where it serves; a registrar's socket is another one."""

    type: str
    name: str
    endpoint: str
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredSocket:
    """A socket that there is, and so whoever is behind it is to be registered."""

    path: str
    incarnation: Incarnation
    identity: Identity
    static: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ActualPlugin:
    """A plugin that its handler has taken in, from this socket."""

    path: str
    incarnation: Incarnation
    offered: Offered


@dataclass(frozen=True, slots=True)
class Register:
    socket: DesiredSocket

    @property
    def path(self) -> str:
        return self.socket.path


@dataclass(frozen=True, slots=True)
class Unregister:
    plugin: ActualPlugin

    @property
    def path(self) -> str:
        return self.plugin.path


Operation = Register | Unregister


def plan(desired: DesiredSocket | None, actual: ActualPlugin | None) -> list[Operation]:
    """The operation due for one path, if any.

    A plugin whose socket has gone, or was made anew, is unregistered first. Nothing is registered over another.
    """
    if actual is not None:
        current = desired is not None and desired.incarnation == actual.incarnation
        return [] if current else [Unregister(actual)]
    return [Register(desired)] if desired is not None else []


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredSockets:
    """All sockets that there are, by path, and how many there have ever been."""

    sockets: Mapping[str, DesiredSocket] = field(default_factory=dict)
    incarnations: int = 0


def observed(
    before: DesiredSockets, seen: Mapping[str, Identity], *, gone: Collection[str] = (), static: bool = False
) -> DesiredSockets:
    """The sockets after a look at all of one kind, the static ones or the others.

    A path that was `gone` in the meantime, or a directory above it, holds a new socket, whatever it looks like.
    """
    sockets = {path: socket for path, socket in before.sockets.items() if socket.static is not static}
    count = before.incarnations
    for path in sorted(seen.keys() - sockets.keys()):  # a path is of one kind only: the one that had it first
        known = before.sockets.get(path)
        if known is not None and known.identity == seen[path] and not is_at_or_below(path, gone):
            sockets[path] = known
            continue
        count += 1
        sockets[path] = DesiredSocket(path=path, incarnation=Incarnation(count), identity=seen[path], static=static)
    return DesiredSockets(sockets=sockets, incarnations=count)


def changed_paths(before: DesiredSockets, after: DesiredSockets) -> list[str]:
    """The paths whose socket came, went or was made anew, sorted."""
    paths = before.sockets.keys() | after.sockets.keys()
    return sorted(path for path in paths if before.sockets.get(path) != after.sockets.get(path))


def is_at_or_below(path: str, places: Collection[str]) -> bool:
    if not places:
        return False
    while path not in places:
        above = os.path.dirname(path)
        if above == path:
            return False
        path = above
    return True
