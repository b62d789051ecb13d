"""Secrets: what they hold, and what the type of one asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from mooring.kube.field_errors import FieldProblem, quoted
from mooring.kube.objects.pod import Secret

_NEEDED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}
_JSON = (".dockercfg", ".dockerconfigjson")
_BASIC_AUTH, _EITHER = "kubernetes.io/basic-auth", ("username", "password")
_TOKEN, _ACCOUNT = "kubernetes.io/service-account-token", "kubernetes.io/service-account.name"


def all_data(secret: Secret) -> dict[str, bytes]:
    """What the Secret holds, however it is written down."""
    return {**secret.data, **{key: text.encode() for key, text in secret.string_data.items()}}


def type_problems(secret: Secret) -> Iterator[FieldProblem]:
    """What is missing or wrong for a Secret of this type. Types that nobody knows ask for nothing."""
    data = all_data(secret)
    if secret.type == _TOKEN and not secret.metadata.annotations.get(_ACCOUNT):
        path = ("metadata", "annotations", _ACCOUNT)
        yield FieldProblem(path=path, why="it is required and missing", next_step="Add the name of a service account")
    if secret.type == _BASIC_AUTH and not any(key in data for key in _EITHER):
        for key in _EITHER:
            yield FieldProblem(path=("data", key), why=_missing(secret), next_step="Add one of the two")
    for key in _NEEDED.get(secret.type, ()):
        yield from _key_problems(secret, data, key)


def _key_problems(secret: Secret, data: Mapping[str, bytes], key: str) -> Iterator[FieldProblem]:
    if key not in data or (key == "ssh-privatekey" and not data[key]):
        yield FieldProblem(path=("data", key), why=_missing(secret), next_step="Add it, or use the type Opaque")
    elif key in _JSON and not _is_json_object(data[key]):
        yield FieldProblem(path=("data", key), why="it is no JSON object")


def _missing(secret: Secret) -> str:
    return f"a Secret of type {quoted(secret.type)} needs it, and it is missing"


def _is_json_object(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
