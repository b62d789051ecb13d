"""Mirror pods: what a cluster sees of pods that a node has from manifests of its own."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from mooring.kube.api import AlreadyExists, Api, ApiError, Conflict, NotFound, Preconditions
from mooring.kube.backoff import Backoff, BackoffSettings
from mooring.kube.codec import encode
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import NODE, POD
from mooring.kube.objects.meta import ObjectMeta, OwnerReference
from mooring.kube.objects.node import Node
from mooring.kube.objects.pod import MIRROR, Pod
from mooring.world.findings import Finding
from mooring.world.names import PodUid

log = logging.getLogger(__name__)

_HASH, _SOURCE = "kubernetes.io/config.hash", "kubernetes.io/config.source"
_OURS = "mooring.dev/mirror"
"""Annotation of mirrors that mooring has made: those of a kubelet of the same name are left alone."""
_TOLERATES = {"operator": "Exists", "effect": "NoExecute"}  # it runs here whatever the cluster thinks of the node
_PAUSES = BackoffSettings(base=0.5, cap=60.0, jitter=0.5)


@dataclass(frozen=True, slots=True)
class Create:
    """A mirror that is not there."""

    pod: Pod


@dataclass(frozen=True, slots=True)
class Remove:
    """A mirror that shows what is no more; what takes its place is made once it is gone."""

    pod: Pod


Write = Create | Remove


def mirror_of(pod: Pod, node: Node) -> Pod:
    """What a cluster is shown of a pod: under a name that no other node gives, and without what only a cluster has."""
    name = node.metadata.name
    owner = OwnerReference(api_version="v1", kind="Node", name=name, uid=node.metadata.uid, controller=True)
    meta = ObjectMeta(
        name=f"{pod.metadata.name}-{name}",
        namespace=pod.metadata.namespace,
        labels=pod.metadata.labels,
        annotations=pod.metadata.annotations,
    )
    tolerations = (*pod.spec.tolerations, _TOLERATES)
    spec = replace(pod.spec, node_name=name, service_account_name="", service_account="", tolerations=tolerations)
    bare = Pod(metadata=meta, spec=spec)
    digest = hashlib.sha256(encode(bare)).hexdigest()[:32]
    marks = {**meta.annotations, _HASH: digest, MIRROR: digest, _SOURCE: "file", _OURS: "true"}
    return replace(bare, metadata=replace(meta, annotations=marks, owner_references=(owner,)))


def due(wanted: Mapping[str, Pod], seen: Iterable[Pod], node: Node) -> list[Write]:
    """What is to be written now so that just the mirrors that are wanted, by `namespace/name`, are there.

    Pods that are no mirrors of mooring's are left alone, whatever they are called.
    """
    by_key = {pod.key: pod for pod in seen}
    missing: list[Write] = [Create(wanted[key]) for key in sorted(wanted.keys() - by_key.keys())]
    mirrors = (by_key[key] for key in sorted(by_key) if _is_mirror_of(by_key[key], node))
    return [*missing, *(Remove(pod) for pod in mirrors if not _shows(pod, wanted.get(pod.key)))]


def _is_mirror_of(pod: Pod, node: Node) -> bool:
    owners = pod.metadata.owner_references
    return {MIRROR, _OURS} <= pod.metadata.annotations.keys() and any(
        owner.kind == "Node" and owner.name == node.metadata.name for owner in owners
    )


def _shows(found: Pod, wanted: Pod | None) -> bool:
    """Whether a mirror is there to stay, and shows what it should."""
    if wanted is None or found.metadata.deletion_timestamp is not None:
        return False
    same = found.metadata.annotations[MIRROR] == wanted.metadata.annotations[MIRROR]
    return same and found.metadata.owner_references[0].uid == wanted.metadata.owner_references[0].uid


class MirrorPods:
    """Keeps the mirrors of a node right. Tell of pods from manifests with `pod_changed` and `pod_removed`."""

    def __init__(
        self, api: Api, factory: SharedInformerFactory, node_name: str, *, random_source: random.Random
    ) -> None:
        self._api, self._node_name, self._random = api, node_name, random_source
        self._pods, self._nodes = factory.informer(POD), factory.informer(NODE)
        self._own: dict[PodUid, Pod] = {}
        self._wake = asyncio.Event()
        self._pauses: Backoff | None = None
        self._made: set[str] = set()  # mirrors that the server has yet to tell of
        self._troubles: dict[str, ApiError] = {}  # by the mirror
        self._pods.add_event_handler(
            Handler(
                on_add=lambda pod, is_initial: self._seen(pod),
                on_update=lambda old, new: self._seen(new),
                on_delete=lambda pod: self._seen(pod.object if isinstance(pod, Tombstone) else pod),
            )
        )
        self._nodes.add_event_handler(
            Handler(
                on_add=lambda node, is_initial: self._wake.set(),
                on_update=lambda old, new: self._wake.set() if old.metadata.uid != new.metadata.uid else None,
                on_delete=lambda node: None,
            )
        )

    def pod_changed(self, pod: Pod) -> None:
        self._own[PodUid(pod.metadata.uid)] = pod
        self._wake.set()

    def pod_removed(self, uid: PodUid) -> None:
        if self._own.pop(uid, None) is not None:
            self._wake.set()

    def hurry(self) -> None:
        """Write now what could not be written: the server serves again."""
        self._pauses = None
        self._wake.set()

    def findings(self) -> list[Finding]:
        """Mirrors that the server does not take."""
        return [
            Finding(
                kind="manifest",
                where=key,
                what=f"the cluster cannot be shown this pod from a manifest: {error.why}",
                next_step="Correct the manifest or create its namespace; the pod has its volumes all the same",
            )
            for key, error in sorted(self._troubles.items())
            if error.answered
        ]

    def _seen(self, pod: Pod) -> None:
        self._made.discard(pod.key)
        if MIRROR in pod.metadata.annotations:
            self._wake.set()

    async def run(self) -> None:
        """Write until cancelled. Call it once all manifests and the cluster's pods are known."""
        while True:
            self._wake.clear()
            if await self._write_due():
                self._pauses = None
                await self._wake.wait()
            else:
                self._pauses = self._pauses or Backoff(_PAUSES, self._random)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._pauses.step()):
                        await self._wake.wait()  # what comes meanwhile does not wait for what is refused

    async def _write_due(self) -> bool:
        """Whether all went well."""
        node = self._nodes.indexer.get_by_key(self._node_name)
        if node is None:
            return True  # it is told of when it comes
        mirrors = (mirror_of(pod, node) for pod in self._own.values())
        writes = due({mirror.key: mirror for mirror in mirrors}, self._pods.indexer.list(), node)
        troubles: dict[str, ApiError] = {}
        for write in writes:
            try:
                await self._carry_out(write)
            except ApiError as error:
                troubles[write.pod.key] = error
                if write.pod.key not in self._troubles:
                    log.warning("cannot show pod %s to the cluster, and goes on trying: %s", write.pod.key, error.why)
        self._troubles = troubles
        return not troubles

    async def _carry_out(self, write: Write) -> None:
        """What another write has brought about already is done, but for a name that a pod elsewhere has."""
        meta = write.pod.metadata
        try:
            if isinstance(write, Create):
                await self._api.create(write.pod)
                self._made.add(write.pod.key)
            else:
                certain = Preconditions(uid=meta.uid)
                await self._api.delete(POD, meta.namespace, meta.name, preconditions=certain, grace_period=0)
        except AlreadyExists:
            if write.pod.key not in self._made and self._pods.indexer.get_by_key(write.pod.key) is None:
                raise
        except (NotFound, Conflict):
            if isinstance(write, Create):
                raise  # its namespace is missing
