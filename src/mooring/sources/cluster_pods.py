"""The pods of a cluster that are bound to this node, each told of once what it needs is known."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer import SharedIndexInformer
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.object_tracking import ObjectKey
from mooring.kube.objects.kinds import CONFIG_MAP, POD, SECRET
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.objects.pod import MIRROR, Pod
from mooring.plugins.interface import ObjectRef
from mooring.plugins.trust_bundles import KIND as TRUST_BUNDLE
from mooring.sources.cluster_objects import ClusterObjects
from mooring.sources.informed import PodSink
from mooring.world.names import PodUid

_PATIENCE = 2.0
"""Seconds for which a pod is held back while the API server is asked for what it needs."""

_CONTENT = (CONFIG_MAP, SECRET)
"""Kinds that tell of nothing else that pods need."""

References = Callable[[Pod], Iterable[ObjectRef]]


class ClusterPods:
    """Tells a sink of pods and of every change to what they need; nothing else is asked of the API server.

    A new pod is held back a moment for the answers, so that it does not begin with a complaint. `pod_changed` and
    `pod_removed` take the pods that this node has from elsewhere.
    """

    def __init__(
        self,
        factory: SharedInformerFactory,
        objects: ClusterObjects,
        sink: PodSink,
        references_of: References,
    ) -> None:
        self._factory = factory
        self._objects = objects
        self._sink = sink
        self._references_of = references_of
        self.known = asyncio.Event()  # pods have been told of, be it those of before the start
        self.heard = asyncio.Event()
        self.listed = asyncio.Event()  # the server has said which pods there are
        self.object_told: Callable[[ObjectKey], None] = lambda key: None  # each object that the server told of
        self._pods: dict[PodUid, Pod] = {}
        self._told: set[PodUid] = set()
        self._held: set[PodUid] = set()
        self._none_held = asyncio.Event()
        self._none_held.set()
        self._later: set[ObjectKey] = set()  # objects that are told of once more is known
        self._tasks = asyncio.TaskGroup()
        objects.changed = self._object_changed
        objects.trust_bundles.changed = self._bundle_changed

    async def run(self) -> None:
        """Tell of pods from what was known before, if anything was; `heard` comes with the server's own answer."""
        async with self._tasks:
            await self._factory.wait_for_state()
            for each in self._objects.informed:
                self._follow(each)
            informer = self._factory.informer(POD)
            pods = informer.add_event_handler(
                Handler(
                    on_add=lambda pod, is_initial: self.pod_changed(pod),
                    on_update=self._replaced,
                    on_delete=lambda pod: self.pod_removed(PodUid(_unwrapped(pod).metadata.uid)),
                )
            )
            before = (
                informer.indexer.list()
            )  # the handler hears of them later, perhaps with the server's own answer only
            for pod in before:
                self.pod_changed(pod)
            self._tasks.create_task(self._list(before), name="which pods there are")
            await self._none_held.wait()
            self.known.set()
            await self._factory.wait_for_cache_sync()
            await pods.wait_synced()
            await self._none_held.wait()
            self.heard.set()
            await asyncio.Event().wait()

    async def _list(self, before: Sequence[Pod]) -> None:
        """Forget the pods that the server does not have any more; from then on what pods need may be asked for."""
        await self._factory.wait_for_cache_sync()
        there = {pod.metadata.uid for pod in self._factory.informer(POD).indexer.list()}
        for pod in before:
            if pod.metadata.uid not in there:
                self.pod_removed(PodUid(pod.metadata.uid))
        self.listed.set()

    # -- pods ------------------------------------------------------------------------------------------------------
    def _replaced(self, old: Pod, new: Pod) -> None:
        """A pod deleted and made anew while nobody looked comes as one update with another UID."""
        if old.metadata.uid != new.metadata.uid:
            self.pod_removed(PodUid(old.metadata.uid))
        self.pod_changed(new)

    def pod_changed(self, pod: Pod) -> None:
        if MIRROR in pod.metadata.annotations:
            return
        uid = PodUid(pod.metadata.uid)
        if self._pods.get(uid) is pod:
            return  # told of when the work began, and again as the first news of the informer
        self._pods[uid] = pod
        self._ask_for(uid)
        if uid in self._told or self._objects.tracked.is_served(uid):
            self._tell(uid)
        elif uid not in self._held:
            self._held.add(uid)
            self._none_held.clear()
            self._tasks.create_task(self._hold_back(uid), name=f"what pod {pod.key} needs")

    def pod_removed(self, uid: PodUid) -> None:
        if self._pods.pop(uid, None) is None:
            return
        self._objects.tracked.need(uid, ())
        if uid in self._told:
            self._told.discard(uid)
            self._sink.pod_removed(uid)

    def attachments_told(self, attached: frozenset[str]) -> None:
        """Learn which VolumeAttachments are there, as the node's status says: those may be asked for."""
        if attached == self._objects.attached:
            return
        self._objects.attached = attached
        for uid in list(self._pods):
            self._ask_for(uid)

    def _ask_for(self, uid: PodUid) -> frozenset[ObjectKey]:
        """Ask for all that a pod needs, as far as can be told now; what it is."""
        pod = self._pods.get(uid)
        keys = self._objects.keys_of(self._references_of(pod)) if pod is not None else frozenset()
        self._objects.tracked.need(uid, keys)
        return keys

    async def _until_known(self, uid: PodUid) -> None:
        """Return when all that a pod needs is served, also what only that tells of; or after a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                self._ask_for(uid)
                while not self._objects.tracked.is_served(uid):
                    await self._objects.tracked.until_served(uid)
                    self._ask_for(uid)

    async def _hold_back(self, uid: PodUid) -> None:
        await self._until_known(uid)
        self._held.discard(uid)
        self._tell(uid)
        if not self._held:
            self._none_held.set()

    def _tell(self, uid: PodUid) -> None:
        pod = self._pods.get(uid)
        if pod is not None:
            self._told.add(uid)
            self._sink.pod_changed(pod)

    # -- what pods need --------------------------------------------------------------------------------------------
    def _object_changed(self, key: ObjectKey) -> None:
        """Tell of an object; before that ask for what only it tells of, such as the volume of a claim."""
        self.object_told(key)
        unknown = [] if key.kind in _CONTENT else self._ask_for_what_it_tells_of(key)
        if not unknown:
            self._sink.object_changed(_ref(key))
        elif key not in self._later:
            self._later.add(key)
            self._tasks.create_task(self._tell_later(key, unknown), name=f"what {key} tells of")

    def _ask_for_what_it_tells_of(self, key: ObjectKey) -> list[PodUid]:
        """The pods that were told of and need what is not known yet."""
        owners = [PodUid(each) for each in self._objects.tracked.owners(key)]
        return [uid for uid in owners if not self._objects.are_known(self._ask_for(uid)) and uid in self._told]

    async def _tell_later(self, key: ObjectKey, owners: list[PodUid]) -> None:
        async with asyncio.TaskGroup() as waiting:
            for uid in owners:
                waiting.create_task(self._until_known(uid))
        self._later.discard(key)
        self._sink.object_changed(_ref(key))

    def _bundle_changed(self, name: str) -> None:
        """Tell of a bundle; of all that are named where it is only known that they can be looked up now."""
        named = {ref for pod in self._pods.values() for ref in self._references_of(pod) if ref.kind == TRUST_BUNDLE}
        for ref in [ObjectRef(TRUST_BUNDLE, "", name)] if name else sorted(named, key=str):
            self._sink.object_changed(ref)

    def _follow(self, informer: SharedIndexInformer[Any]) -> None:
        def tell(obj: KubernetesObject) -> None:
            self._sink.object_changed(ObjectRef(informer.kind.name, obj.metadata.namespace, obj.metadata.name))

        informer.add_event_handler(
            Handler(
                on_add=lambda obj, is_initial: tell(obj),  # the first list may tell what the last view did not
                on_update=lambda old, new: tell(new) if old.metadata != new.metadata else None,
                on_delete=lambda obj: tell(_unwrapped(obj)),
            )
        )


def _ref(key: ObjectKey) -> ObjectRef:
    return ObjectRef(key.kind.name, key.namespace, key.name)


def _unwrapped(obj: Any) -> Any:
    return obj.object if isinstance(obj, Tombstone) else obj
