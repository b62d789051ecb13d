"""Drivers without a registrar: their sockets are named in the settings, and awaited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Sequence

from mooring.engine.pending import Backoff
from mooring.errors import Doubtful, InvalidInput
from mooring.host.interface import FileFacts, FileKind, Host
from mooring.registration.lookout import Lookout, Sight
from mooring.registration.socket_watcher import Seen, identity_of, look_far
from mooring.registration.worlds import Identity, is_at_or_below


class StaticSockets:
    """Watches for the sockets at some paths to appear, to go and to be made anew."""

    def __init__(
        self, host: Host, paths: Sequence[str], seen: Seen, *, backoff: Backoff, resync_interval: float
    ) -> None:
        self._host = host
        self._seen = seen
        self._last: dict[str, Identity] = {}
        self.missing: dict[str, str] = dict.fromkeys(paths, "it has not been looked for yet")
        self.paths = tuple(self.missing)
        self._ends: dict[str, str] = {}  # where those that are links lead to
        self._lookout = Lookout(self._look, backoff=backoff, resync_interval=resync_interval, concerns=self._concerns)

    async def run(self) -> None:
        """Watch, until cancelled."""
        await self._lookout.run()

    def _concerns(self, path: str) -> bool:
        """Whether one of the sockets is or would be there, or below."""
        return any(is_at_or_below(each, (path,)) for each in (*self.paths, *self._ends.values()))

    async def _look(self, gone: Collection[str]) -> Sight:
        async with asyncio.TaskGroup() as looks:
            tasks = [looks.create_task(self._look_for(path)) for path in self.paths]
        sights = [task.result() for task in tasks]
        self._seen(self._last.copy(), gone)
        return Sight(
            directories=frozenset().union(*(sight.directories for sight in sights)),
            problem=next((sight.problem for sight in sights if sight.problem), ""),
        )

    async def _look_for(self, path: str) -> Sight:
        """Note whether the socket is there."""
        try:
            far = await look_far(self._host, path)
        except (OSError, Doubtful, TimeoutError) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else "the file system does not answer"
            self.missing[path] = f"cannot look for the socket: {why}"
            return Sight(
                directories=frozenset(), problem=f"cannot look for {path}: {why}"
            )  # what was known still holds
        self._ends[path] = far.end
        self.missing.pop(path, None)
        if far.facts is not None and far.facts.kind is FileKind.SOCKET:
            self._last[path] = identity_of(far.facts)
        else:
            self._last.pop(path, None)
            self.missing[path] = _why_missing(far.facts)
        return Sight(directories=far.directories)


def _why_missing(facts: FileFacts | None) -> str:
    return "the socket is not there yet" if facts is None else f"there is a {facts.kind.value}, not a socket"


def socket_path(endpoint: str) -> str:
    """The path of the socket that an endpoint of the settings names; `InvalidInput` when it names none."""
    path = endpoint.removeprefix("unix:")
    if path != endpoint and path.startswith("//"):
        path = path.removeprefix("//")
    if not os.path.isabs(path) or path.endswith("/"):
        why = f"{endpoint!r} is not the path of a socket"
        raise InvalidInput(
            "cannot use the endpoint of a driver", why=why, next_step="Write it as /path or unix:///path"
        )
    return os.path.normpath(path)
