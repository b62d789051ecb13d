"""Claims, volumes, classes, attachments and CSI drivers."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mooring.kube.objects.meta import (
    Condition,
    KubernetesObject,
    LabelSelector,
    ObjectReference,
    SecretReference,
    Unmodelled,
    Value,
)
from mooring.kube.objects.pod import Quantities, ResourceRequirements
from mooring.kube.objects.volumes import (
    FCVolumeSource,
    FlexVolumeSource,
    HostPathVolumeSource,
    ISCSIVolumeSource,
    Legacy,
    NFSVolumeSource,
    Volume,
)


class LocalVolumeSource(Value, frozen=True, kw_only=True):
    path: str
    fs_type: str | None = None


class CSIPersistentVolumeSource(Value, frozen=True, kw_only=True):
    driver: str
    volume_handle: str
    read_only: bool = False
    fs_type: str = ""
    volume_attributes: Mapping[str, str] = {}
    controller_publish_secret_ref: SecretReference | None = None
    node_stage_secret_ref: SecretReference | None = None
    node_publish_secret_ref: SecretReference | None = None
    controller_expand_secret_ref: SecretReference | None = None
    node_expand_secret_ref: SecretReference | None = None


class NodeSelectorRequirement(Value, frozen=True, kw_only=True):
    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Value, frozen=True, kw_only=True):
    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Value, frozen=True, kw_only=True):
    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class VolumeNodeAffinity(Value, frozen=True, kw_only=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Value, frozen=True, kw_only=True):
    capacity: Quantities = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    mount_options: tuple[str, ...] = ()
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    local: LocalVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    aws_elastic_block_store: Legacy | None = None
    azure_disk: Legacy | None = None
    azure_file: Legacy | None = None
    cephfs: Legacy | None = None
    cinder: Legacy | None = None
    flocker: Legacy | None = None
    gce_persistent_disk: Legacy | None = None
    glusterfs: Legacy | None = None
    photon_persistent_disk: Legacy | None = None
    portworx_volume: Legacy | None = None
    quobyte: Legacy | None = None
    rbd: Legacy | None = None
    scale_io: Legacy | None = msgspec.field(name="scaleIO", default=None)
    storageos: Legacy | None = None
    vsphere_volume: Legacy | None = None

    @property
    def source_names(self) -> list[str]:
        """The manifest names of the sources that are set (one in a valid volume)."""
        return [name for name, field in _SOURCES.items() if getattr(self, field) is not None]


_SOURCES = {
    field.encode_name: field.name
    for field in msgspec.structs.fields(PersistentVolumeSpec)
    if field.name in {source.name for source in msgspec.structs.fields(Volume)} | {"local"}
}
"""Sources by their manifest names: those that a pod's volume may have as well, and `local`."""


class PersistentVolumeStatus(Value, frozen=True, kw_only=True):
    phase: str = ""
    message: str = ""
    reason: str = ""


class PersistentVolume(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "PersistentVolume"
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class PersistentVolumeClaimSpec(Value, frozen=True, kw_only=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: ResourceRequirements = ResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    data_source: Unmodelled | None = None
    data_source_ref: Unmodelled | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimStatus(Value, frozen=True, kw_only=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: Quantities = {}
    conditions: tuple[Condition, ...] = ()
    allocated_resources: Quantities = {}
    allocated_resource_statuses: Mapping[str, str] = {}


class PersistentVolumeClaim(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "v1"
    kind: str = "PersistentVolumeClaim"
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class StorageClass(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "StorageClass"
    provisioner: str = ""
    parameters: Mapping[str, str] = {}
    reclaim_policy: str = "Delete"
    mount_options: tuple[str, ...] = ()
    allow_volume_expansion: bool = False
    volume_binding_mode: str = "Immediate"
    allowed_topologies: tuple[Unmodelled, ...] = ()


class VolumeAttachmentSource(Value, frozen=True, kw_only=True):
    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Value, frozen=True, kw_only=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeError(Value, frozen=True, kw_only=True):
    message: str = ""
    time: str | None = None
    error_code: int | None = None


class VolumeAttachmentStatus(Value, frozen=True, kw_only=True):
    attached: bool = False
    attachment_metadata: Mapping[str, str] = {}
    attach_error: VolumeError | None = None
    detach_error: VolumeError | None = None


class VolumeAttachment(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "VolumeAttachment"
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


class TokenRequest(Value, frozen=True, kw_only=True):
    audience: str = ""
    expiration_seconds: int | None = None


class CSIDriverSpec(Value, frozen=True, kw_only=True):
    attach_required: bool = True
    pod_info_on_mount: bool = False
    volume_lifecycle_modes: tuple[str, ...] = ("Persistent",)
    storage_capacity: bool = False
    fs_group_policy: str = "ReadWriteOnceWithFSType"
    token_requests: tuple[TokenRequest, ...] = ()
    requires_republish: bool = False
    se_linux_mount: bool = msgspec.field(name="seLinuxMount", default=False)
    node_allocatable_update_period_seconds: int | None = None
    service_account_token_in_secrets: bool = False


class CSIDriver(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSIDriver"
    spec: CSIDriverSpec = CSIDriverSpec()


class VolumeNodeResources(Value, frozen=True, kw_only=True):
    count: int | None = None


class CSINodeDriver(Value, frozen=True, kw_only=True):
    name: str
    node_id: str = msgspec.field(name="nodeID", default="")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Value, frozen=True, kw_only=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubernetesObject, frozen=True, kw_only=True):
    api_version: str = "storage.k8s.io/v1"
    kind: str = "CSINode"
    spec: CSINodeSpec = CSINodeSpec()
