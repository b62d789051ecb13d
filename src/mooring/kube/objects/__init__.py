"""Frozen values of the Kubernetes kinds that mooring reads and writes."""

from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta, ObjectReference, OwnerReference
from mooring.kube.objects.node import Event, Node
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec, Secret, ServiceAccount
from mooring.kube.objects.storage import CSIDriver, CSINode, PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.volumes import Volume

__all__ = [
    "CSIDriver",
    "CSINode",
    "ClusterTrustBundle",
    "ConfigMap",
    "Container",
    "Event",
    "KubernetesObject",
    "Node",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodSpec",
    "Secret",
    "ServiceAccount",
    "Volume",
]
