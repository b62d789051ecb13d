"""The table of kinds: how each is addressed in the API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.coordination import Lease
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.objects.node import Event, Node
from mooring.kube.objects.pod import ConfigMap, Namespace, Pod, Secret, ServiceAccount
from mooring.kube.objects.storage import (
    CSIDriver,
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


@dataclass(frozen=True, slots=True)
class Kind(Generic[ObjectT]):
    """One kind of object: its Python type and its place in the API."""

    type: type[ObjectT]
    api_version: str
    name: str  # `kind:` in a manifest
    plural: str  # in API paths
    namespaced: bool
    older_versions: tuple[str, ...] = ()  # `apiVersion`s that mean the same

    def __str__(self) -> str:
        return self.name


POD = Kind(Pod, "v1", "Pod", "pods", True)
CONFIG_MAP = Kind(ConfigMap, "v1", "ConfigMap", "configmaps", True)
SECRET = Kind(Secret, "v1", "Secret", "secrets", True)
SERVICE_ACCOUNT = Kind(ServiceAccount, "v1", "ServiceAccount", "serviceaccounts", True)
NAMESPACE = Kind(Namespace, "v1", "Namespace", "namespaces", False)
CLAIM = Kind(PersistentVolumeClaim, "v1", "PersistentVolumeClaim", "persistentvolumeclaims", True)
PERSISTENT_VOLUME = Kind(PersistentVolume, "v1", "PersistentVolume", "persistentvolumes", False)
NODE = Kind(Node, "v1", "Node", "nodes", False)
EVENT = Kind(Event, "v1", "Event", "events", True)
STORAGE_CLASS = Kind(StorageClass, "storage.k8s.io/v1", "StorageClass", "storageclasses", False)
VOLUME_ATTACHMENT = Kind(VolumeAttachment, "storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", False)
CSI_DRIVER = Kind(CSIDriver, "storage.k8s.io/v1", "CSIDriver", "csidrivers", False)
CSI_NODE = Kind(CSINode, "storage.k8s.io/v1", "CSINode", "csinodes", False)
LEASE = Kind(Lease, "coordination.k8s.io/v1", "Lease", "leases", True)
CLUSTER_TRUST_BUNDLE = Kind(
    ClusterTrustBundle,
    "certificates.k8s.io/v1",
    "ClusterTrustBundle",
    "clustertrustbundles",
    False,
    ("certificates.k8s.io/v1beta1", "certificates.k8s.io/v1alpha1"),
)

ALL_KINDS: tuple[Kind[KubernetesObject], ...] = (
    POD,
    CONFIG_MAP,
    SECRET,
    SERVICE_ACCOUNT,
    NAMESPACE,
    CLAIM,
    PERSISTENT_VOLUME,
    NODE,
    EVENT,
    STORAGE_CLASS,
    VOLUME_ATTACHMENT,
    CSI_DRIVER,
    CSI_NODE,
    LEASE,
    CLUSTER_TRUST_BUNDLE,
)  # type: ignore[assignment]

_BY_NAME = {(version, kind.name): kind for kind in ALL_KINDS for version in (kind.api_version, *kind.older_versions)}


def find_kind(api_version: str, name: str) -> Kind[KubernetesObject] | None:
    """The kind with this `apiVersion` and `kind`, or None when mooring does not know it."""
    return _BY_NAME.get((api_version, name))


def kind_of(obj: ObjectT) -> Kind[ObjectT]:
    """The kind an object belongs to."""
    return _BY_TYPE[type(obj)]  # type: ignore[return-value]


_BY_TYPE = {kind.type: kind for kind in ALL_KINDS}
