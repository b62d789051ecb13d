"""The ClusterTrustBundles of a cluster, which not every API server has, and which few pods ask for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from mooring.errors import NotYet, Refused
from mooring.kube.api import ApiError, ListerWatcher
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer import SharedIndexInformer
from mooring.kube.listener import Handler
from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.kinds import CLUSTER_TRUST_BUNDLE, Kind, ObjectT

log = logging.getLogger(__name__)

_RETRY = 5.0
_LOOK_AGAIN = 600.0
"""Seconds until a server that has no bundles is asked once more: it may have been brought up to date."""


class Discovery(ListerWatcher, Protocol):
    """A server that can be asked what it has."""

    async def served(self, kind: Kind[ObjectT]) -> Kind[ObjectT] | None: ...


class TrustBundles:
    """Bundles, read from the first time on that a pod needs one. What was known before a start counts until then.

    `changed` is told the name of each that changes, and an empty one when it is known for the first time what there is.
    """

    def __init__(self, server: Discovery) -> None:
        self.changed: Callable[[str], None] = lambda name: None
        self._server = server
        self._needed = asyncio.Event()
        self._before: dict[str, ClusterTrustBundle] = {}
        self._informer: SharedIndexInformer[ClusterTrustBundle] | None = None
        self._served = True  # as far as is known
        self._why = "the API server was asked"
        self._handlers: list[Handler[ClusterTrustBundle]] = [
            Handler(
                on_add=lambda each, is_initial: self.changed(each.metadata.name),
                on_update=lambda old, new: self.changed(new.metadata.name),
                on_delete=lambda each: self.changed(_unwrapped(each).metadata.name),
            )
        ]

    def add_event_handler(self, handler: Handler[ClusterTrustBundle]) -> None:
        """Let somebody else be told as well. Call it before `run`."""
        self._handlers.append(handler)

    def seed(self, known: Iterable[ClusterTrustBundle]) -> None:
        self._before = {each.metadata.name: each for each in known}

    def need(self) -> None:
        """A pod names a bundle: from now on they are read."""
        self._needed.set()

    # -- look-ups --------------------------------------------------------------------------------------------------
    def get(self, name: str) -> ClusterTrustBundle | None:
        return next((each for each in self.list() if each.metadata.name == name), None)

    def list(self) -> list[ClusterTrustBundle]:
        """All bundles. `NotYet` while the server has not answered, `Refused` when it has none to give."""
        if self._informer is not None and self._informer.has_synced:
            return list(self._informer.indexer.list())
        if self._before:
            return list(self._before.values())
        what = "cannot read ClusterTrustBundles"
        if not self._served:
            next_step = "Switch on certificates.k8s.io and the feature ClusterTrustBundle there"
            raise Refused(what, why="the API server does not serve them", next_step=next_step)
        raise NotYet(what, why=self._why, next_step="It goes on by itself with the answer")

    # -- reading ---------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Serve until cancelled; nothing is asked before somebody needs a bundle."""
        await self._needed.wait()
        kind = await self._find()
        informer = SharedIndexInformer(self._server, kind)
        for handler in self._handlers:
            informer.add_event_handler(handler)
        self._informer = informer
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(informer.run(), name="informer of ClusterTrustBundles")
            await informer.wait_synced()
            self._before = {}
            self.changed("")

    async def _find(self) -> Kind[ClusterTrustBundle]:
        """The kind as this server has it, once it has."""
        while True:
            pause = _LOOK_AGAIN
            try:
                kind = await self._server.served(CLUSTER_TRUST_BUNDLE)
            except ApiError as error:
                self._why, pause = f"the API server does not tell: {error.why}", max(_RETRY, error.retry_after)
            else:
                if kind is not None:
                    self._served = True
                    return kind
                if self._served:
                    log.warning("pods ask for ClusterTrustBundles, and the API server does not serve them")
                self._served = False
                self.changed("")
            await asyncio.sleep(pause)


def _unwrapped(each: ClusterTrustBundle | Tombstone[ClusterTrustBundle]) -> ClusterTrustBundle:
    return each.object if isinstance(each, Tombstone) else each
