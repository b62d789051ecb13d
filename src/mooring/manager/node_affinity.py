"""Whether a PersistentVolume may be used on this node."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.kube.objects.storage import NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume


def matches_node(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    """Whether one term of the volume's node affinity, if it has any, admits a node with these labels."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return any(_admits(term, labels) for term in affinity.required.node_selector_terms)


def _admits(term: NodeSelectorTerm, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions:
        return False  # a term without conditions selects nothing
    return all(_holds(requirement, labels) for requirement in term.match_expressions)


def _holds(requirement: NodeSelectorRequirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
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
