"""What is said about objects: what a person sees under a pod."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Protocol, assert_never

from mooring.kube.objects.meta import KubernetesObject, ObjectReference
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.world.changes import (
    Change,
    Finished,
    ForceCleaned,
    Labelled,
    Noticed,
    Owned,
    ProblemArose,
    Reconstructed,
    Started,
)
from mooring.world.operations import Attach, Expand, Mount, Stage

COMPONENT = "mooring"
_PATIENT = frozenset(
    (
        "WaitForFirstConsumer",
        "FailedBinding",
        "ExternalProvisioning",
        "FileSystemResizeSuccessful",
        "VolumeResizeSuccessful",
    )
)
"""Reasons that only say what a claim waits for, or that something went well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One thing said about an object; said again, it is counted, not repeated."""

    object: ObjectReference
    type: str
    reason: str
    message: str


class EventWriter(Protocol):
    """How what is said becomes Event objects. `write` never blocks; `run` does the writing until cancelled."""

    def write(self, said: Said) -> None: ...

    async def run(self) -> None: ...


def _said(obj: KubernetesObject, type_: str, reason: str, message: str) -> Said:
    meta = obj.metadata
    reference = ObjectReference(
        api_version=obj.api_version, kind=obj.kind, name=meta.name, namespace=meta.namespace, uid=meta.uid
    )
    return Said(object=reference, type=type_, reason=reason, message=message)


def _warning(pod: Pod, reason: str, message: str) -> Said:
    return _said(pod, "Warning", reason, message)


class EventRecorder:
    """Turns failures into words, and gives them to whoever writes. Nothing here blocks but `run`."""

    def __init__(self, *writers: EventWriter) -> None:
        self._writers = writers

    def _say(self, said: Said) -> None:
        for writer in self._writers:
            writer.write(said)

    def listen(self, change: Change) -> None:
        match change:
            case Finished():
                self._finished(change)
            case Started() | Reconstructed() | ForceCleaned() | Owned() | Labelled():
                pass
            case ProblemArose():
                self._say(_warning(change.pod, "FailedMount", f"Unable to attach or mount volumes: {change.why}"))
            case Noticed():
                kind = "Warning" if change.warning else "Normal"
                self._say(_said(change.pod, kind, change.reason, change.message))
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

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for writer in self._writers:
                tasks.create_task(writer.run())
