"""Objects in dictionaries: ConfigMaps, Secrets, claims and volumes as a library caller or a dry run hands them over."""

from __future__ import annotations

from mooring.kube.objects.certificates import ClusterTrustBundle
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.objects.pod import ConfigMap, Secret, ServiceAccount
from mooring.kube.objects.storage import CSIDriver, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.plugins.interface import ObjectRef


class ObjectTable:
    """What plugins and the populator look objects up in. `put` and `remove` return the reference that changed."""

    def __init__(self) -> None:
        self._objects: dict[ObjectRef, KubernetesObject] = {}

    def put(self, obj: KubernetesObject) -> ObjectRef:
        ref = reference(obj)
        self._objects[ref] = obj
        return ref

    def remove(self, ref: ObjectRef) -> ObjectRef:
        self._objects.pop(ref, None)
        return ref

    def __contains__(self, ref: ObjectRef) -> bool:
        return ref in self._objects

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        found = self._objects.get(ObjectRef("ConfigMap", namespace, name))
        return found if isinstance(found, ConfigMap) else None

    def secret(self, namespace: str, name: str) -> Secret | None:
        found = self._objects.get(ObjectRef("Secret", namespace, name))
        return found if isinstance(found, Secret) else None

    def service_account(self, namespace: str, name: str) -> ServiceAccount | None:
        found = self._objects.get(ObjectRef("ServiceAccount", namespace, name))
        return found if isinstance(found, ServiceAccount) else None

    def cluster_trust_bundle(self, name: str) -> ClusterTrustBundle | None:
        found = self._objects.get(ObjectRef("ClusterTrustBundle", "", name))
        return found if isinstance(found, ClusterTrustBundle) else None

    def cluster_trust_bundles(self, signer_name: str) -> list[ClusterTrustBundle]:
        every = (obj for obj in self._objects.values() if isinstance(obj, ClusterTrustBundle))
        return [bundle for bundle in every if bundle.spec.signer_name == signer_name]

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None:
        found = self._objects.get(ObjectRef("PersistentVolumeClaim", namespace, name))
        return found if isinstance(found, PersistentVolumeClaim) else None

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        found = self._objects.get(ObjectRef("PersistentVolume", "", name))
        return found if isinstance(found, PersistentVolume) else None

    def csi_driver(self, name: str) -> CSIDriver | None:
        found = self._objects.get(ObjectRef("CSIDriver", "", name))
        return found if isinstance(found, CSIDriver) else None

    def volume_attachment(self, name: str) -> VolumeAttachment | None:
        found = self._objects.get(ObjectRef("VolumeAttachment", "", name))
        return found if isinstance(found, VolumeAttachment) else None

    def volume_attachments(self) -> list[VolumeAttachment]:
        return [obj for obj in self._objects.values() if isinstance(obj, VolumeAttachment)]

    def namespaces_with(self, kind: str, name: str) -> list[str]:
        return sorted(ref.namespace for ref in self._objects if ref.kind == kind and ref.name == name)


def reference(obj: KubernetesObject) -> ObjectRef:
    """How volumes refer to an object."""
    return ObjectRef(obj.kind, obj.metadata.namespace, obj.metadata.name)
