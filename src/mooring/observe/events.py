"""Kubernetes Event objects: what a person sees under a pod."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from mooring.kube.api import Api, ApiError, NotFound
from mooring.kube.objects.kinds import EVENT
from mooring.kube.objects.meta import KubernetesObject, ObjectMeta, ObjectReference
from mooring.kube.objects.node import Event, EventSource
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.world.changes import (
    Change,
    Finished,
    ForceCleaned,
    Noticed,
    Owned,
    ProblemArose,
    Reconstructed,
    Started,
)
from mooring.world.operations import Attach, Expand, Mount, Stage

log = logging.getLogger(__name__)

COMPONENT = "mooring"
_PATIENT = frozenset({"WaitForFirstConsumer", "FailedBinding", "FileSystemResizeSuccessful", "VolumeResizeSuccessful"})
"""Reasons that only say what a claim waits for, or that something went well."""


@dataclass(frozen=True, slots=True)
class _Said:
    """One thing said about an object; said again, it is counted, not repeated."""

    kind: str
    namespace: str
    object: str
    uid: str
    type: str
    reason: str
    message: str

    @property
    def name(self) -> str:
        text = "\0".join((self.uid, self.type, self.reason, self.message))
        return f"{self.object[:200]}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _said(obj: KubernetesObject, type_: str, reason: str, message: str) -> _Said:
    meta = obj.metadata
    return _Said(obj.kind, meta.namespace, meta.name, meta.uid, type_, reason, message)


def _warning(pod: Pod, reason: str, message: str) -> _Said:
    return _said(pod, "Warning", reason, message)


class EventRecorder:
    """Turns failures into Events in the store. `listen` never blocks; `run` writes, one after the other."""

    def __init__(self, api: Api, *, node_name: str, now: Callable[[], str], lifetime: float) -> None:
        self._api = api
        self._node_name = node_name
        self._now = now
        self._lifetime = lifetime
        self._waiting: dict[_Said, int] = {}
        self._filled = asyncio.Event()
        self._written: dict[tuple[str, str], float] = {}

    def listen(self, change: Change) -> None:
        match change:
            case Finished():
                self._finished(change)
            case ProblemArose():
                self._say(_warning(change.pod, "FailedMount", f"Unable to attach or mount volumes: {change.why}"))
            case Noticed():
                kind = "Warning" if change.warning else "Normal"
                self._say(_said(change.pod, kind, change.reason, change.message))
            case Started() | Reconstructed() | ForceCleaned() | Owned():
                pass
            case _:
                assert_never(change)

    def pod_waits(self, pod: Pod, reason: str, message: str) -> None:
        """Tell what a pod waits for although none of its volumes failed."""
        self._say(_warning(pod, reason, message))

    def claim_changed(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        """Tell what became of a claim, or what it waits for."""
        waits = reason in _PATIENT
        self._say(_said(claim, "Normal" if waits else "Warning", reason, message))

    def _finished(self, change: Finished) -> None:
        outcome = change.outcome
        if outcome.succeeded or change.pod is None:
            return
        reason, step = "", ""
        match change.operation:
            case Mount():
                reason, step = "FailedMount", "MountVolume.SetUp"
            case Stage():
                reason, step = "FailedMount", "MountVolume.MountDevice"
            case Attach():
                reason, step = "FailedAttachVolume", "AttachVolume.Attach"
            case Expand():
                reason, step = "VolumeResizeFailed", "NodeExpandVolume.NodeExpandVolume"
        if reason:
            message = f'{step} failed for volume "{change.inner_name}" : {outcome.why}'
            self._say(_warning(change.pod, reason, message))

    def _say(self, said: _Said) -> None:
        self._waiting[said] = self._waiting.get(said, 0) + 1
        self._filled.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._forget_old())
            while True:
                await self._filled.wait()
                self._filled.clear()
                while self._waiting:
                    said = next(iter(self._waiting))
                    await self._write(said, self._waiting.pop(said))

    async def _write(self, said: _Said, times: int) -> None:
        namespace = said.namespace
        try:
            try:
                known = await self._api.get(EVENT, namespace, said.name)
            except NotFound:
                await self._api.create(self._new(said, times))
            else:
                again = {"count": known.count + times, "lastTimestamp": self._now()}
                await self._api.patch(EVENT, namespace, said.name, again)
        except ApiError as error:
            log.warning("cannot record an event: %s", error)
        self._written[namespace, said.name] = asyncio.get_running_loop().time()

    def _new(self, said: _Said, times: int) -> Event:
        return Event(
            metadata=ObjectMeta(name=said.name, namespace=said.namespace),
            involved_object=ObjectReference(
                api_version="v1", kind=said.kind, name=said.object, namespace=said.namespace, uid=said.uid
            ),
            type=said.type,
            reason=said.reason,
            message=said.message,
            source=EventSource(component=COMPONENT, host=self._node_name),
            count=times,
            first_timestamp=self._now(),
            last_timestamp=self._now(),
            reporting_component=COMPONENT,
            reporting_instance=self._node_name,
        )

    async def _forget_old(self) -> None:
        """Delete events that nothing was added to for a lifetime; those of earlier processes start a new one."""
        loop = asyncio.get_running_loop()
        for event in (await self._api.list(EVENT)).items:
            if event.reporting_component == COMPONENT:
                self._written[event.metadata.namespace, event.metadata.name] = loop.time()
        while True:
            await asyncio.sleep(max(self._lifetime / 10, 1.0))
            old = [key for key, at in self._written.items() if loop.time() - at > self._lifetime]
            for namespace, name in old:
                del self._written[namespace, name]
                with contextlib.suppress(ApiError):
                    await self._api.delete(EVENT, namespace, name)
