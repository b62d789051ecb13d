"""PluginManager: whoever opens a socket in the registry directory, or at a place of the settings, is registered."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Mapping, Sequence

from mooring.engine.pending import Backoff, PendingOperations
from mooring.engine.reconciler import Reconciler
from mooring.host.interface import Host
from mooring.registration.conversations import Timeouts
from mooring.registration.handshake import Handshake
from mooring.registration.interface import PluginCount, PluginHandler, SocketState, SocketView, WorldName
from mooring.registration.plugin_subject import PluginSubject
from mooring.registration.socket_watcher import SocketWatcher
from mooring.registration.static_sockets import StaticSockets, socket_path
from mooring.registration.worlds import Identity, Offered, Operation, Register, Unregister

_LIMIT = 256
"""Registrations at once. Each mostly waits for its plugin, so that many silent ones must not keep out the others."""

_NOTHING = Offered(type="", name="", endpoint="", versions=())


class PluginManager:
    """Keeps plugins registered while their sockets are there. `changed` is called when there is news of them."""

    def __init__(
        self,
        host: Host,
        directory: str,
        handlers: Sequence[PluginHandler],
        *,
        static: Sequence[str] = (),
        backoff: Backoff,
        resync_interval: float,
        changed: Callable[[], None] = lambda: None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - a frozen value
    ) -> None:
        self._changed = changed
        self._subject = PluginSubject(Handshake(handlers, timeouts), changed=changed)
        self._reconciler: Reconciler[Operation, Offered | None] = Reconciler(
            self._subject, PendingOperations(backoff), limit=_LIMIT, resync_interval=resync_interval
        )
        self._subject.freed = self._reconciler.resume
        self._registry = SocketWatcher(
            host,
            os.path.normpath(directory),
            self._saw_registry,
            backoff=backoff,
            resync_interval=resync_interval,
            told=changed,
        )
        paths = [socket_path(endpoint) for endpoint in static]
        self._static = StaticSockets(host, paths, self._saw_static, backoff=backoff, resync_interval=resync_interval)

    async def run(self) -> None:
        """Watch and register, until cancelled. Plugins stay registered then: who stops says nothing of them."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._reconciler.run(), name="plugin registration")
            tasks.create_task(self._registry.run(), name="plugin registry")
            if self._static.paths:
                tasks.create_task(self._static.run(), name="static plugin sockets")

    # -- telling ---------------------------------------------------------------------------------------------------
    def sockets(self) -> list[SocketView]:
        """All sockets, sorted by path, also those of the settings that are not there yet."""
        return [
            self._view(path) for path in sorted({*self._subject.keys(), *self._subject.working, *self._static.paths})
        ]

    def counts(self) -> list[PluginCount]:
        """The samples of the metric `plugin_manager_total_plugins`; each counts one."""
        worlds = ((WorldName.DESIRED, self._subject.desired.sockets), (WorldName.ACTUAL, self._subject.actual))
        return [
            PluginCount(socket_path=_readable(path), state=name) for name, world in worlds for path in sorted(world)
        ]

    def problem(self) -> str:
        """What keeps the registry directory from being watched, or nothing."""
        return self._registry.problem

    def _view(self, path: str) -> SocketView:
        actual, attempt = self._subject.actual.get(path), self._subject.attempts.get(path)
        offered = (actual.offered if actual else attempt.offered if attempt else None) or _NOTHING
        failure = attempt.failure if attempt else None
        state = self._state(path)
        return SocketView(
            path=_readable(path),
            static=path in self._static.paths,
            state=state,
            type=offered.type,
            name=offered.name,
            endpoint=_readable(offered.endpoint),
            versions=offered.versions,
            failing_step=failure.step if failure else None,
            why=failure.why if failure else self._static.missing.get(path, ""),
            attempts=attempt.count if attempt else 0,
        )

    def _state(self, path: str) -> SocketState:
        match self._subject.working.get(path):
            case Register():
                return SocketState.REGISTERING
            case Unregister():
                return SocketState.UNREGISTERING
        if path in self._subject.actual:
            return SocketState.REGISTERED
        attempt = self._subject.attempts.get(path)
        return SocketState.FAILED if attempt is not None and attempt.failure else SocketState.WAITING

    # -- looking ---------------------------------------------------------------------------------------------------
    def _saw_registry(self, seen: Mapping[str, Identity], gone: Collection[str]) -> None:
        self._saw({path: seen[path] for path in seen.keys() - set(self._static.paths)}, gone, static=False)

    def _saw_static(self, seen: Mapping[str, Identity], gone: Collection[str]) -> None:
        self._saw(seen, gone, static=True)
        self._changed()  # why one is missing may have changed

    def _saw(self, seen: Mapping[str, Identity], gone: Collection[str], *, static: bool) -> None:
        for path in self._subject.observe(seen, gone=gone, static=static):
            self._reconciler.forget(path)  # a socket made anew does not rest for what the last one did
            self._reconciler.touch(path)


def _readable(path: str) -> str:
    """A path as text that can be written anywhere; a name may hold bytes that are none."""
    return os.fsencode(path).decode(errors="backslashreplace")
