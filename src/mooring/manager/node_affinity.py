"""Whether a PersistentVolume may be used on this node."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.kube.objects.storage import NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume

_NAME = "metadata.name"  # the one field that a term may ask for


def matches_node(volume: PersistentVolume, node: str, labels: Mapping[str, str]) -> bool:
    """Whether one term of the volume's node affinity, if it has any, admits the node of this name and these labels."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(_admits(term, {_NAME: node}, labels) for term in affinity.required.node_selector_terms)


def _admits(term: NodeSelectorTerm, fields: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False  # a term without conditions selects nothing
    return all(_holds(each, labels) for each in term.match_expressions) and all(
        _holds(each, fields) for each in term.match_fields
    )


def _holds(requirement: NodeSelectorRequirement, known: Mapping[str, str]) -> bool:
    value = known.get(requirement.key)
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(requirement, value)
    return False


def _compares(requirement: NodeSelectorRequirement, value: str | None) -> bool:
    try:
        have, bound = int(value or ""), int(requirement.values[0])
    except (ValueError, IndexError):
        return False
    return have > bound if requirement.operator == "Gt" else have < bound
