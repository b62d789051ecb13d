"""Events in a cluster: created once, then patched. None is ever read or listed, for a node may not."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from mooring.kube.api import Api, ApiError, NotFound
from mooring.kube.objects.kinds import EVENT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import Event, EventSource
from mooring.observe.event_correlator import EventCorrelator, Sighting
from mooring.observe.events import COMPONENT, Said

log = logging.getLogger(__name__)

_NAMESPACE_OF_NOBODY = "default"  # where events of objects live that are in no namespace
_EARLY = 0.01  # seconds that a timer may be early


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a server that does not answer is bothered, and how much may wait for it meanwhile."""

    tries: int = 12
    pause: float = 10.0
    waiting: int = 1000


USUAL_PATIENCE = Patience()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Write:
    """An Event that is not as it should read yet."""

    sighting: Sighting
    is_new: bool  # to the server, as far as we know
    tries: int = 0
    due: float = 0.0  # on the loop's clock


class ClusterEvents:
    """An `EventWriter` for an API server, in the name of a component.

    Writes one after the other; one that fails is tried again beside the rest.
    Newer words about the same Event take the place of older ones that still wait, so each waits once.
    """

    def __init__(
        self,
        api: Api,
        *,
        node_name: str,
        component: str = COMPONENT,
        nanoseconds: Callable[[], int] = time.time_ns,
        random_source: random.Random,
        patience: Patience = USUAL_PATIENCE,
    ) -> None:
        self._api, self._node_name, self._component = api, node_name, component
        self._nanoseconds, self._random, self._patience = nanoseconds, random_source, patience
        self._correlator = EventCorrelator()
        self._stamp = 0
        self._waiting: dict[tuple[str, str], _Write] = {}  # by namespace and name of the Event
        self._filled = asyncio.Event()
        self._is_full = False
        self.dropped = 0  # because too many waited, the server refused them or was away for too long

    def write(self, said: Said) -> None:
        self._stamp = max(self._nanoseconds(), self._stamp + 1)
        sighting = self._correlator.observe(said, at=asyncio.get_running_loop().time(), stamp=self._stamp)
        if sighting is None:
            return
        key = (said.object.namespace or _NAMESPACE_OF_NOBODY, sighting.name)
        waits = self._waiting.get(key)
        if waits is not None:
            self._waiting[key] = replace(waits, sighting=sighting)
        elif len(self._waiting) < self._patience.waiting:
            self._waiting[key] = _Write(sighting=sighting, is_new=sighting.count == 1)
            self._is_full = False
        else:
            self._drop_for_want_of_room()
        self._filled.set()

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._filled.clear()
            soon = clock() + _EARLY
            due = next((key for key, write in self._waiting.items() if write.due <= soon), None)
            if due is not None:
                await self._attempt(due, self._waiting.pop(due))
                continue
            pause = min((write.due for write in self._waiting.values()), default=None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(pause):
                    await self._filled.wait()

    async def _attempt(self, key: tuple[str, str], write: _Write) -> None:
        try:
            if write.is_new or not await self._patch(key, write.sighting):
                await self._api.create(self._event(key, write.sighting))
        except ApiError as error:
            if (error.code < 500 and error.code != 429) or write.tries + 1 >= self._patience.tries:
                self._drop(key, str(error))
            else:
                self._try_later(key, write)

    async def _patch(self, key: tuple[str, str], seen: Sighting) -> bool:
        """Whether the Event was still there: a server forgets them after a while."""
        change = {"count": seen.count, "lastTimestamp": _timestamp(seen.last), "message": seen.said.message}
        try:
            await self._api.patch(EVENT, *key, change)
        except NotFound:
            return False
        return True

    def _try_later(self, key: tuple[str, str], failed: _Write) -> None:
        """The first pause is of random length, so that the nodes of a cluster do not all come back at once."""
        pause = self._patience.pause * (self._random.random() if not failed.tries else 1.0)
        due = asyncio.get_running_loop().time() + pause
        newer = self._waiting.get(key, failed)
        # A server that gave no answer may have it all the same.
        self._waiting[key] = replace(newer, is_new=False, tries=failed.tries + 1, due=due)

    def _drop_for_want_of_room(self) -> None:
        self.dropped += 1
        if not self._is_full:
            self._is_full = True
            log.warning("%d events wait for the API server: further ones are not recorded", len(self._waiting))

    def _drop(self, key: tuple[str, str], why: str) -> None:
        self.dropped += 1
        log.warning("the event %s/%s is not recorded: %s", *key, why)

    def _event(self, key: tuple[str, str], seen: Sighting) -> Event:
        said = seen.said
        return Event(
            metadata=ObjectMeta(name=key[1], namespace=key[0]),
            involved_object=said.object,
            type=said.type,
            reason=said.reason,
            message=said.message,
            source=EventSource(component=self._component, host=self._node_name),
            count=seen.count,
            first_timestamp=_timestamp(seen.first),
            last_timestamp=_timestamp(seen.last),
            reporting_component=self._component,
            reporting_instance=self._node_name,
        )


def _timestamp(nanoseconds: int) -> str:
    return datetime.fromtimestamp(nanoseconds // 1_000_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
