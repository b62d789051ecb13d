"""Whether a PersistentVolume may be used on this node."""

from __future__ import annotations

import pytest

from mooring.kube.objects.storage import (
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from mooring.manager.node_affinity import matches_node

LABELS = {"zone": "a", "cores": "8"}


def needs(key: str, operator: str, *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def volume(*terms: tuple[NodeSelectorRequirement, ...]) -> PersistentVolume:
    selector = NodeSelector(node_selector_terms=tuple(NodeSelectorTerm(match_expressions=term) for term in terms))
    return PersistentVolume(spec=PersistentVolumeSpec(node_affinity=VolumeNodeAffinity(required=selector)))


def test_a_volume_without_affinity_may_be_used_everywhere() -> None:
    assert matches_node(PersistentVolume(), "here", {})
    assert matches_node(PersistentVolume(spec=PersistentVolumeSpec(node_affinity=VolumeNodeAffinity())), "here", {})


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (needs("zone", "In", "a", "b"), True),
        (needs("zone", "In", "b"), False),
        (needs("missing", "In", "a"), False),
        (needs("zone", "NotIn", "b"), True),
        (needs("zone", "NotIn", "a"), False),
        (needs("missing", "NotIn", "a"), True),
        (needs("zone", "Exists"), True),
        (needs("missing", "Exists"), False),
        (needs("zone", "DoesNotExist"), False),
        (needs("missing", "DoesNotExist"), True),
        (needs("cores", "Gt", "4"), True),
        (needs("cores", "Gt", "8"), False),
        (needs("cores", "Lt", "16"), True),
        (needs("cores", "Lt", "8"), False),
        (needs("zone", "Gt", "4"), False),
        (needs("missing", "Lt", "4"), False),
        (needs("cores", "Gt", "many"), False),
        (needs("cores", "Gt"), False),
        (needs("zone", "Resembles", "a"), False),
    ],
)
def test_each_operator_holds_as_kubernetes_says(requirement: NodeSelectorRequirement, holds: bool) -> None:
    assert matches_node(volume((requirement,)), "here", LABELS) is holds


def test_the_requirements_of_a_term_must_all_hold() -> None:
    assert not matches_node(volume((needs("zone", "In", "a"), needs("cores", "Gt", "9"))), "here", LABELS)


def test_one_term_is_enough() -> None:
    assert matches_node(volume((needs("zone", "In", "b"),), (needs("zone", "In", "a"),)), "here", LABELS)


def test_a_term_without_requirements_admits_nobody() -> None:
    assert not matches_node(volume(()), "here", LABELS)


def test_an_affinity_without_terms_admits_nobody() -> None:
    assert not matches_node(volume(), "here", LABELS)


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (needs("metadata.name", "In", "here"), True),
        (needs("metadata.name", "In", "there"), False),
        (needs("metadata.name", "NotIn", "there"), True),
        (needs("metadata.uid", "In", "here"), False),
    ],
)
def test_a_term_may_name_its_node(requirement: NodeSelectorRequirement, holds: bool) -> None:
    named = NodeSelectorTerm(match_fields=(requirement,))
    also_labelled = NodeSelectorTerm(match_fields=(requirement,), match_expressions=(needs("zone", "In", "b"),))
    for term, expected in ((named, holds), (also_labelled, False)):
        affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=(term,)))
        spec = PersistentVolumeSpec(node_affinity=affinity)
        assert matches_node(PersistentVolume(spec=spec), "here", LABELS) is expected
