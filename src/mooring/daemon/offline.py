"""Keeping a node's last view of its cluster, and beginning with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mooring.controllers.kept_tokens import KeptTokens
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.object_tracking import ObjectKey
from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.kinds import CSI_DRIVER, NODE, POD, SECRET, Kind, kind_of
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.offline_view import OfflineView
from mooring.sources.cluster_objects import SINGLE_KINDS, ClusterObjects
from mooring.world.names import PodUid

_WHOLE: tuple[Kind[Any], ...] = (POD, NODE, CSI_DRIVER)
_GATHER = 1.0
"""Seconds in which pods that leave are gathered before what only they needed is dropped."""


class KeptView:
    """Notes whatever the node is told, and drops what nobody needs any more."""

    def __init__(
        self,
        view: OfflineView,
        factory: SharedInformerFactory,
        objects: ClusterObjects,
        tokens: KeptTokens,
        *,
        is_known: Callable[[PodUid], bool],
    ) -> None:
        self._view, self._objects, self._tokens, self._is_known = view, objects, tokens, is_known
        self._surplus = asyncio.Event()
        self._begin(factory)
        for kind in _WHOLE:
            factory.informer(kind).add_event_handler(view.handler())
        objects.trust_bundles.add_event_handler(_typed(view.handler()))
        tokens.note, tokens.forget = view.note, lambda kept: view.forget(SECRET.name, *kept)

    def _begin(self, factory: SharedInformerFactory) -> None:
        """Let everything begin with what was known before."""
        known = self._tokens.begin_with(self._view.load())
        whole = {kind.name for kind in _WHOLE}
        factory.seed([each for each in known if kind_of(each).name in whole])
        self._objects.tracked.seed([each for each in known if kind_of(each).name in SINGLE_KINDS])
        self._objects.trust_bundles.seed([each for each in known if isinstance(each, ClusterTrustBundle)])

    def object_changed(self, key: ObjectKey) -> None:
        """An object that is followed by itself was read, changed or removed."""
        found = self._objects.tracked.get(key)
        if found is not None:
            self._view.note(found)
        else:
            self._view.forget(key.kind.name, key.namespace, key.name)

    def pod_removed(self) -> None:
        """Something may be needed no more."""
        self._surplus.set()

    async def run(self, heard: asyncio.Event) -> None:
        """Write until cancelled. What only earlier pods needed is dropped once it is known which pods there are."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._view.run(), name="writing the last view")
            await heard.wait()
            self._objects.tracked.forget_seeds()
            self._surplus.set()
            while True:
                await self._surplus.wait()
                await asyncio.sleep(_GATHER)
                self._surplus.clear()
                self._drop_surplus()

    def _drop_surplus(self) -> None:
        needed: dict[str, set[tuple[str, str]]] = {name: set() for name in SINGLE_KINDS}
        for key in self._objects.tracked:
            needed[key.kind.name].add((key.namespace, key.name))
        self._tokens.keep_only(self._is_known)
        needed[SECRET.name] |= self._tokens.kept()
        for kind, names in needed.items():
            self._view.keep_only(kind, names)

    async def close(self) -> None:
        await self._view.close()


def _typed(handler: Handler[KubernetesObject]) -> Handler[ClusterTrustBundle]:
    return Handler(on_add=handler.on_add, on_update=handler.on_update, on_delete=handler.on_delete)
