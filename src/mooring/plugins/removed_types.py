"""Volume types that Kubernetes itself has removed: what became of each, and what to use instead."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.world.spec import VolumeSpec


@dataclass(frozen=True, slots=True)
class RemovedType:
    """A source that no plugin serves any more. `driver` is the CSI driver that Kubernetes rewrites it to, if any."""

    source: str
    removed_in: str
    instead: str
    driver: str = ""

    @property
    def why(self) -> str:
        if self.driver:
            return (
                f"{self.source} was removed from Kubernetes in {self.removed_in} and is served by the CSI driver "
                f"{self.driver}, and this version of mooring runs no CSI drivers"
            )
        return f"{self.source} was removed from Kubernetes in {self.removed_in}"


_REMOVED = {
    removed.source: removed
    for removed in (
        RemovedType("awsElasticBlockStore", "1.27", "the CSI driver ebs.csi.aws.com", "ebs.csi.aws.com"),
        RemovedType("azureDisk", "1.27", "the CSI driver disk.csi.azure.com", "disk.csi.azure.com"),
        RemovedType("azureFile", "1.30", "the CSI driver file.csi.azure.com", "file.csi.azure.com"),
        RemovedType("cephfs", "1.31", "the CSI driver cephfs.csi.ceph.com"),
        RemovedType("cinder", "1.26", "the CSI driver cinder.csi.openstack.org", "cinder.csi.openstack.org"),
        RemovedType("flocker", "1.25", "a CSI driver of your storage; the Flocker project has ended"),
        RemovedType("gcePersistentDisk", "1.28", "the CSI driver pd.csi.storage.gke.io", "pd.csi.storage.gke.io"),
        RemovedType("glusterfs", "1.26", "NFS, or another file system with a CSI driver"),
        RemovedType("photonPersistentDisk", "1.15", "a CSI driver of your storage; Photon Controller has ended"),
        RemovedType("portworxVolume", "1.36", "the CSI driver pxd.portworx.com", "pxd.portworx.com"),
        RemovedType("quobyte", "1.25", "the Quobyte CSI driver"),
        RemovedType("rbd", "1.31", "the CSI driver rbd.csi.ceph.com"),
        RemovedType("scaleIO", "1.22", "the CSI driver csi-vxflexos.dellemc.com"),
        RemovedType("storageos", "1.25", "the CSI driver csi.storageos.com"),
        RemovedType("vsphereVolume", "1.30", "the CSI driver csi.vsphere.vmware.com", "csi.vsphere.vmware.com"),
    )
}


def removed_type(spec: VolumeSpec) -> RemovedType | None:
    """The removed type that a spec is of, or None."""
    names = spec.source_names
    return next((_REMOVED[name] for name in names if name in _REMOVED), None)
