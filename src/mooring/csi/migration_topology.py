"""Where a migrated volume may be used: zones and regions under the names that CSI drivers give them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import structs

from mooring.csi.migration_sources import CINDER, EBS, GCE, REGION_LABELS, VSPHERE, ZONE_LABELS
from mooring.kube.objects.storage import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    VolumeNodeAffinity,
)

TOPOLOGY_KEYS = {
    EBS: "topology.ebs.csi.aws.com/zone",
    GCE: "topology.gke.io/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
    VSPHERE: "topology.csi.vmware.com/zone",
}
"""The zone key of each driver that has one."""
_VSPHERE_REGION = "topology.csi.vmware.com/region"
_BETA_REGION, _REGION = REGION_LABELS


def topology_to_csi(driver: str, volume: PersistentVolume) -> VolumeNodeAffinity | None:
    """The volume's node affinity with the driver's keys; zones that only its labels tell are added to every term."""
    terms = _terms(volume)
    zone_key, region_key = _kubernetes_keys(volume)
    terms = _renamed_or_added(terms, zone_key, TOPOLOGY_KEYS[driver], volume.metadata.labels.get(zone_key, ""))
    if driver == VSPHERE:
        terms = _renamed_or_added(terms, region_key, _VSPHERE_REGION, volume.metadata.labels.get(region_key, ""))
    elif region_key == _BETA_REGION:
        terms = _renamed(terms, _BETA_REGION, _REGION)
    if not terms:
        return volume.spec.node_affinity
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))


def _terms(volume: PersistentVolume) -> tuple[NodeSelectorTerm, ...]:
    affinity = volume.spec.node_affinity
    return affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()


def _kubernetes_keys(volume: PersistentVolume) -> tuple[str, str]:
    """The zone and region labels in use: those of the affinity count before those of the volume, new before old."""
    used = {requirement.key for term in _terms(volume) for requirement in term.match_expressions}
    beta_zone, zone = ZONE_LABELS
    for known in (used, set(volume.metadata.labels)):
        if zone in known:
            return zone, _REGION
        if beta_zone in known:
            return beta_zone, _BETA_REGION
    return zone, _REGION


def _renamed_or_added(
    terms: tuple[NodeSelectorTerm, ...], old: str, new: str, label: str
) -> tuple[NodeSelectorTerm, ...]:
    if any(requirement.key == old for term in terms for requirement in term.match_expressions):
        return _renamed(terms, old, new)
    values = tuple(value for value in label.split("__") if value.strip())
    if not values:
        return terms
    added = NodeSelectorRequirement(key=new, operator="In", values=values)
    return tuple(_with(term, added) for term in terms or (NodeSelectorTerm(),))


def _with(term: NodeSelectorTerm, added: NodeSelectorRequirement) -> NodeSelectorTerm:
    return structs.replace(term, match_expressions=(*term.match_expressions, added))


def _renamed(terms: Iterable[NodeSelectorTerm], old: str, new: str) -> tuple[NodeSelectorTerm, ...]:
    return tuple(
        structs.replace(
            term,
            match_expressions=tuple(
                structs.replace(each, key=new) if each.key == old else each for each in term.match_expressions
            ),
        )
        for term in terms
    )
