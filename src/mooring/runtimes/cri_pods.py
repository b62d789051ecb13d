"""Which pods have something alive in a container runtime, whoever started it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # programs are started without the interpreter being forked

import grpc
from grpc import aio

from mooring.runtimes.interface import RuntimeFailed
from mooring.stubs import cri_pb2 as cri
from mooring.stubs import cri_pb2_grpc as services
from mooring.world.names import PodUid

POD_UID_LABEL = "io.kubernetes.pod.uid"
_EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"
_PATIENCE = 30.0


class CriPods:
    """A runtime that speaks the Container Runtime Interface, on its unix socket."""

    def __init__(self, endpoint: str) -> None:
        self._socket = endpoint.removeprefix("unix://")
        self._channel = aio.insecure_channel(f"unix://{self._socket}")
        self._runtime: services.RuntimeServiceAsyncStub = services.RuntimeServiceStub(self._channel)

    @property
    def where(self) -> str:
        return f"the container runtime at {self._socket}"

    async def live_pods(self) -> Mapping[PodUid, str]:
        try:
            # Sandboxes first: no container starts without one, so a pod that is in neither list has nothing.
            sandboxes = await self._runtime.ListPodSandbox(cri.ListPodSandboxRequest(), timeout=_PATIENCE)
            containers = await self._runtime.ListContainers(cri.ListContainersRequest(), timeout=_PATIENCE)
        except aio.AioRpcError as error:
            raise self._failed("list containers", error) from error
        return live_pods(sandboxes.items, containers.containers, where=self.where)

    async def events(self) -> AsyncIterator[None]:
        # What an event says is not looked at: it only rings, and lists tell the truth.
        stream: aio.UnaryStreamMultiCallable[None, bytes] = self._channel.unary_stream(
            _EVENTS, request_serializer=lambda _: b"", response_deserializer=lambda event: event
        )
        try:
            async for _ in stream(None):
                yield None
        except aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                return
            raise self._failed("tell of changes", error) from error

    async def close(self) -> None:
        await self._channel.close()

    def _failed(self, what: str, error: aio.AioRpcError) -> RuntimeFailed:
        why = (error.details() or error.code().name).rstrip(".")
        unavailable = error.code() is grpc.StatusCode.UNAVAILABLE
        next_step = "Look whether it runs, or name its socket with --cri" if unavailable else ""
        return RuntimeFailed(f"{self.where} cannot {what}", why=why, next_step=next_step)


def live_pods(
    sandboxes: Iterable[cri.PodSandbox], containers: Iterable[cri.Container], *, where: str
) -> dict[PodUid, str]:
    """What of which pod has not stopped, in words. A container whose state is not known counts as running."""
    alive: dict[PodUid, list[str]] = {}
    for sandbox in sandboxes:
        uid = sandbox.labels.get(POD_UID_LABEL) or sandbox.metadata.uid
        if uid and sandbox.state == cri.SANDBOX_READY:
            alive.setdefault(PodUid(uid), [])
    for container in containers:
        uid = container.labels.get(POD_UID_LABEL, "")
        if uid and container.state != cri.CONTAINER_EXITED:
            alive.setdefault(PodUid(uid), []).append(container.metadata.name)
    return {
        uid: f"{where} goes on with {', '.join(sorted(names))}" if names else f"{where} keeps the pod's sandbox"
        for uid, names in alive.items()
    }
