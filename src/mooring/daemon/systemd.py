"""Telling systemd how the daemon is: sd_notify(3) over its datagram socket, written by hand.

Everything here does nothing when the daemon was not started by a service of `Type=notify`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import MutableMapping

from mooring.manager.volume_manager import VolumeManager
from mooring.world.changes import Change, Finished
from mooring.world.presence import Presence

log = logging.getLogger(__name__)

_PAUSE = 1.0  # seconds between two lines of status at least


class Notifier:
    """Sends states such as `READY=1` to the service manager. Without an address it is silent."""

    def __init__(self, address: str = "") -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._socket: socket.socket | None = None

    @property
    def is_heard(self) -> bool:
        return bool(self._address)

    def send(self, *states: str) -> None:
        """Send states in one message; a manager that does not listen is no reason to stop."""
        if not self._address:
            return
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
                self._socket.setblocking(False)
            self._socket.sendto("\n".join(states).encode(), self._address)
        except OSError as error:
            log.debug("systemd was not told %s: %s", states[0], error)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def take_notifier(environment: MutableMapping[str, str]) -> tuple[Notifier, float | None]:
    """The notifier of this process, and the seconds after which a watchdog wants to hear from it, if there is one.

    The variables are taken out of the environment: programs that the daemon runs must not speak for it.
    """
    address = environment.pop("NOTIFY_SOCKET", "")
    microseconds = environment.pop("WATCHDOG_USEC", "")
    pid = environment.pop("WATCHDOG_PID", "")
    if not address.startswith(("/", "@")):  # such as vsock, which is for whole machines
        return Notifier(), None
    is_ours = not pid or pid == str(os.getpid())
    patience = int(microseconds) / 1e6 if is_ours and microseconds.isdigit() and int(microseconds) else None
    return Notifier(address), patience


class Service:
    """Tells the service manager that the daemon is ready, alive, how it goes, and that it stops."""

    def __init__(self, notifier: Notifier, patience: float | None = None) -> None:
        self._notifier = notifier
        self._patience = patience
        self._changed = asyncio.Event()

    async def run(self, manager: VolumeManager, heard: asyncio.Event) -> None:
        """Speak until cancelled. It is ready when every source of pods was heard; the socket listens by then."""
        if not self._notifier.is_heard:
            return
        async with asyncio.TaskGroup() as tasks:
            if self._patience is not None:
                tasks.create_task(self._feed_watchdog(self._patience), name="watchdog")
            await heard.wait()
            self._notifier.send("READY=1", f"STATUS={status_line(manager)}")
            manager.subscribe(self._listen)
            await self._report(manager)

    def stopping(self) -> None:
        self._notifier.send("STOPPING=1", "STATUS=stopping; volumes stay as they are")

    def close(self) -> None:
        self._notifier.close()

    async def _feed_watchdog(self, patience: float) -> None:
        """Say that the event loop turns, twice as often as it must. A loop that is stuck says nothing."""
        while True:
            self._notifier.send("WATCHDOG=1")
            await asyncio.sleep(patience / 2)

    def _listen(self, change: Change) -> None:
        if isinstance(change, Finished):
            self._changed.set()

    async def _report(self, manager: VolumeManager) -> None:
        """Keep the line that `systemctl status` shows; sends only when something changed."""
        said = ""
        while True:
            await self._changed.wait()
            self._changed.clear()
            words = status_line(manager)
            if words != said:
                self._notifier.send(f"STATUS={words}")
                said = words
            await asyncio.sleep(_PAUSE)


def status_line(manager: VolumeManager) -> str:
    """How many volumes of how many pods are mounted, and what is not as it should be, in one line."""
    held = [mount for volume in manager.actual.volumes.values() for mount in volume.mounts.values()]
    mounted = sum(mount.presence is Presence.PRESENT for mount in held)
    wanted = sum(len(volume.mounts) for volume in manager.desired.volumes.values())
    failing = sum(bool(volume.failures) for volume in manager.actual.volumes.values())
    words = f"{mounted} of {wanted} volumes of {len(manager.desired.pods())} pods are mounted"
    return f"{words}, {failing} failing" if failing else words
