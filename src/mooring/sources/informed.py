"""Pods and the objects they name, as informers know them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Protocol

from mooring.engine.waiters import Waiters
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.kinds import (
    CLAIM,
    CLUSTER_TRUST_BUNDLE,
    CONFIG_MAP,
    CSI_DRIVER,
    NODE,
    PERSISTENT_VOLUME,
    POD,
    SECRET,
    SERVICE_ACCOUNT,
    VOLUME_ATTACHMENT,
    Kind,
    ObjectT,
)
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.objects.node import Node
from mooring.kube.objects.pod import ConfigMap, Pod, Secret, ServiceAccount
from mooring.kube.objects.storage import CSIDriver, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.plugins.interface import ObjectRef
from mooring.world.names import PodUid

_TOLD_WITHIN = 10.0
"""Seconds after which nobody waits any longer for a pod to be told of."""


class PodSink(Protocol):
    """Who is told about pods and objects."""

    def pod_changed(self, pod: Pod) -> None: ...

    def pod_removed(self, uid: PodUid) -> None: ...

    def object_changed(self, ref: ObjectRef) -> None: ...


class InformedObjects:
    """Look-ups in informer caches: ConfigMaps, Secrets, accounts, bundles, claims, volumes, drivers and this node."""

    def __init__(self, factory: SharedInformerFactory, node_name: str) -> None:
        self._node_name = node_name
        self._config_maps = factory.informer(CONFIG_MAP).indexer
        self._secrets = factory.informer(SECRET).indexer
        self._service_accounts = factory.informer(SERVICE_ACCOUNT).indexer
        self._trust_bundles = factory.informer(CLUSTER_TRUST_BUNDLE).indexer
        self._claims = factory.informer(CLAIM).indexer
        self._volumes = factory.informer(PERSISTENT_VOLUME).indexer
        self._nodes = factory.informer(NODE).indexer
        self._csi_drivers = factory.informer(CSI_DRIVER).indexer
        self._attachments = factory.informer(VOLUME_ATTACHMENT).indexer

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        return self._config_maps.get_by_key(f"{namespace}/{name}")

    def secret(self, namespace: str, name: str) -> Secret | None:
        return self._secrets.get_by_key(f"{namespace}/{name}")

    def service_account(self, namespace: str, name: str) -> ServiceAccount | None:
        return self._service_accounts.get_by_key(f"{namespace}/{name}")

    def cluster_trust_bundle(self, name: str) -> ClusterTrustBundle | None:
        return self._trust_bundles.get_by_key(name)

    def cluster_trust_bundles(self, signer_name: str) -> list[ClusterTrustBundle]:
        return [bundle for bundle in self._trust_bundles.list() if bundle.spec.signer_name == signer_name]

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        return self._claims.get_by_key(f"{namespace}/{name}")

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        return self._volumes.get_by_key(name)

    def csi_driver(self, name: str) -> CSIDriver | None:
        return self._csi_drivers.get_by_key(name)

    def volume_attachment(self, name: str) -> VolumeAttachment | None:
        return self._attachments.get_by_key(name)

    def volume_attachments(self) -> Sequence[VolumeAttachment]:
        return self._attachments.list()

    def namespaces_with(self, kind: str, name: str) -> list[str]:
        match kind:
            case "ConfigMap":
                every: Sequence[KubernetesObject] = self._config_maps.list()
            case "Secret":
                every = self._secrets.list()
            case "ServiceAccount":
                every = self._service_accounts.list()
            case _:
                every = ()
        return sorted(obj.metadata.namespace for obj in every if obj.metadata.name == name)

    def node(self) -> Node | None:
        """This node's object: the one of its name, or the only one there is."""
        named = self._nodes.get_by_key(self._node_name)
        if named is not None:
            return named
        every = self._nodes.list()
        return every[0] if len(every) == 1 else None


class InformedPods:
    """Tells a sink of the pods bound to this node, and of every change to the objects they may name."""

    def __init__(self, factory: SharedInformerFactory, objects: InformedObjects, sink: PodSink, node_name: str) -> None:
        self._factory = factory
        self._objects = objects
        self._sink = sink
        self._node_name = node_name
        self.heard = self.known = asyncio.Event()
        self._told: dict[str, int] = {}  # the version of each pod that the sink knows
        self._waiters = Waiters()

    async def run(self) -> None:
        """Wait until all objects are known, then tell of pods: a pod that comes first would only wait for them."""
        await self._factory.wait_for_cache_sync()
        self._tell_objects(CONFIG_MAP)
        self._tell_objects(SECRET)
        self._tell_objects(SERVICE_ACCOUNT)
        self._tell_objects(CLUSTER_TRUST_BUNDLE)
        self._tell_objects(CLAIM)
        self._tell_objects(PERSISTENT_VOLUME)
        self._tell_objects(CSI_DRIVER)
        self._tell_objects(VOLUME_ATTACHMENT)
        pods = self._factory.informer(POD).add_event_handler(
            Handler(
                on_add=lambda pod, is_initial: self._changed(pod),
                on_update=self._replaced,
                on_delete=lambda pod: self._removed(pod.object if isinstance(pod, Tombstone) else pod),
            )
        )
        await pods.wait_synced()
        self.heard.set()

    async def until_told(self, pod: Pod) -> None:
        """Return when the sink has been told of a pod as it stands in the store, or was not within a while."""
        if not self._is_ours(pod) or not self.heard.is_set():
            return
        version = int(pod.metadata.resource_version)
        with contextlib.suppress(TimeoutError):  # it may be deleted again by now
            await self._waiters.until(
                pod.key, lambda: True if self._told.get(pod.key, 0) >= version else None, timeout=_TOLD_WITHIN
            )

    def _tell_objects(self, kind: Kind[ObjectT]) -> None:
        def tell(obj: ObjectT) -> None:
            self._sink.object_changed(ObjectRef(kind.name, obj.metadata.namespace, obj.metadata.name))

        self._factory.informer(kind).add_event_handler(
            Handler(
                on_add=lambda obj, is_initial: None if is_initial else tell(obj),
                on_update=lambda old, new: tell(new) if old.metadata != new.metadata else None,
                on_delete=_unwrapped(tell),
            )
        )

    def _is_ours(self, pod: Pod) -> bool:
        node = self._objects.node()
        return pod.spec.node_name in ("", self._node_name, node.metadata.name if node is not None else "")

    def _changed(self, pod: Pod) -> None:
        if self._is_ours(pod):
            self._sink.pod_changed(pod)
            self._told[pod.key] = int(pod.metadata.resource_version)
            self._waiters.notify(pod.key)

    def _replaced(self, old: Pod, new: Pod) -> None:
        """A pod deleted and made anew while nobody looked comes as one update with another UID."""
        if old.metadata.uid != new.metadata.uid or not self._is_ours(new):
            self._removed(old)
        self._changed(new)

    def _removed(self, pod: Pod) -> None:
        self._told.pop(pod.key, None)
        self._sink.pod_removed(PodUid(pod.metadata.uid))


def _unwrapped(tell: Callable[[ObjectT], None]) -> Callable[[ObjectT | Tombstone[ObjectT]], None]:
    def deleted(obj: ObjectT | Tombstone[ObjectT]) -> None:
        tell(obj.object if isinstance(obj, Tombstone) else obj)

    return deleted
