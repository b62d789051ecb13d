"""A CSI driver that does as it is told, on a real socket: calls are recorded, answers can be written beforehand.

What it mounts it mounts on the `MemoryHost` it was given.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message
from grpc import GenericRpcHandler, StatusCode, aio, method_handlers_generic_handler, unary_unary_rpc_method_handler

from mooring.host.interface import FileKind
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost

Ability = csi.NodeServiceCapability.RPC
ALL_ABILITIES = (Ability.STAGE_UNSTAGE_VOLUME, Ability.GET_VOLUME_STATS)

Asked = TypeVar("Asked", bound=Message)
Context = aio.ServicerContext[Message, Message]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """How one call is answered; an answer that is `late` waits until that is set."""

    code: StatusCode = StatusCode.OK
    words: str = ""
    happens: bool = True  # the effect takes place, whatever is said of it
    late: asyncio.Event | None = None
    dies: bool = False  # the driver ends before it answers


OK = Answer()


@dataclass(frozen=True, slots=True)
class Call:
    """A call as it came, by the name of its method."""

    method: str
    request: Message


class ScriptedCSIDriver:
    """Serves the Node service at a socket, on the machine that `host` is."""

    def __init__(
        self,
        host: MemoryHost,
        socket: str,
        *,
        name: str = "scripted.csi.test",
        abilities: Iterable[Ability.Type.ValueType] = ALL_ABILITIES,
    ) -> None:
        self.host = host
        self.socket = socket
        self.name = name
        self.abilities = list(abilities)
        self.calls: list[Call] = []
        self.usage: list[csi.VolumeUsage] = []  # what it tells of each volume
        self.called = asyncio.Event()  # set by each call, once its effect has taken place
        self._answers: dict[str, deque[Answer]] = {}
        self._always: dict[str, Answer] = {}
        self._dying = asyncio.Event()

    # -- writing the script ----------------------------------------------------------------------------------------
    def answer(self, method: str, *answers: Answer) -> None:
        """The next calls of a method are answered so, one after the other; those after them well."""
        self._answers.setdefault(method, deque()).extend(answers)

    def always(self, method: str, answer: Answer) -> None:
        """What calls of a method are answered for which nothing else is written."""
        self._always[method] = answer

    def methods(self) -> list[str]:
        """The methods called so far, without questions for capabilities and the node, repetitions counted once."""
        asked = [call.method for call in self.calls if not call.method.startswith("NodeGet")]
        return [method for at, method in enumerate(asked) if at == 0 or asked[at - 1] != method]

    def requests(self, kind: type[Asked]) -> list[Asked]:
        return [call.request for call in self.calls if isinstance(call.request, kind)]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """The driver runs, until the end or until an answer lets it die."""
        self._dying = asyncio.Event()
        server = aio.server()
        server.add_generic_rpc_handlers((self._node_service(),))
        server.add_insecure_port(f"unix:{self.socket}")
        await server.start()
        async with asyncio.TaskGroup() as tasks:
            end = tasks.create_task(self._end(server))
            try:
                yield
            finally:
                self._dying.set()
                await end

    async def _end(self, server: aio.Server) -> None:
        await self._dying.wait()
        await server.stop(None)

    def _node_service(self) -> GenericRpcHandler:
        handlers = {
            asked.__name__.removesuffix("Request"): unary_unary_rpc_method_handler(
                self._serve, request_deserializer=asked.FromString, response_serializer=_serialized
            )
            for asked in _ANSWERS
        }
        return method_handlers_generic_handler("csi.v1.Node", handlers)

    # -- answering -------------------------------------------------------------------------------------------------
    async def _serve(self, request: Message, context: Context) -> Message:
        method = type(request).__name__.removesuffix("Request")
        self.calls.append(Call(method, request))
        written = self._answers.get(method)
        answer = written.popleft() if written else self._always.get(method, OK)
        if answer.happens:
            self._do(request)
        self.called.set()
        if answer.late is not None:
            await answer.late.wait()
        if answer.dies:
            self._dying.set()
            await asyncio.Event().wait()  # the end of the server ends this call
        if answer.code is not StatusCode.OK:
            await context.abort(answer.code, answer.words)
        return self._told(request)

    def _told(self, request: Message) -> Message:
        match request:
            case csi.NodeGetCapabilitiesRequest():
                abilities = [csi.NodeServiceCapability(rpc=Ability(type=each)) for each in self.abilities]
                return csi.NodeGetCapabilitiesResponse(capabilities=abilities)
            case csi.NodeGetInfoRequest():
                return csi.NodeGetInfoResponse(node_id="memory-node")
            case csi.NodeGetVolumeStatsRequest():
                return csi.NodeGetVolumeStatsResponse(usage=self.usage)
        return _ANSWERS[type(request)]()

    # -- what it does to the machine -------------------------------------------------------------------------------
    def _do(self, request: Message) -> None:
        """Each effect may be asked for twice: the second time it is there."""
        match request:
            case csi.NodeStageVolumeRequest() if request.volume_capability.HasField("mount"):
                if self.host.mount_at(request.staging_target_path) is None:
                    self.host.mount_tmpfs(request.staging_target_path)
            case csi.NodePublishVolumeRequest():
                self._publish(request)
            case csi.NodeUnpublishVolumeRequest():
                self._clear(request.target_path)
            case csi.NodeUnstageVolumeRequest():
                if self.host.mount_at(request.staging_target_path) is not None:
                    self.host.unmount(request.staging_target_path)

    def _publish(self, request: csi.NodePublishVolumeRequest) -> None:
        target = request.target_path
        if self.host.mount_at(target) is not None:
            return
        if request.volume_capability.HasField("block"):
            self.host.create_file(target, 0o600)
            self.host.bind(f"/dev/{request.volume_id}", target)
            return
        with suppress(FileExistsError):
            self.host.make_directory(target, 0o750)
        if request.staging_target_path:
            self.host.bind(request.staging_target_path, target, read_only=request.readonly)
        else:
            self.host.mount_tmpfs(target)

    def _clear(self, target: str) -> None:
        if self.host.mount_at(target) is not None:
            self.host.unmount(target)
        facts = self.host.look(target)
        if facts is not None and facts.kind is FileKind.DIRECTORY:
            self.host.remove_directory(target)
        elif facts is not None:
            self.host.remove_file(target)


def _serialized(answer: Message) -> bytes:
    return answer.SerializeToString()


_ANSWERS: dict[type[Message], type[Message]] = {
    csi.NodeGetCapabilitiesRequest: csi.NodeGetCapabilitiesResponse,
    csi.NodeGetInfoRequest: csi.NodeGetInfoResponse,
    csi.NodeGetVolumeStatsRequest: csi.NodeGetVolumeStatsResponse,
    csi.NodeStageVolumeRequest: csi.NodeStageVolumeResponse,
    csi.NodePublishVolumeRequest: csi.NodePublishVolumeResponse,
    csi.NodeUnpublishVolumeRequest: csi.NodeUnpublishVolumeResponse,
    csi.NodeUnstageVolumeRequest: csi.NodeUnstageVolumeResponse,
}
