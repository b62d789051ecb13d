"""JSON merge patches (RFC 7396), and the three-way merge of a manifest that was applied before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]


def merge(target: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """`target` with `patch` applied: null removes, objects merge, anything else replaces."""
    merged = dict(target)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, Mapping):
            below = merged.get(key)
            merged[key] = merge(below if isinstance(below, Mapping) else {}, value)
        else:
            merged[key] = value
    return merged


def removals(last: Mapping[str, Any], new: Mapping[str, Any]) -> Json:
    """The patch that removes what `last` has and `new` has no more; lists count as one value."""
    patch: Json = {}
    for key, value in last.items():
        if key not in new:
            patch[key] = None
        elif isinstance(value, Mapping) and isinstance(new[key], Mapping):
            below = removals(value, new[key])
            if below:
                patch[key] = below
    return patch


def three_way(*, last: Mapping[str, Any], new: Mapping[str, Any], current: Mapping[str, Any]) -> Json:
    """`current` with all that `new` says, without what only `last` said; what others added stays."""
    return merge(merge(current, removals(last, new)), new)
