"""Manifests of CSI volumes, as few words as they take."""

from __future__ import annotations

from mooring.loop_driver.volumes import volume_id

DRIVER = "loop.mooring.dev"


def volume(
    name: str,
    *,
    size: str = "16Mi",
    fs_type: str = "ext4",
    block: bool = False,
    modes: str = "ReadWriteOnce",
    more: str = "",
    spec: str = "",
    driver: str = DRIVER,
) -> str:
    """A PersistentVolume and its claim; both are called as the volume was when it was made by the driver.

    `more` goes into the CSI part, `spec` into the spec of the PersistentVolume, each with a comma before it.
    """
    kind = "Block" if block else "Filesystem"
    fs = "" if block or not fs_type else f", fsType: {fs_type}"
    return f"""\
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  {{capacity: {{storage: {size}}}, accessModes: [{modes}], storageClassName: "", volumeMode: {kind}{spec},
  csi: {{driver: {driver}, volumeHandle: {volume_id(name)}{fs}{more}}}}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}}}
spec:
  {{accessModes: [{modes}], storageClassName: "", volumeMode: {kind}, volumeName: {name},
  resources: {{requests: {{storage: {size}}}}}}}
---
"""


def claimed(name: str, *, read_only: bool = False) -> str:
    """The volume of a pod that uses a claim, of the same name."""
    more = ", readOnly: true" if read_only else ""
    return f"{name}: persistentVolumeClaim: {{claimName: {name}{more}}}"


def csi_driver(spec: str = "attachRequired: false", *, name: str = DRIVER) -> str:
    return f"""\
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {{name: {name}}}
spec: {{{spec}}}
---
"""


def block_pod(name: str, claim: str) -> str:
    """A pod that uses a claim as a raw device."""
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers:
  - name: main
    volumeDevices: [{{name: {claim}, devicePath: /dev/{claim}}}]
  volumes:
  - name: {claim}
    persistentVolumeClaim: {{claimName: {claim}}}
---
"""
