"""Volume types that Kubernetes itself has removed: what became of each, and what to use instead."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.world.spec import VolumeSpec


@dataclass(frozen=True, slots=True)
class RemovedType:
    """A source that no plugin serves any more, and that Kubernetes does not rewrite to CSI either."""

    source: str
    removed_in: str
    instead: str

    @property
    def why(self) -> str:
        return f"{self.source} was removed from Kubernetes in {self.removed_in}"


_REMOVED = {
    removed.source: removed
    for removed in (
        RemovedType("cephfs", "1.31", "the CSI driver cephfs.csi.ceph.com"),
        RemovedType("flocker", "1.25", "a CSI driver of your storage; the Flocker project has ended"),
        RemovedType("glusterfs", "1.26", "NFS, or another file system with a CSI driver"),
        RemovedType("photonPersistentDisk", "1.15", "a CSI driver of your storage; Photon Controller has ended"),
        RemovedType("quobyte", "1.25", "the Quobyte CSI driver"),
        RemovedType("rbd", "1.31", "the CSI driver rbd.csi.ceph.com"),
        RemovedType("scaleIO", "1.22", "the CSI driver csi-vxflexos.dellemc.com"),
        RemovedType("storageos", "1.25", "the CSI driver csi.storageos.com"),
    )
}


def removed_type(spec: VolumeSpec) -> RemovedType | None:
    """The removed type that a spec is of, or None."""
    names = spec.source_names
    return next((_REMOVED[name] for name in names if name in _REMOVED), None)
