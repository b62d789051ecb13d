"""Which files a ConfigMap or Secret becomes: keys, items, modes, users and what may be missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mooring.errors import NotYet
from mooring.host.atomic_writer import PayloadFile
from mooring.kube.objects.pod import ConfigMap, Secret
from mooring.kube.objects.volumes import KeyToPath
from mooring.plugins.interface import Objects

Payload = Mapping[str, PayloadFile]


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """All files of a volume, and the seconds after which they want to be looked at again, if any do."""

    files: Payload
    look_again_after: float | None = None


def config_map_data(objects: Objects, namespace: str, name: str, *, optional: bool) -> Mapping[str, bytes]:
    """The bytes by key of a ConfigMap; of equal keys the binary one wins. An optional missing one is empty."""
    found = objects.config_map(namespace, name)
    if found is None:
        return _missing(objects, "ConfigMap", namespace, name, optional=optional)
    return _bytes_of(found)


def _bytes_of(config_map: ConfigMap) -> Mapping[str, bytes]:
    return {**{key: text.encode() for key, text in config_map.data.items()}, **config_map.binary_data}


def secret_data(objects: Objects, namespace: str, name: str, *, optional: bool) -> Mapping[str, bytes]:
    """The bytes by key of a Secret. An optional missing one is empty."""
    found: Secret | None = objects.secret(namespace, name)
    if found is None:
        return _missing(objects, "Secret", namespace, name, optional=optional)
    return found.data


def _missing(objects: Objects, kind: str, namespace: str, name: str, *, optional: bool) -> Mapping[str, bytes]:
    if optional:
        return {}
    advice = "Create it, correct the name, or mark the volume's source optional: true"
    raise missing_object(objects, kind, namespace, name, advice)


def missing_object(objects: Objects, kind: str, namespace: str, name: str, advice: str) -> NotYet:
    """The wait for an object; one of the same name elsewhere is told, for that is the most common mistake."""
    why = f'{kind.lower()} "{name}" not found in namespace {namespace!r}'
    elsewhere = ", ".join(repr(each) for each in objects.namespaces_with(kind, name))
    if elsewhere:
        why += f", only in {elsewhere}"
        advice = f"A pod can only use those of its own namespace: create it in {namespace!r}, or move the pod"
    return NotYet(f"cannot read {kind} {name!r}", why=why, next_step=advice)


def files_of(
    kind: str,
    name: str,
    data: Mapping[str, bytes],
    items: Sequence[KeyToPath],
    *,
    mode: int,
    user: int | None,
    optional: bool,
) -> Payload:
    """One file per key, or just the listed items at their own paths; of items with one path the last wins."""
    if not items:
        return {key: PayloadFile(data=value, mode=mode, uid=user) for key, value in data.items()}
    payload: dict[str, PayloadFile] = {}
    for item in items:
        value = data.get(item.key)
        if value is None:
            if optional:
                continue
            raise _missing_key(kind, name, item.key, data)
        payload[item.path] = PayloadFile(
            data=value,
            mode=item.mode if item.mode is not None else mode,
            uid=item.user if item.user is not None else user,
        )
    return payload


def _missing_key(kind: str, name: str, key: str, data: Mapping[str, bytes]) -> NotYet:
    why = (
        f"configmap references non-existent config key: {key}"
        if kind == "ConfigMap"
        else f"references non-existent secret key: {key}"
    )
    keys = ", ".join(sorted(data)) or "none"
    return NotYet(f"cannot read {kind} {name!r}", why=why, next_step=f"Its keys are: {keys}")
