"""Events in the local store: counted over restarts, and gone after their lifetime."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable

from mooring.kube.api import Api, ApiError, NotFound
from mooring.kube.objects.kinds import EVENT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import Event, EventSource
from mooring.observe.events import COMPONENT, Said

log = logging.getLogger(__name__)


class StoredEvents:
    """An `EventWriter` for a store that nobody else writes events to. It reads and lists them, and deletes old ones."""

    def __init__(self, api: Api, *, node_name: str, now: Callable[[], str], lifetime: float) -> None:
        self._api = api
        self._node_name = node_name
        self._now = now
        self._lifetime = lifetime
        self._waiting: dict[Said, int] = {}
        self._filled = asyncio.Event()
        self._written: dict[tuple[str, str], float] = {}

    def write(self, said: Said) -> None:
        self._waiting[said] = self._waiting.get(said, 0) + 1
        self._filled.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._forget_old())
            while True:
                await self._filled.wait()
                self._filled.clear()
                while self._waiting:
                    said = next(iter(self._waiting))
                    await self._put(said, self._waiting.pop(said))

    async def _put(self, said: Said, times: int) -> None:
        namespace, name = said.object.namespace, _name(said)
        try:
            try:
                known = await self._api.get(EVENT, namespace, name)
            except NotFound:
                await self._api.create(self._new(said, times))
            else:
                again = {"count": known.count + times, "lastTimestamp": self._now()}
                await self._api.patch(EVENT, namespace, name, again)
        except ApiError as error:
            log.warning("cannot record an event: %s", error)
        self._written[namespace, name] = asyncio.get_running_loop().time()

    def _new(self, said: Said, times: int) -> Event:
        return Event(
            metadata=ObjectMeta(name=_name(said), namespace=said.object.namespace),
            involved_object=said.object,
            type=said.type,
            reason=said.reason,
            message=said.message,
            source=EventSource(component=COMPONENT, host=self._node_name),
            count=times,
            first_timestamp=self._now(),
            last_timestamp=self._now(),
            reporting_component=COMPONENT,
            reporting_instance=self._node_name,
        )

    async def _forget_old(self) -> None:
        """Delete events that nothing was added to for a lifetime; those of earlier processes start a new one."""
        loop = asyncio.get_running_loop()
        for event in (await self._api.list(EVENT)).items:
            if event.reporting_component == COMPONENT:
                self._written[event.metadata.namespace, event.metadata.name] = loop.time()
        while True:
            await asyncio.sleep(max(self._lifetime / 10, 1.0))
            old = [key for key, at in self._written.items() if loop.time() - at > self._lifetime]
            for namespace, name in old:
                del self._written[namespace, name]
                with contextlib.suppress(ApiError):
                    await self._api.delete(EVENT, namespace, name)


def _name(said: Said) -> str:
    """The same for the same words, so that an earlier process's event is found again."""
    text = "\0".join((said.object.uid, said.type, said.reason, said.message))
    return f"{said.object.name[:200]}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
