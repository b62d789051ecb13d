"""The API protocol: what informers, populator and controllers may ask, on either store."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol

from mooring.errors import MooringError
from mooring.kube.objects.kinds import Kind, ObjectT


class ApiError(MooringError):
    """The API answered no. `code` is the HTTP status that a Kubernetes API server gives for it."""

    code = 500
    retry_after = 0.0  # seconds that the server asks for before the next try
    answered = True  # by a server, be it that it can do nothing now; else none was reached


class Unauthorized(ApiError):
    """The server does not know who asks."""

    code = 401


class Forbidden(ApiError):
    """Who asks may not do this."""

    code = 403


class NotFound(ApiError):
    code = 404


class AlreadyExists(ApiError):
    code = 409


class Conflict(ApiError):
    """The object changed since it was read, or a precondition does not hold."""

    code = 409


class Expired(ApiError):
    """The resourceVersion or continue token is too old to answer from."""

    code = 410


class TooLargeResourceVersion(ApiError):
    """The resourceVersion asked for lies in the future of this server."""

    code = 504


class Invalid(ApiError):
    code = 422


class TooManyRequests(ApiError):
    code = 429


class ConnectionRefused(ApiError):
    """Nobody listens at the API server's address."""

    code = 503
    answered = False


class InternalError(ApiError):
    code = 500


UNANSWERED = (ConnectionRefused, InternalError, TooManyRequests)
"""Errors after which nothing is known of what was asked: the server is away, ailing or overburdened."""


class EventType(enum.Enum):
    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"
    ERROR = "ERROR"


INITIAL_EVENTS_END = "k8s.io/initial-events-end"
"""Annotation of the bookmark that ends the initial events of a streaming list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreadable:
    """An object that is there, but of which nobody can make sense. The error tells nothing of what it holds."""

    key: str  # `namespace/name`, or the name; empty when not even that can be read
    error: ApiError


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchEvent(Generic[ObjectT]):
    """One event of a watch. A bookmark carries only a resourceVersion; an ERROR carries the error instead.

    The event of an object that cannot be read carries that instead of the object, and is to be skipped.
    """

    type: EventType
    resource_version: str
    object: ObjectT | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    error: ApiError | None = None
    unreadable: Unreadable | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectList(Generic[ObjectT]):
    """Objects at one resourceVersion. Those that cannot be read are not among the items."""

    items: Sequence[ObjectT]
    resource_version: str
    continue_token: str = ""
    unreadable: Sequence[Unreadable] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOptions:
    """What to list. `resource_version` is "" for the newest, "0" for any, else "not older than"."""

    namespace: str = ""  # "" is all namespaces
    label_selector: str = ""
    field_selector: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""
    resource_version: str = ""
    allow_bookmarks: bool = True
    timeout_seconds: int | None = None
    send_initial_events: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Preconditions:
    uid: str | None = None
    resource_version: str | None = None


LIST_ALL = ListOptions()
WATCH_ALL = WatchOptions()
NO_PRECONDITIONS = Preconditions()


class ListerWatcher(Protocol):
    """The reading half of the API that a `Reflector` needs. Raises `ApiError` and nothing else on purpose."""

    async def list(self, kind: Kind[ObjectT], options: ListOptions = ...) -> ObjectList[ObjectT]: ...

    def watch(
        self, kind: Kind[ObjectT], options: WatchOptions = ...
    ) -> AbstractAsyncContextManager[AsyncIterator[WatchEvent[ObjectT]]]:
        """A stream of events; leaving the context closes it. Opening may raise (410, 429, refused)."""
        ...


class Reader(ListerWatcher, Protocol):
    """The reading half of the API. Raises `ApiError` and nothing else on purpose."""

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT: ...


class Api(Reader, Protocol):
    """Kubernetes' API as far as mooring uses it. All methods raise `ApiError` and nothing else on purpose."""

    async def create(self, obj: ObjectT) -> ObjectT:
        """Create; the status is the server's own except for a Node. `generateName` picks a free name."""
        ...

    async def patch(
        self, kind: Kind[ObjectT], namespace: str, name: str, merge: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        """Apply a JSON merge patch. `metadata.resourceVersion` in it makes the patch conditional.

        With `subresource="status"` only the status changes; without, only the rest. Returns the object as it was
        left; when the patch removes the last finalizer of a deleted object, the object as it went.
        """
        ...

    async def patch_strategically(
        self, kind: Kind[ObjectT], namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        """As `patch`, with a strategic merge patch: of lists such as conditions only the items it names change."""
        ...

    async def delete(
        self,
        kind: Kind[ObjectT],
        namespace: str,
        name: str,
        *,
        preconditions: Preconditions = ...,
        grace_period: int | None = None,
    ) -> ObjectT | None:
        """Delete, or with finalizers set the deletionTimestamp; returns the object as it was left.

        Of one that is gone at once a server may say no more than that: then nothing is returned.

        `grace_period` is for Pods, in seconds: a server leaves one that is on a node there for so long, or for as long
        as the Pod says, until its node deletes it with 0. Where no node has to agree, all are deleted at once.
        """
        ...


def object_title(kind: Kind[ObjectT], namespace: str, name: str) -> str:
    """How an object is called in messages: `Pod 'default/web'`."""
    return f"{kind} '{namespace}/{name}'" if namespace else f"{kind} '{name}'"


def not_found(kind: Kind[ObjectT], namespace: str, name: str) -> NotFound:
    return NotFound(f"cannot find {object_title(kind, namespace, name)}", why="no such object exists")
