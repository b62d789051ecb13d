"""Strategic merge patches: lists are merged by what tells their items apart, as Kubernetes does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mooring.kube.merge_patch import Json

Path = tuple[str, ...]

_LIST = (list, tuple)
_DIRECTIVE = "$patch"
_RETAIN = "$retainKeys"
_REMOVE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"

_CONTAINER = {
    ("env",): "name",
    ("ports",): "containerPort",
    ("volumeDevices",): "devicePath",
    ("volumeMounts",): "mountPath",
}
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")

_ALL: Mapping[Path, str] = {("metadata", "ownerReferences"): "uid", ("status", "conditions"): "type"}
_KEYS: Mapping[str, Mapping[Path, str]] = {
    "CSINode": {("spec", "drivers"): "name"},
    "Node": {("status", "addresses"): "type"},
    "Pod": {
        ("spec", "hostAliases"): "ip",
        ("spec", "imagePullSecrets"): "name",
        ("spec", "resourceClaims"): "name",
        ("spec", "schedulingGates"): "name",
        ("spec", "topologySpreadConstraints"): "topologyKey",
        ("spec", "volumes"): "name",
        ("status", "hostIPs"): "ip",
        ("status", "podIPs"): "ip",
        ("status", "resourceClaimStatuses"): "name",
        **{("spec", each): "name" for each in _CONTAINERS},
        **{("spec", each, *path): key for each in _CONTAINERS for path, key in _CONTAINER.items()},
    },
    "ServiceAccount": {("secrets",): "name"},
}
"""The field by which the items of a list are told apart. A list that is not here is one value, as taints are."""

_SETS: Mapping[str, frozenset[Path]] = {"Node": frozenset({("spec", "podCIDRs")})}
_SETS_OF_ALL = frozenset({("metadata", "finalizers")})
"""Lists of texts to which a patch adds."""


def strategic_merge(kind: str, target: Mapping[str, Any], patch: Mapping[str, Any]) -> Json:
    """`target`, an object of this kind, with `patch` applied. `ValueError` says what is wrong with the patch.

    The order that a patch wants for the items of a list is not looked at: what is there stays where it is.
    """
    return _Merging(kind).objects(target, patch, ())


class _Merging:
    def __init__(self, kind: str) -> None:
        self._keys = {**_ALL, **_KEYS.get(kind, {})}
        self._sets = _SETS_OF_ALL | _SETS.get(kind, frozenset())

    def objects(self, target: Mapping[str, Any], patch: Mapping[str, Any], path: Path) -> Json:
        fields = {name: value for name, value in patch.items() if not name.startswith("$")}
        match patch.get(_DIRECTIVE, "merge"):
            case "replace":
                return self._filled({}, fields, path)
            case "delete":
                return {}
            case "merge":
                pass
            case other:
                raise ValueError(f"{_where(path)} has {_DIRECTIVE}: {other!r}, which nobody knows")
        merged = self._filled(target, fields, path)
        for name, value in patch.items():
            if name.startswith(_REMOVE_FROM):
                _remove(merged, name.removeprefix(_REMOVE_FROM), value)
            elif name == _RETAIN:
                merged = {field: merged[field] for field in merged if field in value}
            elif name.startswith("$") and name != _DIRECTIVE and not name.startswith(_ORDER):
                raise ValueError(f"{_where(path)} has {name!r}, which nobody knows")
        return merged

    def _filled(self, target: Mapping[str, Any], fields: Mapping[str, Any], path: Path) -> Json:
        merged = dict(target)
        for name, value in fields.items():
            here, below = merged.get(name), (*path, name)
            if value is None:
                merged.pop(name, None)
            elif isinstance(value, Mapping):
                merged[name] = self.objects(here if isinstance(here, Mapping) else {}, value, below)
            elif isinstance(value, _LIST):
                merged[name] = self._lists(here if isinstance(here, _LIST) else [], value, below)
            else:
                merged[name] = value
        return merged

    def _lists(self, target: Sequence[Any], patch: Sequence[Any], path: Path) -> list[Any]:
        if path in self._sets:
            return list(dict.fromkeys([*target, *patch]))
        key = self._keys.get(path)
        return list(patch) if key is None else self._items(target, patch, key, path)

    def _items(self, target: Sequence[Any], patch: Sequence[Any], key: str, path: Path) -> list[Any]:
        replaced = any(isinstance(item, Mapping) and item.get(_DIRECTIVE) == "replace" for item in patch)
        merged: dict[Any, Json] = {} if replaced else {item.get(key): dict(item) for item in target}
        for item in patch:
            if not isinstance(item, Mapping):
                raise ValueError(f"an item of {_where(path)} is no object")
            if item.get(_DIRECTIVE) == "replace":
                continue
            if item.get(key) is None:
                raise ValueError(f"an item of {_where(path)} has no {key!r}, which tells it from the others")
            if item.get(_DIRECTIVE) == "delete":
                merged.pop(item[key], None)
            else:
                merged[item[key]] = self.objects(merged.get(item[key], {}), item, path)
        return list(merged.values())


def _remove(merged: Json, name: str, values: Sequence[Any]) -> None:
    if isinstance(merged.get(name), _LIST):
        merged[name] = [value for value in merged[name] if value not in values]


def _where(path: Path) -> str:
    return repr(".".join(path)) if path else "the patch"
