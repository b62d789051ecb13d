"""The volume sources of a pod: `pod.spec.volumes[]`, field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.kube.objects.meta import LabelSelector, LocalObjectReference, ObjectMeta, SecretReference, Value


class KeyToPath(Value, frozen=True, kw_only=True):
    key: str
    path: str
    mode: int | None = None
    user: int | None = None


class EmptyDirVolumeSource(Value, frozen=True, kw_only=True):
    medium: str = ""
    size_limit: str | int | float | None = None
    mode: int | None = None


class HostPathVolumeSource(Value, frozen=True, kw_only=True):
    path: str
    type: str = ""


class ConfigMapVolumeSource(Value, frozen=True, kw_only=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    default_user: int | None = None
    optional: bool = False


class SecretVolumeSource(Value, frozen=True, kw_only=True):
    secret_name: str = ""
    items: tuple[KeyToPath, ...] = ()
    default_mode: int | None = None
    default_user: int | None = None
    optional: bool = False


class ObjectFieldSelector(Value, frozen=True, kw_only=True):
    field_path: str
    api_version: str = "v1"


class ResourceFieldSelector(Value, frozen=True, kw_only=True):
    resource: str
    container_name: str = ""
    divisor: str | int | float | None = None


class DownwardAPIVolumeFile(Value, frozen=True, kw_only=True):
    path: str
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None
    user: int | None = None


class DownwardAPIVolumeSource(Value, frozen=True, kw_only=True):
    items: tuple[DownwardAPIVolumeFile, ...] = ()
    default_mode: int | None = None
    default_user: int | None = None


class ConfigMapProjection(Value, frozen=True, kw_only=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class SecretProjection(Value, frozen=True, kw_only=True):
    name: str = ""
    items: tuple[KeyToPath, ...] = ()
    optional: bool = False


class DownwardAPIProjection(Value, frozen=True, kw_only=True):
    items: tuple[DownwardAPIVolumeFile, ...] = ()


class ServiceAccountTokenProjection(Value, frozen=True, kw_only=True):
    path: str
    audience: str = ""
    expiration_seconds: int | None = None
    user: int | None = None


class ClusterTrustBundleProjection(Value, frozen=True, kw_only=True):
    path: str
    name: str | None = None
    signer_name: str | None = None
    label_selector: LabelSelector | None = None
    optional: bool = False
    user: int | None = None


class PodCertificateProjection(Value, frozen=True, kw_only=True):
    signer_name: str
    key_type: str
    max_expiration_seconds: int | None = None
    credential_bundle_path: str = ""
    key_path: str = ""
    certificate_chain_path: str = ""
    user_annotations: Mapping[str, str] = {}
    user: int | None = None


class VolumeProjection(Value, frozen=True, kw_only=True):
    config_map: ConfigMapProjection | None = None
    secret: SecretProjection | None = None
    downward_api: DownwardAPIProjection | None = msgspec.field(name="downwardAPI", default=None)
    service_account_token: ServiceAccountTokenProjection | None = None
    cluster_trust_bundle: ClusterTrustBundleProjection | None = None
    pod_certificate: PodCertificateProjection | None = None

    @property
    def source_names(self) -> list[str]:
        """The manifest names of the sources that are set (one in a useful projection)."""
        return _names_of_set_fields(self)


class ProjectedVolumeSource(Value, frozen=True, kw_only=True):
    sources: tuple[VolumeProjection, ...] = ()
    default_mode: int | None = None
    default_user: int | None = None


class PersistentVolumeClaimVolumeSource(Value, frozen=True, kw_only=True):
    claim_name: str
    read_only: bool = False


class EphemeralClaimTemplate(Value, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: Mapping[str, Any] = {}


class EphemeralVolumeSource(Value, frozen=True, kw_only=True):
    volume_claim_template: EphemeralClaimTemplate | None = None


class CSIVolumeSource(Value, frozen=True, kw_only=True):
    """An inline (ephemeral) CSI volume."""

    driver: str
    read_only: bool = False
    fs_type: str | None = None
    volume_attributes: Mapping[str, str] = {}
    node_publish_secret_ref: LocalObjectReference | None = None


class NFSVolumeSource(Value, frozen=True, kw_only=True):
    server: str
    path: str
    read_only: bool = False


class ISCSIVolumeSource(Value, frozen=True, kw_only=True):
    target_portal: str
    iqn: str
    lun: int = 0
    portals: tuple[str, ...] = ()
    iscsi_interface: str = "default"
    fs_type: str = ""
    read_only: bool = False
    chap_auth_discovery: bool = msgspec.field(name="chapAuthDiscovery", default=False)
    chap_auth_session: bool = msgspec.field(name="chapAuthSession", default=False)
    secret_ref: SecretReference | None = None
    initiator_name: str | None = None


class FCVolumeSource(Value, frozen=True, kw_only=True):
    target_wwns: tuple[str, ...] = msgspec.field(name="targetWWNs", default=())
    lun: int | None = None
    wwids: tuple[str, ...] = ()
    fs_type: str = ""
    read_only: bool = False


class FlexVolumeSource(Value, frozen=True, kw_only=True):
    driver: str
    fs_type: str = ""
    read_only: bool = False
    options: Mapping[str, str] = {}
    secret_ref: SecretReference | None = None


class GitRepoVolumeSource(Value, frozen=True, kw_only=True):
    repository: str
    revision: str = ""
    directory: str = ""


class ImageVolumeSource(Value, frozen=True, kw_only=True):
    reference: str = ""
    pull_policy: str = ""


Legacy = Mapping[str, Any]
"""A source whose in-tree plugin no longer exists; kept as written, for CSI migration or a clear refusal."""


class Volume(Value, frozen=True, kw_only=True):
    """One entry of `pod.spec.volumes`. Exactly one source is set; none means emptyDir after defaulting."""

    name: str
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    config_map: ConfigMapVolumeSource | None = None
    secret: SecretVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = msgspec.field(name="downwardAPI", default=None)
    projected: ProjectedVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    nfs: NFSVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    fc: FCVolumeSource | None = None
    flex_volume: FlexVolumeSource | None = None
    git_repo: GitRepoVolumeSource | None = None
    image: ImageVolumeSource | None = None
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
        return _names_of_set_fields(self)


def _names_of_set_fields(value: Volume | VolumeProjection) -> list[str]:
    names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    return [encoded for name, encoded in names if name != "name" and getattr(value, name) is not None]
