"""Manifests of a CSI driver, a volume of it, and pods that use the volume.

What is known only when the driver has made the volume is written as a word that stands for it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

NAME = "trace.csi.test"
NODE = "here"

Manifest = Mapping[str, Any]

_HANDLE = "HANDLE-OF-THE-VOLUME"
_CLAIM_UID = "c1a1c1a1-0000-4000-8000-000000000001"
_ATTACHMENT = "NAME-OF-THE-ATTACHMENT"


def written(manifests: Iterable[Manifest], handle: str) -> str:
    """The text of manifests for a volume that the driver knows by this handle."""
    attachment = f"csi-{hashlib.sha256(f'{handle}{NAME}{NODE}'.encode()).hexdigest()}"
    text = "\n---\n".join(json.dumps(each, indent=1) for each in manifests)
    return text.replace(_HANDLE, handle).replace(_ATTACHMENT, attachment)


def driver(**spec: object) -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": NAME},
        "spec": {"attachRequired": False, **spec},
    }


def volume(*, mode: str = "ReadWriteOnce", csi: Mapping[str, object] | None = None, **spec: object) -> Manifest:
    """A volume of the driver that is bound to the claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "pv"},
        "spec": {
            "capacity": {"storage": "64Mi"},
            "accessModes": [mode],
            "claimRef": {"namespace": "default", "name": "claim", "uid": _CLAIM_UID},
            "persistentVolumeReclaimPolicy": "Retain",
            "csi": {"driver": NAME, "volumeHandle": _HANDLE, **(csi or {})},
            **spec,
        },
        "status": {"phase": "Bound"},
    }


def claim(*, mode: str = "ReadWriteOnce", grows_to: str = "", **spec: object) -> Manifest:
    """The claim as it is once it was bound, or once the driver's controller made its volume larger."""
    status: dict[str, object] = {"phase": "Bound", "accessModes": [mode], "capacity": {"storage": "64Mi"}}
    if grows_to:
        status["allocatedResources"] = {"storage": grows_to}
        status["allocatedResourceStatuses"] = {"storage": "NodeResizePending"}
        status["conditions"] = [{"type": "FileSystemResizePending", "status": "True"}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "claim",
            "namespace": "default",
            "uid": _CLAIM_UID,
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {
            "accessModes": [mode],
            "storageClassName": "",
            "volumeName": "pv",
            "resources": {"requests": {"storage": grows_to or "64Mi"}},
            **spec,
        },
        "status": status,
    }


def pod(
    name: str = "one",
    *,
    source: Mapping[str, object] | None = None,
    read_only: bool = False,
    block: bool = False,
    **spec: object,
) -> Manifest:
    """A pod with one volume: the claim, unless another source is given."""
    use = {"volumeDevices": [{"name": "v", "devicePath": "/v"}]}
    if not block:
        use = {"volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    claimed = {"persistentVolumeClaim": {"claimName": "claim", "readOnly": read_only}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "containers": [{"name": "main", "image": "none", **use}],
            "volumes": [{"name": "v", **(source or claimed)}],
            "serviceAccountName": "default",  # as admission fills it in
            **spec,
        },
    }


def secret(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"},
        "stringData": {f"{name}-key": f"{name}-value"},
    }


def attachment() -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": _ATTACHMENT},
        "spec": {"attacher": NAME, "nodeName": NODE, "source": {"persistentVolumeName": "pv"}},
        "status": {"attached": True, "attachmentMetadata": {"device": "/dev/of-the-attacher", "lun": "7"}},
    }


def growing_class() -> Manifest:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "grows"},
        "provisioner": NAME,
        "allowVolumeExpansion": True,
    }


def service_account(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}


def reference(name: str) -> Mapping[str, str]:
    return {"name": name, "namespace": "default"}


SECRETS = {"nodeStageSecretRef": reference("stage"), "nodePublishSecretRef": reference("publish")}


def secret_manifests() -> tuple[Manifest, ...]:
    """A pod whose volume needs a secret for each step."""
    return (driver(), volume(csi=SECRETS), claim(), secret("stage"), secret("publish"), pod())
