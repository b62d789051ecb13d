"""The kernel's news of mounts.

fanotify names the mounts that came and went (Linux 6.15), and of these the ones of other processes are passed on. It
says nothing of changed flags; a poll of mountinfo wakes for those as well, and says nothing else. Without fanotify the
poll is all there is, and all mounts have to be looked at.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Callable
from dataclasses import replace

from mooring.host import syscalls
from mooring.host.mount_events import MountNews
from mooring.host.mount_table import MountWatcher

_event = struct.Struct("=IBBHQii").unpack_from  # length, version, reserved, length of this part, mask, fd, pid
_mount_record = struct.Struct("=BxH4xQ").unpack_from  # type, length, mount id
_HEADER = 24
_MOUNT_RECORD = 7
_READ_AT_ONCE = 1 << 16


class FanotifyMounts:
    """The kernel's own list of mounts that came and went, without those that this process made or took away."""

    def __init__(self) -> None:
        self.descriptor = syscalls.watch_mount_namespace()
        self._own = os.getpid()

    def read(self) -> tuple[MountNews, bool]:
        """The news so far, and whether there were any events at all, be it our own."""
        attached: dict[int, None] = {}
        detached: dict[int, None] = {}
        overflow = heard = False
        while data := self._next():
            heard = True
            position = 0
            while position < len(data):
                length, _, _, _, mask, _, pid = _event(data, position)
                if mask & syscalls.FAN_Q_OVERFLOW:
                    overflow = True
                elif pid != self._own and length > _HEADER:
                    kind, _, identity = _mount_record(data, position + _HEADER)
                    if kind == _MOUNT_RECORD and mask & syscalls.FAN_MNT_ATTACH:
                        attached[identity] = None
                    if kind == _MOUNT_RECORD and mask & syscalls.FAN_MNT_DETACH:
                        detached[identity] = None
                position += length
        return MountNews(attached=tuple(attached), detached=tuple(detached), everything=overflow), heard

    def _next(self) -> bytes:
        try:
            return os.read(self.descriptor, _READ_AT_ONCE)
        except BlockingIOError:
            return b""

    def close(self) -> None:
        os.close(self.descriptor)


class LinuxMountEvents:
    """Changes of mounts, on the running event loop. Between an announcement and `take` nothing wakes the loop twice."""

    def __init__(self, announce: Callable[[], None], *, fanotify: bool) -> None:
        self._announce = announce
        self._loop = asyncio.get_running_loop()
        self._poll = MountWatcher(self._polled)
        self._changed = False
        self._fanotify = _fanotify() if fanotify else None
        self._listen()

    def take(self) -> MountNews:
        changed = self._poll.drain() or self._changed
        self._changed = False
        news, heard = self._fanotify.read() if self._fanotify is not None else (MountNews(), False)
        self._listen()
        if changed and not heard:
            return MountNews(everything=True)
        return replace(news, flags_unseen=changed)

    def close(self) -> None:
        self._loop.remove_reader(self._poll.fileno())
        self._poll.close()
        if self._fanotify is not None:
            self._loop.remove_reader(self._fanotify.descriptor)
            self._fanotify.close()

    def _listen(self) -> None:
        self._loop.add_reader(self._poll.fileno(), self._poll.ready)
        if self._fanotify is not None:
            self._loop.add_reader(self._fanotify.descriptor, self._heard)

    def _polled(self) -> None:
        # The loop's own look has used this news up: the poll tells each change once.
        self._changed = True
        self._loop.remove_reader(self._poll.fileno())
        self._announce()

    def _heard(self) -> None:
        if self._fanotify is not None:
            self._loop.remove_reader(self._fanotify.descriptor)
        self._announce()


def _fanotify() -> FanotifyMounts | None:
    try:
        return FanotifyMounts()
    except OSError:  # no more of them for this user: the poll does as well
        return None
