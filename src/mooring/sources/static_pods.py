"""Pods that a node of a cluster has from manifests of its own, beside those that the cluster gives it."""

from __future__ import annotations

from collections.abc import Callable

from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import POD
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import Volume
from mooring.sources.manifest_directory import ManifestDirectory
from mooring.world.findings import Finding
from mooring.world.names import PodUid


class StaticPods:
    """Tells of the pods in the local store, which manifests fill. One that needs objects of the cluster is refused:

    the cluster knows nothing of it, and lets a node read only what pods that it knows of need.
    """

    def __init__(
        self,
        factory: SharedInformerFactory,
        manifests: ManifestDirectory,
        *,
        changed: Callable[[Pod], None],
        removed: Callable[[PodUid], None],
    ) -> None:
        self._pods = factory.informer(POD)
        self._manifests = manifests
        self._changed, self._removed = changed, removed
        self._refused: dict[PodUid, Finding] = {}

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with manifests, and which pods cannot be served."""
        return (*self._manifests.findings, *self._refused.values())

    async def tell(self) -> None:
        """Tell of all pods that there are, and from then on of each change."""
        pods = self._pods.add_event_handler(
            Handler(
                on_add=lambda pod, is_initial: self._tell(pod),
                on_update=self._replaced,
                on_delete=lambda pod: self._remove(pod.object if isinstance(pod, Tombstone) else pod),
            )
        )
        await pods.wait_synced()

    def _tell(self, pod: Pod) -> None:
        uid = PodUid(pod.metadata.uid)
        needed = sorted({f"{name} ({kind})" for name, kind in foreign_objects(pod)})
        if needed:
            self._refused[uid] = Finding(
                kind="manifest",
                where=pod.key,
                what=f"this pod from a manifest needs objects of the cluster: {', '.join(needed)}",
                next_step="Create the pod in the cluster, or give it volumes that need no objects",
            )
            return
        self._refused.pop(uid, None)
        self._changed(pod)

    def _replaced(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid:
            self._remove(old)
        self._tell(new)

    def _remove(self, pod: Pod) -> None:
        uid = PodUid(pod.metadata.uid)
        self._refused.pop(uid, None)
        self._removed(uid)


def foreign_objects(pod: Pod) -> list[tuple[str, str]]:
    """Volumes that need objects of a cluster, by name, and which kind they need: what a kubelet refuses as well."""
    return [(volume.name, _NEEDS[name]) for volume in pod.spec.volumes for name in _sources(volume) if name in _NEEDS]


def _sources(volume: Volume) -> list[str]:
    projected = volume.projected.sources if volume.projected is not None else ()
    return [*volume.source_names, *(name for source in projected for name in source.source_names)]


_NEEDS = {
    "configMap": "ConfigMap",
    "secret": "Secret",
    "persistentVolumeClaim": "PersistentVolumeClaim",
    "ephemeral": "PersistentVolumeClaim",
    "csi": "CSIDriver",
    "serviceAccountToken": "ServiceAccount",
    "clusterTrustBundle": "ClusterTrustBundle",
    "podCertificate": "PodCertificateRequest",
}
"""Kinds of objects, by what volumes and projections are written as."""
