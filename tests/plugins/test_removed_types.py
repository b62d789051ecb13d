"""Volume types that Kubernetes removed get an error that says what became of them."""

from __future__ import annotations

import pytest

from mooring.errors import Refused
from mooring.kube.codec import read_manifests
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume
from mooring.plugins.manager import VolumePluginManager
from mooring.world.spec import VolumeSpec

SOURCES = {
    "cephfs: {monitors: [a]}": ("1.31", "cephfs.csi.ceph.com"),
    "flocker: {datasetName: d}": ("1.25", "your storage"),
    "glusterfs: {endpoints: e, path: p}": ("1.26", "NFS"),
    "photonPersistentDisk: {pdID: d}": ("1.15", "your storage"),
    "quobyte: {registry: r, volume: v}": ("1.25", "Quobyte"),
    "rbd: {monitors: [a], image: i}": ("1.31", "rbd.csi.ceph.com"),
    "scaleIO: {gateway: g, system: s, secretRef: {name: n}}": ("1.22", "csi-vxflexos.dellemc.com"),
    "storageos: {volumeName: v}": ("1.25", "csi.storageos.com"),
}

POD = """
apiVersion: v1
kind: Pod
metadata: {{name: p}}
spec:
  containers: [{{name: c, volumeMounts: [{{name: v, mountPath: /v}}]}}]
  volumes:
  - name: v
    {source}
"""


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.partition(":")[0])
def test_a_removed_type_is_read_and_refused_with_its_version_and_its_successor(source: str) -> None:
    file = read_manifests(POD.format(source=source).encode(), origin="p.yaml")
    assert (file.problems, file.warnings) == ((), ())
    pod = file.objects[0].object
    assert isinstance(pod, Pod)
    with pytest.raises(Refused) as told:
        VolumePluginManager().find_by_spec(VolumeSpec(volume=pod.spec.volumes[0]))
    version, successor = SOURCES[source]
    assert source.partition(":")[0] in told.value.why
    assert f"removed from Kubernetes in {version}" in told.value.why
    assert successor in told.value.next_step


def test_the_same_is_said_of_a_persistent_volume() -> None:
    text = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  rbd: {monitors: [a], image: i}
"""
    (manifest,) = read_manifests(text.encode(), origin="pv.yaml").objects
    assert isinstance(manifest.object, PersistentVolume)
    with pytest.raises(Refused, match=r"rbd was removed from Kubernetes in 1\.31"):
        VolumePluginManager().find_by_spec(VolumeSpec(persistent_volume=manifest.object))


def test_a_type_that_is_merely_not_served_is_named() -> None:
    text = POD.format(source="nfs: {server: s, path: /p}")
    pod = read_manifests(text.encode(), origin="p.yaml").objects[0].object
    assert isinstance(pod, Pod)
    with pytest.raises(Refused, match="mooring has none for the source nfs"):
        VolumePluginManager().find_by_spec(VolumeSpec(volume=pod.spec.volumes[0]))
