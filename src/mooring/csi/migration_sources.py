"""The sources of migrated volume types, field by field: in-tree to CSI, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.errors import Refused
from mooring.kube.objects.meta import SecretReference
from mooring.kube.objects.storage import CSIPersistentVolumeSource

Source = Mapping[str, Any]

EBS = "ebs.csi.aws.com"
GCE = "pd.csi.storage.gke.io"
CINDER = "cinder.csi.openstack.org"
AZURE_DISK = "disk.csi.azure.com"
AZURE_FILE = "file.csi.azure.com"
VSPHERE = "csi.vsphere.vmware.com"
PORTWORX = "pxd.portworx.com"

ZONE_LABELS = ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone")
REGION_LABELS = ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region")
_UNSPECIFIED = "UNSPECIFIED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a translation may need besides the source itself."""

    name: str
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    inline: bool = False


def _text(source: Source, name: str) -> str:
    return str(source.get(name) or "")


def _refuse(origin: Origin, why: str) -> Refused:
    return Refused(f"failed to translate in-tree volume {origin.name!r} to CSI", why=why)


# -- Amazon ----------------------------------------------------------------------------------------------------------
def ebs_to_csi(source: Source, origin: Origin) -> CSIPersistentVolumeSource:
    handle = _text(source, "volumeID")
    if handle.startswith("aws://"):
        handle = handle.rpartition("/")[2]
        if not re.fullmatch(r"vol-[^/]*", handle):
            raise _refuse(origin, f"{_text(source, 'volumeID')!r} names no volume like vol-…")
    return CSIPersistentVolumeSource(
        driver=EBS,
        volume_handle=handle,
        read_only=bool(source.get("readOnly")),
        fs_type=_text(source, "fsType"),
        volume_attributes={"partition": str(source.get("partition") or 0)},
    )


def ebs_from_csi(csi: CSIPersistentVolumeSource) -> Source:
    partition = csi.volume_attributes.get("partition", "")
    try:
        number = int(partition) if partition else 0
    except ValueError as error:
        raise Refused("cannot translate the volume", why=f"its partition {partition!r} is no number") from error
    return _without_nothing(
        {"volumeID": csi.volume_handle, "fsType": csi.fs_type, "readOnly": csi.read_only, "partition": number}
    )


# -- Google ----------------------------------------------------------------------------------------------------------
def gce_to_csi(source: Source, origin: Origin) -> CSIPersistentVolumeSource:
    partition = source.get("partition") or 0
    return CSIPersistentVolumeSource(
        driver=GCE,
        volume_handle=f"projects/{_UNSPECIFIED}/{_gce_place(origin)}/disks/{_text(source, 'pdName')}",
        read_only=bool(source.get("readOnly")),
        fs_type=_text(source, "fsType"),
        volume_attributes={"partition": str(partition) if partition else ""},
    )


def _gce_place(origin: Origin) -> str:
    label = next((origin.labels[key] for key in ZONE_LABELS if key in origin.labels), "")
    zones = sorted(zone for zone in label.split("__") if zone.strip())
    if origin.inline or not zones:
        return f"zones/{_UNSPECIFIED}"
    if len(zones) == 1:
        return f"zones/{zones[0]}"
    return f"regions/{zones[0].rpartition('-')[0]}"


def gce_from_csi(csi: CSIPersistentVolumeSource) -> Source:
    parts = csi.volume_handle.split("/")
    if len(parts) < 6:
        raise Refused("cannot translate the volume", why=f"its handle {csi.volume_handle!r} has fewer than six parts")
    partition = csi.volume_attributes.get("partition", "")
    found = {"pdName": parts[5], "fsType": csi.fs_type, "readOnly": csi.read_only}
    return _without_nothing({**found, "partition": int(partition) if partition else 0})


# -- OpenStack -------------------------------------------------------------------------------------------------------
def cinder_to_csi(source: Source, origin: Origin) -> CSIPersistentVolumeSource:
    return CSIPersistentVolumeSource(
        driver=CINDER,
        volume_handle=_text(source, "volumeID"),
        read_only=bool(source.get("readOnly")),
        fs_type=_text(source, "fsType"),
    )


def cinder_from_csi(csi: CSIPersistentVolumeSource) -> Source:
    return _without_nothing({"volumeID": csi.volume_handle, "fsType": csi.fs_type, "readOnly": csi.read_only})


# -- Azure -----------------------------------------------------------------------------------------------------------
def azure_disk_to_csi(source: Source, origin: Origin) -> CSIPersistentVolumeSource:
    kind = _text(source, "kind")
    if kind and kind.lower() != "managed":
        raise _refuse(origin, f"only disks of kind Managed have a CSI successor, and this one is {kind!r}")
    attributes = {"kind": "Managed"}
    for name, key in (("cachingMode", "cachingmode"), ("fsType", "fstype")):
        if _text(source, name):
            attributes[key] = _text(source, name)
    return CSIPersistentVolumeSource(
        driver=AZURE_DISK,
        volume_handle=_text(source, "diskURI"),
        read_only=bool(source.get("readOnly")),
        fs_type=_text(source, "fsType"),
        volume_attributes=attributes,
    )


def azure_disk_from_csi(csi: CSIPersistentVolumeSource) -> Source:
    name = re.search(r"(?i)/disks/([^/]+)$|/vhds/([^/]+?)(?:\.vhd)?$", csi.volume_handle)
    if name is None:
        raise Refused("cannot translate the volume", why=f"its handle {csi.volume_handle!r} names no disk")
    attributes = {key.lower(): value for key, value in csi.volume_attributes.items() if value}
    return _without_nothing(
        {
            "diskName": name[1] or name[2],
            "diskURI": csi.volume_handle,
            "kind": "Managed",
            "readOnly": csi.read_only,
            "cachingMode": attributes.get("cachingmode", ""),
            "fsType": attributes.get("fstype", csi.fs_type),
        }
    )


_AZURE_SECRET = re.compile(r"azure-storage-account-(.+)-secret")
_RESOURCE_GROUP = "kubernetes.io/azure-file-resource-group"


def azure_file_to_csi(source: Source, origin: Origin) -> CSIPersistentVolumeSource:
    secret, share = _text(source, "secretName"), _text(source, "shareName")
    namespace = _text(source, "secretNamespace") or origin.namespace
    if not namespace:
        raise _refuse(origin, "neither the volume nor its claim tells the namespace of its secret")
    found = _AZURE_SECRET.fullmatch(secret)
    account = found[1] if found is not None else secret
    group = "" if origin.inline else origin.annotations.get(_RESOURCE_GROUP, "")
    return CSIPersistentVolumeSource(
        driver=AZURE_FILE,
        volume_handle=f"{group}#{account}#{share}#{origin.name}#{namespace}",
        read_only=bool(source.get("readOnly")),
        volume_attributes={"sharename": share},
        node_stage_secret_ref=SecretReference(name=secret, namespace=namespace),
    )


def azure_file_from_csi(csi: CSIPersistentVolumeSource) -> Source:
    attributes = {key.lower(): value for key, value in csi.volume_attributes.items()}
    reference = csi.node_stage_secret_ref
    secret = reference.name if reference is not None else attributes.get("secretname", "")
    namespace = reference.namespace if reference is not None else attributes.get("secretnamespace", "")
    share = attributes.get("sharename", "")
    if not share or not secret:
        parts = csi.volume_handle.split("#")
        if len(parts) < 3:
            raise Refused("cannot translate the volume", why=f"its handle {csi.volume_handle!r} names no share")
        share, secret = share or parts[2], secret or f"azure-storage-account-{parts[1]}-secret"
    found = {"secretName": secret, "shareName": share, "readOnly": csi.read_only}
    return _without_nothing({**found, "secretNamespace": namespace or "default"})


# -- VMware ----------------------------------------------------------------------------------------------------------
def vsphere_to_csi(source: Source, origin: Origin) -> CSIPersistentVolumeSource:
    policy = _text(source, "storagePolicyName")
    return CSIPersistentVolumeSource(
        driver=VSPHERE,
        volume_handle=_text(source, "volumePath"),
        fs_type=_text(source, "fsType"),
        volume_attributes={"storagepolicyname": policy} if policy else {},
    )


def vsphere_from_csi(csi: CSIPersistentVolumeSource) -> Source:
    path = csi.volume_attributes.get("initialvolumefilepath", "")
    return {"volumePath": path, **_without_nothing({"fsType": csi.fs_type})}


# -- Portworx --------------------------------------------------------------------------------------------------------
_AUTH_NAME, _AUTH_NAMESPACE = "openstorage.io/auth-secret-name", "openstorage.io/auth-secret-namespace"


def portworx_to_csi(source: Source, origin: Origin) -> CSIPersistentVolumeSource:
    name, namespace = origin.annotations.get(_AUTH_NAME), origin.annotations.get(_AUTH_NAMESPACE)
    secret = SecretReference(name=name, namespace=namespace) if name and namespace else None
    return CSIPersistentVolumeSource(
        driver=PORTWORX,
        volume_handle=_text(source, "volumeID"),
        fs_type=_text(source, "fsType"),
        controller_publish_secret_ref=secret,
        node_stage_secret_ref=secret,
        node_publish_secret_ref=secret,
        controller_expand_secret_ref=secret,
        node_expand_secret_ref=secret,
    )


def portworx_from_csi(csi: CSIPersistentVolumeSource) -> Source:
    return _without_nothing({"volumeID": csi.volume_handle, "fsType": csi.fs_type, "readOnly": csi.read_only})


def _without_nothing(fields: dict[str, Any]) -> Source:
    return {name: value for name, value in fields.items() if value}
