"""In-tree types that Kubernetes moved to CSI, translated there and back."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from mooring.csi.migration import TRANSLATORS, to_csi, to_in_tree, translator_of
from mooring.errors import Refused
from mooring.kube.objects.meta import ObjectMeta, ObjectReference, SecretReference
from mooring.kube.objects.storage import (
    CSIPersistentVolumeSource,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from mooring.kube.objects.volumes import EmptyDirVolumeSource, Volume
from mooring.world.spec import VolumeSpec


def persistent(
    field: str,
    source: dict[str, Any],
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    affinity: VolumeNodeAffinity | None = None,
    modes: tuple[str, ...] = (),
) -> PersistentVolume:
    plain = PersistentVolumeSpec(
        node_affinity=affinity, access_modes=modes, claim_ref=ObjectReference(namespace="shop", name="data")
    )
    spec = structs.replace(plain, **{field: source})
    meta = ObjectMeta(name="pv1", labels=labels or {}, annotations=annotations or {})
    return PersistentVolume(metadata=meta, spec=spec)


def translated(volume: PersistentVolume) -> PersistentVolume:
    found = to_csi(VolumeSpec(persistent_volume=volume), namespace="shop").persistent_volume
    assert found is not None
    return found


def csi_of(volume: PersistentVolume) -> CSIPersistentVolumeSource:
    found = translated(volume).spec.csi
    assert found is not None
    return found


def inline(volume: Volume) -> PersistentVolume:
    found = to_csi(VolumeSpec(volume=volume), namespace="shop").persistent_volume
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("field", "source", "handle", "attributes"),
    [
        ("aws_elastic_block_store", {"volumeID": "vol-1", "partition": 2}, "vol-1", {"partition": "2"}),
        ("aws_elastic_block_store", {"volumeID": "aws://us-west-2a/vol-1"}, "vol-1", {"partition": "0"}),
        ("cinder", {"volumeID": "v"}, "v", {}),
        ("vsphere_volume", {"volumePath": "[ds] v.vmdk"}, "[ds] v.vmdk", {}),
        ("vsphere_volume", {"volumePath": "p", "storagePolicyName": "gold"}, "p", {"storagepolicyname": "gold"}),
        ("portworx_volume", {"volumeID": "v"}, "v", {}),
        ("azure_disk", {"diskURI": "/x/disks/d", "diskName": "d"}, "/x/disks/d", {"kind": "Managed"}),
        (
            "azure_disk",
            {"diskURI": "/x/disks/d", "kind": "managed", "cachingMode": "None", "fsType": "xfs"},
            "/x/disks/d",
            {"kind": "Managed", "cachingmode": "None", "fstype": "xfs"},
        ),
        ("gce_persistent_disk", {"pdName": "d"}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d", {"partition": ""}),
    ],
)
def test_handles_and_attributes_are_those_of_the_driver(
    field: str, source: dict[str, Any], handle: str, attributes: dict[str, str]
) -> None:
    csi = csi_of(persistent(field, source))
    assert (csi.volume_handle, csi.volume_attributes) == (handle, attributes)


def test_a_disk_of_google_is_found_by_its_zone_or_by_the_region_of_several() -> None:
    one = persistent("gce_persistent_disk", {"pdName": "d"}, labels={"topology.kubernetes.io/zone": "us-east1-b"})
    assert csi_of(one).volume_handle == "projects/UNSPECIFIED/zones/us-east1-b/disks/d"
    zones = {"failure-domain.beta.kubernetes.io/zone": "us-east1-b__us-east1-c"}
    assert csi_of(persistent("gce_persistent_disk", {"pdName": "d"}, labels=zones)).volume_handle == (
        "projects/UNSPECIFIED/regions/us-east1/disks/d"
    )


@pytest.mark.parametrize(
    ("modes", "normalised"),
    [
        (("ReadWriteMany",), ("ReadWriteOnce",)),
        (("ReadOnlyMany",), ("ReadOnlyMany",)),
        (("ReadOnlyMany", "ReadWriteOnce"), ("ReadWriteOnce",)),
        ((), ("ReadWriteOnce",)),
    ],
)
def test_access_modes_of_googles_disks_are_normalised(modes: tuple[str, ...], normalised: tuple[str, ...]) -> None:
    assert translated(persistent("gce_persistent_disk", {"pdName": "d"}, modes=modes)).spec.access_modes == normalised


def test_a_share_of_azure_names_account_share_volume_and_namespace() -> None:
    source = {"secretName": "azure-storage-account-acct-secret", "shareName": "share"}
    group = {"kubernetes.io/azure-file-resource-group": "rg"}
    csi = csi_of(persistent("azure_file", source, annotations=group))
    assert csi.volume_handle == "rg#acct#share#pv1#shop"
    assert csi.node_stage_secret_ref == SecretReference(name="azure-storage-account-acct-secret", namespace="shop")


def test_the_secret_of_portworx_serves_every_call() -> None:
    notes = {"openstorage.io/auth-secret-name": "s", "openstorage.io/auth-secret-namespace": "n"}
    csi = csi_of(persistent("portworx_volume", {"volumeID": "v"}, annotations=notes))
    wanted = SecretReference(name="s", namespace="n")
    assert csi.node_publish_secret_ref == csi.node_stage_secret_ref == csi.controller_expand_secret_ref == wanted


def test_an_unmanaged_disk_of_azure_has_no_successor() -> None:
    with pytest.raises(Refused, match="only disks of kind Managed"):
        translated(persistent("azure_disk", {"diskURI": "u", "kind": "Dedicated"}))


def test_a_strange_volume_of_amazon_is_refused() -> None:
    with pytest.raises(Refused, match="names no volume"):
        translated(persistent("aws_elastic_block_store", {"volumeID": "aws://zone/snap-1"}))


def test_a_volume_written_in_a_pod_becomes_a_persistent_one_of_its_own() -> None:
    volume = inline(Volume(name="v", aws_elastic_block_store={"volumeID": "vol-1"}))
    assert volume.metadata.name == "ebs.csi.aws.com-vol-1"
    assert (volume.spec.access_modes, volume.spec.volume_mode) == (("ReadWriteOnce",), "Filesystem")
    disk = inline(Volume(name="v", gce_persistent_disk={"pdName": "d", "readOnly": True}))
    assert (disk.metadata.name, disk.spec.access_modes) == ("pd.csi.storage.gke.io-d", ("ReadOnlyMany",))


def zone_affinity(key: str, *zones: str) -> VolumeNodeAffinity:
    requirement = NodeSelectorRequirement(key=key, operator="In", values=zones)
    return VolumeNodeAffinity(
        required=NodeSelector(node_selector_terms=(NodeSelectorTerm(match_expressions=(requirement,)),))
    )


def test_the_zone_of_the_affinity_gets_the_drivers_key() -> None:
    old = zone_affinity("failure-domain.beta.kubernetes.io/zone", "us-west-2a")
    found = translated(persistent("aws_elastic_block_store", {"volumeID": "vol-1"}, affinity=old))
    assert found.spec.node_affinity == zone_affinity("topology.ebs.csi.aws.com/zone", "us-west-2a")


def test_zones_that_only_labels_tell_become_an_affinity() -> None:
    labels = {"topology.kubernetes.io/zone": "a__b"}
    found = translated(persistent("cinder", {"volumeID": "v"}, labels=labels))
    assert found.spec.node_affinity == zone_affinity("topology.cinder.csi.openstack.org/zone", "a", "b")


def test_azures_disks_keep_their_affinity() -> None:
    kept = zone_affinity("topology.kubernetes.io/zone", "1")
    found = translated(persistent("azure_disk", {"diskURI": "/x/disks/d"}, affinity=kept))
    assert found.spec.node_affinity == kept


@pytest.mark.parametrize(
    ("field", "source"),
    [
        ("aws_elastic_block_store", {"volumeID": "vol-1", "fsType": "ext4", "readOnly": True, "partition": 1}),
        ("gce_persistent_disk", {"pdName": "d", "fsType": "ext4"}),
        ("cinder", {"volumeID": "v", "fsType": "xfs"}),
        ("azure_disk", {"diskName": "d", "diskURI": "/x/disks/d", "kind": "Managed", "cachingMode": "None"}),
        ("azure_file", {"secretName": "s", "shareName": "n", "secretNamespace": "shop"}),
        ("portworx_volume", {"volumeID": "v", "fsType": "ext4"}),
    ],
)
def test_there_and_back_is_where_it_began(field: str, source: dict[str, Any]) -> None:
    back = to_in_tree(translated(persistent(field, source)))
    assert getattr(back.spec, field) == source
    assert back.spec.csi is None


def test_other_types_and_drivers_have_no_translation() -> None:
    assert translator_of(VolumeSpec(volume=Volume(name="v", empty_dir=EmptyDirVolumeSource()))) is None
    with pytest.raises(Refused, match="never rewritten"):
        to_csi(VolumeSpec(volume=Volume(name="v", empty_dir=EmptyDirVolumeSource())), namespace="shop")
    foreign = CSIPersistentVolumeSource(driver="other.example", volume_handle="1")
    with pytest.raises(Refused, match="no in-tree ancestor"):
        to_in_tree(PersistentVolume(metadata=ObjectMeta(name="pv1"), spec=PersistentVolumeSpec(csi=foreign)))


def test_every_type_has_a_driver_of_its_own() -> None:
    assert len({each.driver for each in TRANSLATORS}) == len(TRANSLATORS) == 7
