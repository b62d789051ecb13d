"""What a node and whoever attaches volumes to it tell each other in the Node's status: in use here, attached there."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from mooring.kube.api import UNANSWERED, Api, ApiError, Conflict, NotFound
from mooring.kube.backoff import Backoff, BackoffSettings
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import NODE
from mooring.kube.objects.node import Node
from mooring.world.names import VolumeName

log = logging.getLogger(__name__)

MANAGED = "volumes.kubernetes.io/controller-managed-attach-detach"
"""Annotation of a Node to which a controller attaches volumes."""

_PAUSES = BackoffSettings(base=0.2, cap=10.0, jitter=0.5)


class VolumesInUse(Protocol):
    """Who knows what is in use, and is told what the API server knows of it."""

    def get_volumes_in_use(self) -> list[VolumeName]: ...

    def mark_volumes_as_reported_in_use(self, names: Iterable[VolumeName]) -> None: ...

    def attachments_told(self, attached: Mapping[VolumeName, str]) -> None: ...

    def status_heard(self) -> None: ...


class NodeReporter:
    """Keeps `volumesInUse` right, one write at a time, and tells what `volumesAttached` says.

    A write's answer shows both lists as they were at once: whoever detaches takes a volume off the one before it looks
    at the other, so a volume that the answer shows on both will not be detached before this node lets go of it.
    While no server has told since the start, what it showed last counts: only this node takes a volume off the first
    list, and has not.
    """

    def __init__(
        self,
        api: Api,
        factory: SharedInformerFactory,
        node_name: str,
        volumes: VolumesInUse,
        *,
        managed: bool,
        attached: Callable[[Mapping[VolumeName, str]], None],
    ) -> None:
        self._api = api
        self._name = node_name
        self._volumes = volumes
        self._managed = managed  # by whoever attaches to this node: then the Node says so
        self._tell_attached = attached
        self._random = random.Random()
        self._wake = asyncio.Event()
        self._pauses: Backoff | None = None  # between tries, while one fails
        self._newest = 0  # resourceVersion
        self._last: Node | None = None
        self._told = False  # by the server, since the start
        self.begun = asyncio.Event()  # it was written since the start, to the Node that is there
        self.begun_changed: Callable[[], None] = lambda: None
        factory.informer(NODE).add_event_handler(
            Handler(
                on_add=lambda node, is_initial: self._seen(node),
                on_update=lambda old, new: self._seen(new),
                on_delete=lambda node: self._gone(),
            )
        )

    def use_changed(self) -> None:
        """Something may be in use that was not, or the other way round."""
        self._wake.set()

    def hurry(self) -> None:
        """Write now what could not be written: the server serves again."""
        if self._pauses is not None:
            self._pauses.start_over()

    def _seen(self, node: Node) -> None:
        """Learn what the server says of this node; a list in use that somebody else wrote is written again."""
        version = int(node.metadata.resource_version or 0)
        if version < self._newest:
            return
        if self._last is not None and self._last.metadata.uid != node.metadata.uid:
            self._gone()
        self._newest, self._last = version, node
        attached = {VolumeName(each.name): each.device_path for each in node.status.volumes_attached}
        self._tell_attached(attached)
        self._volumes.attachments_told(attached)
        if not self._is_right(node):
            self._wake.set()
            self.hurry()  # it may wait for a Node that was not there

    def _gone(self) -> None:
        """Nobody knows any more what is in use here: the Node that said so was deleted."""
        if self.begun.is_set():
            self.begun.clear()
            self._volumes.mark_volumes_as_reported_in_use(())
            self.begun_changed()

    def _is_right(self, node: Node) -> bool:
        has = node.metadata.annotations.get(MANAGED) == "true"
        return has is self._managed and list(node.status.volumes_in_use) == self._volumes.get_volumes_in_use()

    async def run(self) -> None:
        """Write as things change. Call it once all that was on disk is known again, else volumes would be given up."""
        self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            await self._report_at_last()

    async def _report_at_last(self) -> None:
        """Write, however often it takes; the trouble is told once."""
        pauses = self._pauses = Backoff(_PAUSES, self._random)
        told, at_least = False, 0.0
        while True:
            try:
                await self._report()
                return
            except NotFound:
                at_least, words = 0.0, "there is none yet, and nothing is attached to it before"
            except ApiError as error:
                self._count_on_last(error)
                at_least, words = error.retry_after, str(error)
            if not told:
                log.warning("cannot write what is in use on Node %r, and goes on trying: %s", self._name, words)
            told = True
            await pauses.wait(at_least=at_least)

    async def _report(self) -> None:
        newest = self._newest
        node = await self._api.get(NODE, "", self._name)
        if int(node.metadata.resource_version or 0) < newest:
            self._newest = 0  # no answer is older than what was known before, unless a backup was restored
        node = await self._annotate(node)
        names = self._volumes.get_volumes_in_use()
        if list(node.status.volumes_in_use) != names:
            change = {"status": {"volumesInUse": list(names)}}
            node = await self._api.patch(NODE, "", self._name, change, subresource="status")
        self._told = True
        self._seen(node)
        self._volumes.status_heard()
        self._volumes.mark_volumes_as_reported_in_use(names)
        if not self.begun.is_set():
            self.begun.set()
            self.begun_changed()

    def _count_on_last(self, error: ApiError) -> None:
        if isinstance(error, UNANSWERED) and not self._told and self._last is not None:
            known = frozenset(self._last.status.volumes_in_use)
            self._volumes.mark_volumes_as_reported_in_use([VolumeName(each) for each in sorted(known)])

    async def _annotate(self, node: Node) -> Node:
        """Say whether a controller attaches here. Nothing else of the annotations is touched."""
        if (node.metadata.annotations.get(MANAGED) == "true") is self._managed:
            return node
        change = {"metadata": {"annotations": {MANAGED: "true" if self._managed else None}}}
        try:
            return await self._api.patch(NODE, "", self._name, change)
        except Conflict:
            self._wake.set()
            return node
