"""The API protocol on a real Kubernetes API server."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import aiohttp
import msgspec

from mooring.kube.api import (
    LIST_ALL,
    NO_PRECONDITIONS,
    WATCH_ALL,
    ApiError,
    Invalid,
    ListOptions,
    NotFound,
    ObjectList,
    Preconditions,
    WatchEvent,
    WatchOptions,
    object_title,
)
from mooring.kube.api_transport import Request, Transport
from mooring.kube.codec import to_manifest
from mooring.kube.kubeconfig import Access
from mooring.kube.objects.kinds import SERVICE_ACCOUNT, Kind, ObjectT, kind_of
from mooring.kube.wire import (
    GivenToken,
    is_status,
    read_event,
    read_list,
    read_object,
    read_resources,
    read_token,
)

_MERGE = "application/merge-patch+json"
_STRATEGIC_MERGE = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"  # JSON is YAML too
_GRACE = 30.0
"""Seconds after which a watch that the server should have ended is ended here."""
_NOTHING: Mapping[str, str] = {}


class ApiServer:
    """Asks one server. All methods raise `ApiError` and nothing else on purpose; use it as a context manager."""

    def __init__(self, access: Access, *, agent: str = "mooring") -> None:
        self._transport = Transport(access, agent=agent)

    async def __aenter__(self) -> ApiServer:
        await self._transport.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all connections; watches that are open end with them."""
        await self._transport.__aexit__()

    @property
    def trouble(self) -> ApiError | None:
        """Why the server did not answer when it was last asked; None when it did, whatever it said."""
        return self._transport.trouble

    async def until_back(self) -> None:
        """Return when the server serves again after it was away, or could do nothing for whoever asked."""
        await self._transport.reachability.until_back()

    # -- reading ---------------------------------------------------------------------------------------------------
    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        what = f"cannot read {object_title(kind, namespace, name)}"
        body = await self._transport.call(Request(method="GET", path=_object(kind, namespace, name, what), what=what))
        return read_object(kind, body, what)

    async def list(self, kind: Kind[ObjectT], options: ListOptions = LIST_ALL) -> ObjectList[ObjectT]:
        version = options.resource_version
        query = {
            "labelSelector": options.label_selector,
            "fieldSelector": options.field_selector,
            "limit": str(options.limit) if options.limit else "",
            "continue": options.continue_token,
            "resourceVersion": version,
            "resourceVersionMatch": "NotOlderThan" if version not in ("", "0") else "",
        }
        what = f"cannot list {kind.plural}"
        request = Request(method="GET", path=_collection(kind, options.namespace), query=query, what=what)
        return read_list(kind, await self._transport.call(request), what)

    @asynccontextmanager
    async def watch(
        self, kind: Kind[ObjectT], options: WatchOptions = WATCH_ALL
    ) -> AsyncIterator[AsyncIterator[WatchEvent[ObjectT]]]:
        initial = options.send_initial_events
        query = {
            "watch": "1",
            "labelSelector": options.label_selector,
            "fieldSelector": options.field_selector,
            "resourceVersion": options.resource_version,
            "allowWatchBookmarks": "true" if options.allow_bookmarks or initial else "",
            "timeoutSeconds": str(options.timeout_seconds) if options.timeout_seconds else "",
            "sendInitialEvents": "true" if initial else "",
            "resourceVersionMatch": "NotOlderThan" if initial else "",
        }
        what = f"cannot watch {kind.plural}"
        request = Request(method="GET", path=_collection(kind, options.namespace), query=query, what=what)
        seconds = options.timeout_seconds + _GRACE if options.timeout_seconds else math.inf
        async with self._transport.open(request) as response:
            pieces = self._transport.pieces(response, seconds=seconds)
            async with aclosing(_events(kind, pieces, what)) as events:
                yield events

    async def served(self, kind: Kind[ObjectT]) -> Kind[ObjectT] | None:
        """The kind in the newest version that this server has, or None when it has it in no version that we know."""
        what = f"cannot find out whether {kind.plural} are served"
        for version in (kind.api_version, *kind.older_versions):
            try:
                body = await self._transport.call(Request(method="GET", path=_version(version), what=what))
            except NotFound:
                continue
            if kind.plural in read_resources(body, what):
                return replace(kind, api_version=version)
        return None

    # -- writing ---------------------------------------------------------------------------------------------------
    async def create(self, obj: ObjectT) -> ObjectT:
        kind, meta = kind_of(obj), obj.metadata
        what = f"cannot create {object_title(kind, meta.namespace, meta.name or meta.generate_name)}"
        path = _collection(kind, meta.namespace)
        return read_object(kind, await self._write("POST", path, to_manifest(obj), what), what)

    async def patch(
        self, kind: Kind[ObjectT], namespace: str, name: str, merge: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        return await self._patch(kind, namespace, name, merge, subresource, content_type=_MERGE)

    async def patch_strategically(
        self, kind: Kind[ObjectT], namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        return await self._patch(kind, namespace, name, patch, subresource, content_type=_STRATEGIC_MERGE)

    async def apply(self, obj: ObjectT, *, field_manager: str, force: bool = False, subresource: str = "") -> ObjectT:
        """Let all that an object says be so, and own it (server-side apply). `force` takes it from other managers.

        A `Conflict` names who else owns a field that would change.
        """
        kind, meta = kind_of(obj), obj.metadata
        query = {"fieldManager": field_manager, "force": "true" if force else ""}
        return await self._patch(
            kind, meta.namespace, meta.name, to_manifest(obj), subresource, content_type=_APPLY, query=query
        )

    async def _patch(
        self,
        kind: Kind[ObjectT],
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        subresource: str,
        *,
        content_type: str,
        query: Mapping[str, str] = _NOTHING,
    ) -> ObjectT:
        what = f"cannot change {object_title(kind, namespace, name)}"
        path = _object(kind, namespace, name, what) + (f"/{subresource}" if subresource else "")
        body = await self._write("PATCH", path, patch, what, content_type=content_type, query=query)
        return read_object(kind, body, what)

    async def delete(
        self,
        kind: Kind[ObjectT],
        namespace: str,
        name: str,
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> ObjectT | None:
        what = f"cannot delete {object_title(kind, namespace, name)}"
        path = _object(kind, namespace, name, what)
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_period is not None:
            options["gracePeriodSeconds"] = grace_period
        conditions = {"uid": preconditions.uid, "resourceVersion": preconditions.resource_version}
        if any(conditions.values()):
            options["preconditions"] = {key: value for key, value in conditions.items() if value}
        body = await self._write("DELETE", path, options, what)
        return None if is_status(body, what) else read_object(kind, body, what)

    async def request_token(self, namespace: str, account: str, spec: Mapping[str, Any]) -> GivenToken:
        """A token of a service account; `spec` is that of a TokenRequest."""
        what = f"cannot get a token of {object_title(SERVICE_ACCOUNT, namespace, account)}"
        path = f"{_object(SERVICE_ACCOUNT, namespace, account, what)}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return read_token(await self._write("POST", path, asked, what), what)

    async def _write(
        self,
        method: str,
        path: str,
        send: Mapping[str, Any],
        what: str,
        *,
        content_type: str = "application/json",
        query: Mapping[str, str] = _NOTHING,
    ) -> bytes:
        body = msgspec.json.encode(send)
        return await self._transport.call(
            Request(method=method, path=path, what=what, query=query, body=body, content_type=content_type)
        )


def _collection(kind: Kind[ObjectT], namespace: str) -> str:
    scope = f"/namespaces/{quote(namespace, safe='')}" if kind.namespaced and namespace else ""
    return f"{_version(kind.api_version)}{scope}/{kind.plural}"


def _version(api_version: str) -> str:
    """The path of one version of a group."""
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def _object(kind: Kind[ObjectT], namespace: str, name: str, what: str) -> str:
    """The path of one object. Names come from manifests too, and must not lead anywhere else."""
    for part in (name, namespace) if kind.namespaced else (name,):
        if part in ("", ".", ".."):
            raise Invalid(what, why=f"{part!r} is no name of an object or a namespace")
    return f"{_collection(kind, namespace)}/{quote(name, safe='')}"


async def _events(
    kind: Kind[ObjectT], pieces: AsyncIterator[bytes], what: str
) -> AsyncGenerator[WatchEvent[ObjectT], None]:
    """The events of an open watch. One that is cut ends; a line that was cut with it does not count."""
    try:
        async for line in _lines(pieces):
            yield read_event(kind, line, what)
    except (aiohttp.ClientError, OSError):
        return


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Whole lines, however long: an object may be far larger than any buffer of the transport."""
    begun: list[bytes] = []
    async for piece in pieces:
        *ended, rest = piece.split(b"\n")
        for line in ended:
            yield b"".join((*begun, line)) if begun else line
            begun = []
        if rest:
            begun.append(rest)
