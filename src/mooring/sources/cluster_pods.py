"""The pods of a cluster that are bound to this node, each told of once what it needs is known."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.object_tracking import ObjectKey
from mooring.kube.objects.kinds import POD, Kind
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.objects.pod import Pod
from mooring.plugins.interface import ObjectRef
from mooring.sources.cluster_objects import ClusterObjects
from mooring.sources.informed import PodSink
from mooring.world.names import PodUid

MIRROR = "kubernetes.io/config.mirror"
"""Annotation of a pod in the API that only shows one which the node has from a manifest."""

_PATIENCE = 2.0
"""Seconds for which a pod is held back while the API server is asked for what it needs."""

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
        self.heard = asyncio.Event()
        self._pods: dict[PodUid, Pod] = {}
        self._told: set[PodUid] = set()
        self._held: set[PodUid] = set()
        self._none_held = asyncio.Event()
        self._none_held.set()
        self._tasks = asyncio.TaskGroup()
        objects.changed = self._object_changed

    async def run(self) -> None:
        """Tell of pods from what was known before, if anything was; `heard` comes with the server's own answer."""
        async with self._tasks:
            await self._factory.wait_for_state()
            for kind in self._objects.informed:
                self._follow(kind)
            pods = self._factory.informer(POD).add_event_handler(
                Handler(
                    on_add=lambda pod, is_initial: self.pod_changed(pod),
                    on_update=self._replaced,
                    on_delete=lambda pod: self.pod_removed(PodUid(_unwrapped(pod).metadata.uid)),
                )
            )
            await self._factory.wait_for_cache_sync()
            await pods.wait_synced()
            await self._none_held.wait()
            self.heard.set()
            await asyncio.Event().wait()

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
        self._pods[uid] = pod
        keys = self._ask_for(uid)
        if uid in self._told or self._objects.are_known(keys):
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
        """Return when all that a pod needs is known, also what only that tells of; or after a while."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while not self._objects.are_known(keys := self._ask_for(uid)):
                    await self._objects.tracked.until_known(keys, timeout=_PATIENCE)

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
        ref = ObjectRef(key.kind.name, key.namespace, key.name)
        owners = [PodUid(each) for each in self._objects.tracked.owners(key)]
        unknown = [uid for uid in owners if not self._objects.are_known(self._ask_for(uid)) and uid in self._told]
        if unknown:
            self._tasks.create_task(self._tell_later(ref, unknown), name=f"what {key} tells of")
        else:
            self._sink.object_changed(ref)

    async def _tell_later(self, ref: ObjectRef, owners: list[PodUid]) -> None:
        for uid in owners:
            await self._until_known(uid)
        self._sink.object_changed(ref)

    def _follow(self, kind: Kind[Any]) -> None:
        def tell(obj: KubernetesObject) -> None:
            self._sink.object_changed(ObjectRef(kind.name, obj.metadata.namespace, obj.metadata.name))

        self._factory.informer(kind).add_event_handler(
            Handler(
                on_add=lambda obj, is_initial: None if is_initial else tell(obj),
                on_update=lambda old, new: tell(new) if old.metadata != new.metadata else None,
                on_delete=lambda obj: tell(_unwrapped(obj)),
            )
        )


def _unwrapped(obj: Any) -> Any:
    return obj.object if isinstance(obj, Tombstone) else obj
