"""The HTTP API on the control socket: JSON tables, control, health and metrics. Every answer is documented."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import asdict

import msgspec

from mooring.errors import InvalidInput, MooringError
from mooring.kube.api import Api, ApiError, NotFound, WatchOptions
from mooring.kube.codec import to_manifest
from mooring.kube.objects.kinds import EVENT
from mooring.kube.objects.node import Event
from mooring.observe.control import Control, SentFile
from mooring.observe.http_messages import Answer, Request, Stream, json_answer, refusal
from mooring.observe.http_server import Handler, routed
from mooring.observe.metrics import CONTENT_TYPE, Metrics
from mooring.observe.shapes import SEVERAL_FILES
from mooring.observe.status import Row, Status
from mooring.observe.usage import VolumeUsage

_HEARD_WITHIN = 20.0
"""Seconds after which an answer is given although not every source of pods was heard."""


class _SentFiles(msgspec.Struct, frozen=True):
    files: list[SentFile]


class HttpApi:
    """Serves the control socket. It reads the node through `Status` and changes it only through `Control`."""

    def __init__(self, status: Status, metrics: Metrics, events: Api, control: Control) -> None:
        self._status, self._metrics, self._events_in, self._control = status, metrics, events, control
        self._routed = routed(self.routes)

    @property
    def routes(self) -> Mapping[str, Handler]:
        """Who answers what."""
        return {
            "GET /healthz": self._healthz,
            "GET /readyz": self._readyz,
            "GET /metrics": self._metrics_text,
            "GET /.well-known/openid-configuration": self._openid_configuration,
            "GET /openid/v1/jwks": self._key_set,
            "GET /v1/pods": self._table(self._status.pods),
            "GET /v1/volumes": self._volumes,
            "GET /v1/operations": self._table(self._status.operations),
            "GET /v1/findings": self._table(self._status.findings),
            "GET /v1/drivers": self._table(self._status.drivers),
            "GET /v1/claims": self._claims,
            "GET /v1/events": self._events,
            "GET /v1/explain": self._explain,
            "GET /v1/timeline": self._timeline,
            "GET /v1/describe": self._describe,
            "POST /v1/apply": self._apply,
            "POST /v1/delete": self._delete,
            "POST /v1/mounts": self._mounts,
            "POST /v1/run": self._run,
            "POST /v1/run/end": self._end_run,
            "POST /v1/wait": self._wait,
            "POST /v1/down": self._down,
        }

    async def answer(self, request: Request) -> Answer | Stream:
        """Answer a request. Errors made for people reach them whole: what, why and next step."""
        try:
            if request.path.startswith("/v1/") and request.path != "/v1/down":
                await self._until_heard()
            return await self._routed(request)
        except MooringError as error:
            code = error.code if isinstance(error, ApiError) else (400 if isinstance(error, InvalidInput) else 409)
            body = {"error": str(error), "what": error.what, "why": error.why, "next_step": error.next_step}
            return json_answer(body, status=code)
        except (ValueError, msgspec.DecodeError) as error:
            return refusal(400, "cannot read the request", str(error))

    async def _until_heard(self) -> None:
        """Right after a start nothing is known yet: an answer then would look as if there were no pods."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_HEARD_WITHIN):
                await self._control.heard()

    # -- health --------------------------------------------------------------------------------------------------
    async def _healthz(self, request: Request) -> Answer:
        return Answer(b"ok\n")

    async def _readyz(self, request: Request) -> Answer:
        if self._control.ready():
            return Answer(b"ok\n")
        return Answer(b"not every source of pods has been heard yet\n", status=503)

    async def _metrics_text(self, request: Request) -> Answer:
        await self._control.usage()
        return Answer(self._metrics.text(), CONTENT_TYPE)

    # -- tokens --------------------------------------------------------------------------------------------------
    async def _openid_configuration(self, request: Request) -> Answer:
        return json_answer(self._control.openid.configuration())

    async def _key_set(self, request: Request) -> Answer:
        return json_answer(self._control.openid.key_set(), content_type="application/jwk-set+json")

    # -- tables --------------------------------------------------------------------------------------------------
    def _table(self, rows: Callable[[], list[Row]]) -> Handler:
        async def answer(request: Request) -> Answer:
            return json_answer(rows())

        return answer

    async def _volumes(self, request: Request) -> Answer:
        rows = self._status.volumes()
        if request.query.get("usage"):
            usage = await self._control.usage()
            rows = [{**row, "usage": _usage_row(usage.get((row["pod_uid"], row["name"])))} for row in rows]
        return json_answer(rows)

    async def _claims(self, request: Request) -> Answer:
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
        return json_answer(sorted(rows, key=lambda row: str(row["claim"])))

    async def _explain(self, request: Request) -> Answer:
        pod = self._control.find_pod(request.query.get("pod", ""))
        return json_answer(self._status.explain(pod, request.query.get("volume") or None))

    async def _timeline(self, request: Request) -> Answer:
        uid = self._control.former_pod(request.query.get("pod", ""))
        return json_answer(self._status.timeline(uid, request.query.get("volume") or None))

    async def _describe(self, request: Request) -> Answer:
        kind, name = request.query.get("kind", "pod"), request.query.get("name", "")
        if kind == "volume":
            return json_answer(self._one_volume(name))
        pod = self._control.find_pod(name)
        events = [row for row in await self._event_rows() if row["uid"] == pod.metadata.uid]
        answer = {
            **self._status.pod(pod),
            "volumes": [row for row in self._status.volumes() if row["pod_uid"] == pod.metadata.uid],
            "events": events,
            "timeline": self._status.timeline(pod.metadata.uid),
            "manifest": to_manifest(pod),
        }
        return json_answer(answer)

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
    async def _events(self, request: Request) -> Answer | Stream:
        if request.query.get("follow"):
            return Stream(self._event_lines(), "application/x-ndjson")
        return json_answer(await self._event_rows())

    async def _event_rows(self) -> list[Row]:
        rows = [_event_row(event) for event in (await self._events_in.list(EVENT)).items]
        return sorted(rows, key=lambda row: (row["last_seen"] or "", row["object"]))

    async def _event_lines(self) -> AsyncGenerator[bytes, None]:
        """One JSON line per event, new and repeated ones alike, for ever."""
        async with self._events_in.watch(EVENT, WatchOptions(send_initial_events=True)) as stream:
            async for event in stream:
                if event.object is not None:
                    yield json.dumps(_event_row(event.object)).encode() + b"\n"

    # -- control -------------------------------------------------------------------------------------------------
    async def _apply(self, request: Request) -> Answer:
        return json_answer(await self._control.apply(_sent(request)))

    async def _delete(self, request: Request) -> Answer:
        return json_answer(await self._control.delete(_sent(request)))

    async def _mounts(self, request: Request) -> Answer:
        recursive = request.query.get("recursive_read_only") != "no"
        rows = await self._control.mounts(request.query.get("pod", ""), recursive_read_only=recursive)
        return json_answer(rows)

    async def _run(self, request: Request) -> Answer:
        pod = request.query.get("pod", "")
        return json_answer(await self._control.begin_run(pod, request.body, request.caller))

    async def _end_run(self, request: Request) -> Answer:
        return json_answer(await self._control.end_run(request.query.get("uid", ""), request.query.get("run", "")))

    async def _wait(self, request: Request) -> Answer:
        query = request.query
        answer = await self._control.wait(query.get("pod", ""), query.get("for", ""), float(query.get("timeout", "60")))
        return json_answer(answer)

    async def _down(self, request: Request) -> Answer:
        return json_answer(await self._control.down(float(request.query.get("timeout", "60"))))


def _sent(request: Request) -> Sequence[SentFile]:
    """The manifests in a request's body: one as it is, or several in JSON."""
    if request.content_type == SEVERAL_FILES:
        return msgspec.json.decode(request.body, type=_SentFiles).files
    origin = request.query.get("origin", "standard input")
    return (SentFile(origin=origin, text=request.body.decode("utf-8", errors="replace")),)


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
