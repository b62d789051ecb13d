"""Kubernetes objects from and to the outside: manifests for people, JSON for the store."""

from __future__ import annotations

import base64
import functools
from typing import Any

import msgspec

from mooring.errors import InvalidInput
from mooring.kube.manifest import Manifest, ManifestFile
from mooring.kube.manifest_reader import ManifestReader
from mooring.kube.objects.kinds import Kind, ObjectT, kind_of
from mooring.kube.objects.meta import KubernetesObject

__all__ = ["Manifest", "ManifestFile", "decode", "encode", "read_manifests", "to_manifest"]


def read_manifests(text: bytes, *, origin: str, keep_lines: bool = False) -> ManifestFile:
    """The objects of a YAML or JSON file, checked as an API server would, with every problem and warning it has.

    Nothing is defaulted. A file with a problem holds no objects: its last good version stays in force. With
    `keep_lines` every object knows the lines of its fields, else only its own.
    """
    reader = ManifestReader(origin, keep_lines=keep_lines)
    reader.read(text)
    return ManifestFile(
        origin=origin,
        objects=() if reader.problems else tuple(reader.manifests),
        problems=tuple(reader.problems),
        warnings=tuple(reader.warnings),
    )


_encoder = msgspec.json.Encoder()


@functools.cache
def _decoder(owner: type[ObjectT]) -> msgspec.json.Decoder[ObjectT]:
    return msgspec.json.Decoder(owner)


def encode(obj: KubernetesObject) -> bytes:
    """The object as JSON without its defaults; `decode` gives back an equal object."""
    return _encoder.encode(obj)


def decode(kind: Kind[ObjectT], data: bytes) -> ObjectT:
    """The object that was encoded."""
    decoder: msgspec.json.Decoder[ObjectT] = _decoder(kind.type)
    try:
        return decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"cannot read a stored {kind}", why=str(error)) from error


def to_manifest(obj: KubernetesObject) -> dict[str, Any]:
    """The object as a person would write it: `apiVersion` and `kind` first, defaults left out, bytes in base64."""
    kind = kind_of(obj)
    return {"apiVersion": kind.api_version, "kind": kind.name, **_fields_to_plain(obj)}


def _fields_to_plain(value: msgspec.Struct) -> dict[str, Any]:
    plain = {}
    for field in _fields(type(value)):
        item = getattr(value, field.name)
        if item != _default_of(field):
            plain[field.encode_name] = _to_plain(item)
    return plain


@functools.cache
def _fields(owner: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(owner)


def _default_of(field: msgspec.structs.FieldInfo) -> Any:
    return field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default


def _to_plain(value: Any) -> Any:
    match value:
        case msgspec.Struct():
            return _fields_to_plain(value)
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case list() | tuple():
            return [_to_plain(item) for item in value]
        case dict():
            return {key: _to_plain(item) for key, item in value.items()}
        case _:
            return value
