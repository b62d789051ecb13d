"""What an API server writes: objects, lists of them, and lines of a watch."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

import msgspec

from mooring.kube.api import EventType, InternalError, ObjectList, Unreadable, WatchEvent, object_title
from mooring.kube.api_status import Status, error_of
from mooring.kube.objects.kinds import Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta, Value

T = TypeVar("T")


class _ListMeta(Value, frozen=True, kw_only=True):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(Value, Generic[T], frozen=True, kw_only=True):
    metadata: _ListMeta = _ListMeta()
    items: tuple[T, ...] = ()


class _Raw(Value, frozen=True, kw_only=True):
    """A list whose items are yet to be read."""

    metadata: _ListMeta = _ListMeta()
    items: tuple[msgspec.Raw, ...] = ()


class _Name(Value, frozen=True, kw_only=True):
    namespace: str = ""
    name: str = ""


class _Named(Value, frozen=True, kw_only=True):
    """As much of any object as tells which one it is."""

    metadata: _Name = _Name()


class _Line(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


class _Marked(Value, frozen=True, kw_only=True):
    """As much of any object as a bookmark has."""

    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()


class _Resource(Value, frozen=True, kw_only=True):
    name: str = ""


class _Resources(Value, frozen=True, kw_only=True):
    """What a server serves of one version of a group."""

    resources: tuple[_Resource, ...] = ()


class _TokenSpec(Value, frozen=True, kw_only=True):
    expiration_seconds: int | None = None


class _TokenStatus(Value, frozen=True, kw_only=True):
    token: str = ""
    expiration_timestamp: datetime | None = None


class _TokenRequest(Value, frozen=True, kw_only=True):
    spec: _TokenSpec = _TokenSpec()
    status: _TokenStatus = _TokenStatus()


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenToken:
    """A token as an API server gives it out. Its repr does not show it."""

    text: str = field(repr=False)
    expires_at: float  # seconds since the epoch, on the server's clock
    lifetime: float | None  # seconds, which may differ from what was asked for; None when the server does not say


def read_object(kind: Kind[ObjectT], body: bytes, what: str) -> ObjectT:
    """The object that was written; `what` begins the error when it cannot be read."""
    wanted: type[ObjectT] = kind.type
    return _read(body, wanted, what)


def read_list(kind: Kind[ObjectT], body: bytes, what: str) -> ObjectList[ObjectT]:
    """The objects of a list. One that cannot be read costs itself only."""
    try:
        found = _decoder(_list_type(kind.type)).decode(body)
    except msgspec.ValidationError:
        return _read_one_by_one(kind, body, what)
    except msgspec.MsgspecError as error:
        raise _nonsense(what, error) from error
    meta = found.metadata
    return ObjectList(items=found.items, resource_version=meta.resource_version, continue_token=meta.continue_)


def _read_one_by_one(kind: Kind[ObjectT], body: bytes, what: str) -> ObjectList[ObjectT]:
    written = _read(body, _Raw, what)
    found = [_read_or_tell(kind, bytes(each)) for each in written.items]
    meta = written.metadata
    return ObjectList(
        items=[each for each in found if not isinstance(each, Unreadable)],
        resource_version=meta.resource_version,
        continue_token=meta.continue_,
        unreadable=[each for each in found if isinstance(each, Unreadable)],
    )


def _read_or_tell(kind: Kind[ObjectT], raw: bytes) -> ObjectT | Unreadable:
    """An object, or which one it is that cannot be read and why."""
    decoder: msgspec.json.Decoder[ObjectT] = _decoder(kind.type)
    with contextlib.suppress(msgspec.MsgspecError):
        return decoder.decode(raw)
    try:
        name = _read(raw, _Named, f"cannot read the name of a {kind}").metadata
    except InternalError as error:
        return Unreadable(key="", error=error)
    try:
        return read_object(kind, raw, f"cannot read {object_title(kind, name.namespace, name.name)}")
    except InternalError as error:
        return Unreadable(key=f"{name.namespace}/{name.name}" if name.namespace else name.name, error=error)


def read_event(kind: Kind[ObjectT], line: bytes, what: str) -> WatchEvent[ObjectT]:
    """The event that a line of a watch tells.

    An object that is new or has changed and cannot be read is told as such. That one has gone must not be missed: then
    the line makes no sense, and what is left is listed.
    """
    written = _read(line, _Line, what)
    raw = bytes(written.object)
    match written.type:
        case "ERROR":
            error = error_of(_read(raw, Status, what).code, raw, {}, what)
            return WatchEvent(type=EventType.ERROR, resource_version="", error=error)
        case "BOOKMARK":
            meta = _read(raw, _Marked, what).metadata
            version = meta.resource_version
            return WatchEvent(type=EventType.BOOKMARK, resource_version=version, annotations=meta.annotations)
        case "ADDED" | "MODIFIED":
            read = _read_or_tell(kind, raw)
            if isinstance(read, Unreadable):
                return WatchEvent(type=EventType(written.type), resource_version="", unreadable=read)
            version = read.metadata.resource_version
            return WatchEvent(type=EventType(written.type), resource_version=version, object=read)
        case "DELETED":
            gone = read_object(kind, raw, what)
            return WatchEvent(type=EventType.DELETED, resource_version=gone.metadata.resource_version, object=gone)
        case other:
            raise InternalError(what, why=f"the API server tells of an event {other!r}, which nobody knows")


def read_token(body: bytes, what: str) -> GivenToken:
    """The token in the answer to a TokenRequest."""
    found = _read(body, _TokenRequest, what)
    ends, lifetime = found.status.expiration_timestamp, found.spec.expiration_seconds
    if not found.status.token or ends is None:
        raise InternalError(what, why="the API server answered without a token, or did not say when it ends")
    return GivenToken(text=found.status.token, expires_at=ends.timestamp(), lifetime=lifetime)


def read_resources(body: bytes, what: str) -> frozenset[str]:
    """The plurals that a server serves of one version of a group."""
    return frozenset(each.name for each in _read(body, _Resources, what).resources)


def is_status(body: bytes, what: str) -> bool:
    """Whether a server answered with a Status instead of an object."""
    return _read(body, _Marked, what).kind == "Status"


@functools.cache
def _list_type(owner: type[T]) -> type[_List[T]]:
    return _List[owner]  # type: ignore[valid-type]


@functools.cache
def _decoder(wanted: type[T]) -> msgspec.json.Decoder[T]:
    return msgspec.json.Decoder(wanted)


def _read(body: bytes, wanted: type[T], what: str) -> T:
    decoder: msgspec.json.Decoder[T] = _decoder(wanted)  # type: ignore[arg-type]
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        return _read_without_nulls(body, decoder, what, error)
    except msgspec.MsgspecError as error:
        raise _nonsense(what, error) from error


def _read_without_nulls(body: bytes, decoder: msgspec.json.Decoder[T], what: str, first: Exception) -> T:
    """Go writes null for an empty list that has to be there (a CSINode without drivers): it is as good as not there.

    That is rare, and takes ten times as long: it is done only for what could not be read as it is.
    """
    try:
        return decoder.decode(msgspec.json.encode(_without_nulls(msgspec.json.decode(body))))
    except msgspec.MsgspecError:
        raise _nonsense(what, first) from first


def _without_nulls(value: Any) -> Any:
    match value:
        case Mapping():
            return {key: _without_nulls(item) for key, item in value.items() if item is not None}
        case list():
            return [_without_nulls(item) for item in value]
        case _:
            return value


def _nonsense(what: str, error: Exception) -> InternalError:
    return InternalError(what, why=f"the API server's answer makes no sense: {error}")
