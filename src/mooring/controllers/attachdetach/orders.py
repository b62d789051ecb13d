"""Writing VolumeAttachments in the API, and waiting for what becomes of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mooring.engine.waiters import Waiters
from mooring.kube.api import AlreadyExists, Api, NotFound
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import VOLUME_ATTACHMENT
from mooring.kube.objects.storage import VolumeAttachment

T = TypeVar("T")


class ApiAttachmentOrders:
    """Orders of this node. What they wait for an informer tells; nothing is polled."""

    def __init__(self, api: Api, factory: SharedInformerFactory) -> None:
        self._api = api
        self._informer = factory.informer(VOLUME_ATTACHMENT)
        self._waiters = Waiters()
        self._ordered: dict[str, int] = {}  # versions of own writes of which the cache need not know yet
        self._informer.add_event_handler(
            Handler(
                on_add=lambda each, is_initial: self._waiters.notify(each.metadata.name),
                on_update=lambda old, new: self._waiters.notify(new.metadata.name),
                on_delete=lambda each: self._gone(each.object if isinstance(each, Tombstone) else each),
            )
        )

    def _gone(self, attachment: VolumeAttachment) -> None:
        self._ordered.pop(attachment.metadata.name, None)
        self._waiters.notify(attachment.metadata.name)

    def _is_behind(self, name: str) -> bool:
        """Whether the cache may show what was there before an own write.

        It has one version as a whole: what it does not show once it has got beyond the write is gone.
        """
        written = self._ordered.get(name)
        if written is None:
            return False
        if int(self._informer.resource_version or 0) < written:
            return True
        del self._ordered[name]
        return False

    async def order(self, attachment: VolumeAttachment) -> None:
        name = attachment.metadata.name
        try:
            written = await self._api.create(attachment)
        except AlreadyExists:
            return
        self._ordered[name] = int(written.metadata.resource_version)

    async def cancel(self, name: str) -> None:
        try:
            written = await self._api.delete(VOLUME_ATTACHMENT, "", name)
        except NotFound:
            self._ordered.pop(name, None)
            return
        if written is not None and written.metadata.finalizers:
            self._ordered[name] = int(written.metadata.resource_version)
        else:
            self._ordered.pop(name, None)  # it is gone with this

    async def until(self, name: str, answer: Callable[[VolumeAttachment | None], T | None], timeout: float) -> T:
        """Asks only what the cache shows after own writes, the events of which may come before their answers."""

        def ask() -> T | None:
            return None if self._is_behind(name) else answer(self._informer.indexer.get_by_key(name))

        return await self._waiters.until(name, ask, timeout=timeout)
