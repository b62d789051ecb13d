"""inotify(7): which directories changed, told to the event loop without a thread."""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass

_libc = ctypes.CDLL(None, use_errno=True)
_HEADER = struct.Struct("iIII")
_BUFFER = 64 * 1024

ATTRIBUTES = 0x4
CLOSE_WRITE = 0x8
MOVED_FROM = 0x40
MOVED_TO = 0x80
CREATE = 0x100
DELETE = 0x200
DELETE_SELF = 0x400
MOVE_SELF = 0x800
OVERFLOW = 0x4000
IGNORED = 0x8000
IS_DIRECTORY = 0x40000000
_ONLY_DIRECTORY = 0x01000000

WATCHED = CLOSE_WRITE | MOVED_FROM | MOVED_TO | CREATE | DELETE | DELETE_SELF | MOVE_SELF


@dataclass(frozen=True, slots=True)
class DirectoryEvent:
    """Something happened in a watched directory; after an overflow `directory` is empty: look everywhere."""

    directory: str
    name: str
    mask: int


class DirectoryWatcher:
    """Watches directories and hands batches of events to `notice`. Belongs to the loop it was started on.

    `also` names events beside the usual ones, such as ATTRIBUTES for changed modes.
    """

    def __init__(self, notice: Callable[[list[DirectoryEvent]], None], *, also: int = 0) -> None:
        self._mask = WATCHED | also | _ONLY_DIRECTORY
        self._notice = notice
        self._descriptor = _checked(_libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC), "inotify")
        self._paths: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    @property
    def directories(self) -> set[str]:
        return set(self._watches)

    def watch(self, directory: str) -> None:
        """Watch a directory; OSError when it cannot be."""
        found = _libc.inotify_add_watch(self._descriptor, os.fsencode(directory), ctypes.c_uint32(self._mask))
        number = _checked(found, directory)
        self._paths[number] = directory
        self._watches[directory] = number

    def forget(self, directory: str) -> None:
        number = self._watches.pop(directory, None)
        if number is not None:
            self._paths.pop(number, None)
            _libc.inotify_rm_watch(self._descriptor, number)

    def close(self) -> None:
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _BUFFER)
        except BlockingIOError:
            return
        events = [event for event in self._decode(data) if event is not None]
        if events:
            self._notice(events)

    def _decode(self, data: bytes) -> list[DirectoryEvent | None]:
        events: list[DirectoryEvent | None] = []
        position = 0
        while position < len(data):
            number, mask, _, length = _HEADER.unpack_from(data, position)
            position += _HEADER.size
            name = os.fsdecode(data[position : position + length].rstrip(b"\0"))
            position += length
            events.append(self._event(number, mask, name))
        return events

    def _event(self, number: int, mask: int, name: str) -> DirectoryEvent | None:
        if mask & OVERFLOW:
            return DirectoryEvent("", "", mask)
        directory = self._paths.get(number)
        if mask & IGNORED:
            if directory is not None:
                self._watches.pop(directory, None)
                del self._paths[number]
            return None
        return DirectoryEvent(directory, name, mask) if directory is not None else None


def _checked(result: int, path: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), path)
    return result
