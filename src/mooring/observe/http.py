"""The HTTP API on the control socket: JSON tables, control, health and metrics. Every answer is documented."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

import msgspec
from aiohttp import web

from mooring.errors import InvalidInput, MooringError
from mooring.kube.api import Api, ApiError, NotFound, WatchOptions
from mooring.kube.codec import to_manifest
from mooring.kube.objects.kinds import EVENT
from mooring.kube.objects.node import Event
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.observe.metrics import CONTENT_TYPE, Metrics
from mooring.observe.shapes import SEVERAL_FILES
from mooring.observe.status import Row, Status
from mooring.observe.usage import Key, VolumeUsage

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_HEARD_WITHIN = 20.0
"""Seconds after which an answer is given although not every source of pods was heard."""


class SentFile(msgspec.Struct, frozen=True):
    """A manifest file that a caller sends: where it comes from, and what it says."""

    origin: str
    text: str


class _SentFiles(msgspec.Struct, frozen=True):
    files: list[SentFile]


class OpenId(Protocol):
    """What those need who verify service account tokens: the public key, and where it is found."""

    def key_set(self) -> Row: ...

    def configuration(self) -> Row: ...


class Control(Protocol):
    """What a caller may have done. Errors are `MooringError`s; `InvalidInput` means the caller's input is at fault."""

    @property
    def openid(self) -> OpenId: ...

    def find_pod(self, name: str) -> Pod: ...

    def former_pod(self, name: str) -> str:
        """The UID of a pod by `name` or `namespace/name`, also of one that is gone."""
        ...

    def ready(self) -> bool: ...

    def claims(self) -> Sequence[PersistentVolumeClaim]:
        """The claims that this node knows."""
        ...

    async def heard(self) -> None:
        """Return when every source of pods has been heard."""
        ...

    async def apply(self, files: Sequence[SentFile]) -> Row: ...

    async def delete(self, files: Sequence[SentFile]) -> Row: ...

    async def mounts(self, pod: str, *, recursive_read_only: bool) -> list[Row]: ...

    async def begin_run(self, pod: str, body: bytes, client: int) -> Row:
        """The plan for the containers of a pod, which the process `client` is going to start."""
        ...

    async def end_run(self, uid: str, run: str) -> Row: ...

    async def wait(self, pod: str, wanted: str, timeout: float) -> Row: ...

    async def down(self, timeout: float) -> Row: ...

    async def usage(self) -> Mapping[Key, VolumeUsage]:
        """How full the mounted volumes are."""
        ...


class HttpApi:
    """Serves the control socket. It reads the node through `Status` and changes it only through `Control`."""

    def __init__(self, status: Status, metrics: Metrics, events: Api, control: Control) -> None:
        self._status, self._metrics, self._events_in, self._control = status, metrics, events, control
        self._stopping = asyncio.Event()

    def application(self) -> web.Application:
        app = web.Application(middlewares=[_worded_errors, self._when_heard], client_max_size=16 * 1024 * 1024)
        routes: dict[str, Handler] = {
            "/healthz": self._healthz,
            "/readyz": self._readyz,
            "/metrics": self._metrics_text,
            "/.well-known/openid-configuration": self._openid_configuration,
            "/openid/v1/jwks": self._key_set,
            "/v1/pods": self._table(self._status.pods),
            "/v1/volumes": self._volumes,
            "/v1/operations": self._table(self._status.operations),
            "/v1/findings": self._table(self._status.findings),
            "/v1/drivers": self._table(self._status.drivers),
            "/v1/claims": self._claims,
            "/v1/events": self._events,
            "/v1/explain": self._explain,
            "/v1/timeline": self._timeline,
            "/v1/describe": self._describe,
        }
        for path, handler in routes.items():
            app.router.add_get(path, handler)
        app.router.add_post("/v1/apply", self._apply)
        app.router.add_post("/v1/delete", self._delete)
        app.router.add_post("/v1/mounts", self._mounts)
        app.router.add_post("/v1/run", self._run)
        app.router.add_post("/v1/run/end", self._end_run)
        app.router.add_post("/v1/wait", self._wait)
        app.router.add_post("/v1/down", self._down)
        return app

    @web.middleware
    async def _when_heard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Right after a start nothing is known yet: an answer then would look as if there were no pods."""
        if request.path.startswith("/v1/") and request.path != "/v1/down":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HEARD_WITHIN):
                    await self._control.heard()
        return await handler(request)

    def stop_streams(self) -> None:
        """End answers that would go on for ever, so that the server can close."""
        self._stopping.set()

    # -- health --------------------------------------------------------------------------------------------------
    async def _healthz(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="ok\n")

    async def _readyz(self, request: web.Request) -> web.StreamResponse:
        if self._control.ready():
            return web.Response(text="ok\n")
        return web.Response(status=503, text="not every source of pods has been heard yet\n")

    async def _metrics_text(self, request: web.Request) -> web.StreamResponse:
        await self._control.usage()
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    # -- tokens --------------------------------------------------------------------------------------------------
    async def _openid_configuration(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self._control.openid.configuration())

    async def _key_set(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(self._control.openid.key_set(), content_type="application/jwk-set+json")

    # -- tables --------------------------------------------------------------------------------------------------
    def _table(self, rows: Callable[[], list[Row]]) -> Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            return web.json_response(rows())

        return answer

    async def _volumes(self, request: web.Request) -> web.StreamResponse:
        rows = self._status.volumes()
        if request.query.get("usage"):
            usage = await self._control.usage()
            rows = [{**row, "usage": _usage_row(usage.get((row["pod_uid"], row["name"])))} for row in rows]
        return web.json_response(rows)

    async def _claims(self, request: web.Request) -> web.StreamResponse:
        found = self._control.claims()
        rows = [
            {
                "claim": claim.key,
                "phase": claim.status.phase or "Pending",
                "volume": claim.spec.volume_name or None,
                "class": claim.spec.storage_class_name,
                "access_modes": list(claim.status.access_modes or claim.spec.access_modes),
                "capacity": claim.status.capacity.get("storage"),
                "reason": next((each.message for each in claim.status.conditions if each.message), None),
            }
            for claim in found
        ]
        return web.json_response(sorted(rows, key=lambda row: str(row["claim"])))

    async def _explain(self, request: web.Request) -> web.StreamResponse:
        pod = self._control.find_pod(request.query.get("pod", ""))
        return web.json_response(self._status.explain(pod, request.query.get("volume") or None))

    async def _timeline(self, request: web.Request) -> web.StreamResponse:
        uid = self._control.former_pod(request.query.get("pod", ""))
        return web.json_response(self._status.timeline(uid, request.query.get("volume") or None))

    async def _describe(self, request: web.Request) -> web.StreamResponse:
        kind, name = request.query.get("kind", "pod"), request.query.get("name", "")
        if kind == "volume":
            return web.json_response(self._one_volume(name))
        pod = self._control.find_pod(name)
        events = [row for row in await self._event_rows() if row["uid"] == pod.metadata.uid]
        answer = {
            **self._status.pod(pod),
            "volumes": [row for row in self._status.volumes() if row["pod_uid"] == pod.metadata.uid],
            "events": events,
            "timeline": self._status.timeline(pod.metadata.uid),
            "manifest": to_manifest(pod),
        }
        return web.json_response(answer)

    def _one_volume(self, name: str) -> Row:
        pod, _, volume = name.rpartition("/")
        found = [row for row in self._status.volumes() if row["name"] == name]
        found = found or [r for r in self._status.volumes() if r["volume"] == volume and _is_pod(r["pod"], pod)]
        if not found:
            raise NotFound(
                f"cannot describe volume {name!r}",
                why="no volume of this node has that name",
                next_step="`mooring get volumes` lists them; write POD/VOLUME or a unique volume name",
            )
        row = found[0]
        return {**row, "timeline": self._status.timeline(row["pod_uid"], row["volume"])}

    # -- events --------------------------------------------------------------------------------------------------
    async def _events(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("follow"):
            return await self._follow(request)
        return web.json_response(await self._event_rows())

    async def _event_rows(self) -> list[Row]:
        rows = [_event_row(event) for event in (await self._events_in.list(EVENT)).items]
        return sorted(rows, key=lambda row: (row["last_seen"] or "", row["object"]))

    async def _follow(self, request: web.Request) -> web.StreamResponse:
        """One JSON line per event, new and repeated ones alike, until the caller leaves."""
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        async with asyncio.TaskGroup() as tasks:
            sending = tasks.create_task(self._send_events(response))
            stopping = tasks.create_task(self._stopping.wait())
            await asyncio.wait({sending, stopping}, return_when=asyncio.FIRST_COMPLETED)
            sending.cancel()
            stopping.cancel()
        return response

    async def _send_events(self, response: web.StreamResponse) -> None:
        with contextlib.suppress(ConnectionResetError):
            async with self._events_in.watch(EVENT, WatchOptions(send_initial_events=True)) as stream:
                async for event in stream:
                    if event.object is not None:
                        await response.write(json.dumps(_event_row(event.object)).encode() + b"\n")

    # -- control -------------------------------------------------------------------------------------------------
    async def _apply(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(await self._control.apply(await _sent(request)))

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(await self._control.delete(await _sent(request)))

    async def _mounts(self, request: web.Request) -> web.StreamResponse:
        recursive = request.query.get("recursive_read_only") != "no"
        rows = await self._control.mounts(request.query.get("pod", ""), recursive_read_only=recursive)
        return web.json_response(rows)

    async def _run(self, request: web.Request) -> web.StreamResponse:
        pod, body = request.query.get("pod", ""), await request.read()
        return web.json_response(await self._control.begin_run(pod, body, _caller(request)))

    async def _end_run(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(
            await self._control.end_run(request.query.get("uid", ""), request.query.get("run", ""))
        )

    async def _wait(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        answer = await self._control.wait(query.get("pod", ""), query.get("for", ""), float(query.get("timeout", "60")))
        return web.json_response(answer)

    async def _down(self, request: web.Request) -> web.StreamResponse:
        return web.json_response(await self._control.down(float(request.query.get("timeout", "60"))))


def _caller(request: web.Request) -> int:
    """The number of the process at the other end of the socket; 0 when it cannot be seen from here."""
    connection = request.transport.get_extra_info("socket") if request.transport is not None else None
    if connection is None or connection.family != socket.AF_UNIX:
        return 0
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(pid)


async def _sent(request: web.Request) -> Sequence[SentFile]:
    """The manifests in a request's body: one as it is, or several in JSON."""
    body = await request.read()
    if request.content_type == SEVERAL_FILES:
        return msgspec.json.decode(body, type=_SentFiles).files
    origin = request.query.get("origin", "standard input")
    return (SentFile(origin=origin, text=body.decode("utf-8", errors="replace")),)


def _usage_row(usage: VolumeUsage | None) -> Row | None:
    return asdict(usage) if usage is not None else None


def _is_pod(key: str, asked: str) -> bool:
    return asked in (key, key.partition("/")[2])


def _event_row(event: Event) -> Row:
    about = event.involved_object
    return {
        "last_seen": event.last_timestamp,
        "type": event.type,
        "reason": event.reason,
        "object": f"{about.kind.lower()}/{about.name}",
        "namespace": about.namespace,
        "uid": about.uid,
        "message": event.message,
        "count": event.count,
    }


@web.middleware
async def _worded_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors made for people reach them whole: what, why and next step."""
    try:
        return await handler(request)
    except MooringError as error:
        code = error.code if isinstance(error, ApiError) else (400 if isinstance(error, InvalidInput) else 409)
        body: dict[str, Any] = {"error": str(error), "what": error.what, "why": error.why, "next_step": error.next_step}
        return web.json_response(body, status=code)
    except ValueError as error:
        body = {"error": f"cannot read the request: {error}.", "what": "cannot read the request", "why": str(error)}
        return web.json_response(body, status=400)
