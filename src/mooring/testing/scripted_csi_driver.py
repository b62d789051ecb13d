"""A CSI driver that does as it is told, on a real socket: calls are recorded, answers can be written beforehand.

What it mounts it mounts on the `MemoryHost` it was given.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

from google.protobuf.message import Message
from grpc import GenericRpcHandler, StatusCode, aio, method_handlers_generic_handler, unary_unary_rpc_method_handler

from mooring.host.interface import FileKind
from mooring.stubs import csi_pb2 as csi
from mooring.testing.memory_host import MemoryHost

Ability = csi.NodeServiceCapability.RPC
ControllerAbility = csi.ControllerServiceCapability.RPC
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
    """Serves the three services at a socket, the Node service on the machine that `host` is.

    A driver without abilities of its controller part says that it has none.
    """

    def __init__(
        self,
        host: MemoryHost,
        socket: str,
        *,
        name: str = "scripted.csi.test",
        abilities: Iterable[Ability.Type.ValueType] = ALL_ABILITIES,
        controller: Iterable[ControllerAbility.Type.ValueType] = (),
    ) -> None:
        self.host = host
        self.socket = socket
        self.name = name
        self.abilities = list(abilities)
        self.controller = list(controller)
        self.info = csi.NodeGetInfoResponse(node_id="memory-node")
        self.attached: set[tuple[str, str]] = set()  # volumes, each with the ID of a node that has it
        self.publish_context: Mapping[str, str] = {}
        self.sizes: dict[str, int] = {}  # of volumes that have grown, by the controller part or on the node
        self.expands_on_node = True  # what it says when its controller part has let a volume grow
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
        asked = [call.method for call in self.calls if "Get" not in call.method]
        return [method for at, method in enumerate(asked) if at == 0 or asked[at - 1] != method]

    def requests(self, kind: type[Asked]) -> list[Asked]:
        return [call.request for call in self.calls if isinstance(call.request, kind)]

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """The driver runs, until the end or until an answer lets it die."""
        self._dying = asyncio.Event()
        server = aio.server()
        server.add_generic_rpc_handlers([self._service(name) for name in ("Identity", "Controller", "Node")])
        server.add_insecure_port(f"unix:{quote(os.fsencode(self.socket))}")
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

    def _service(self, name: str) -> GenericRpcHandler:
        described = csi.DESCRIPTOR.services_by_name[name]
        handlers = {
            asked.__name__.removesuffix("Request"): unary_unary_rpc_method_handler(
                self._serve, request_deserializer=asked.FromString, response_serializer=_serialized
            )
            for asked in _ANSWERS
            if asked.__name__.removesuffix("Request") in described.methods_by_name
        }
        return method_handlers_generic_handler(described.full_name, handlers)

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
                return self.info
            case csi.NodeGetVolumeStatsRequest():
                return csi.NodeGetVolumeStatsResponse(usage=self.usage)
            case csi.GetPluginCapabilitiesRequest():
                service = csi.PluginCapability.Service(type=csi.PluginCapability.Service.CONTROLLER_SERVICE)
                offered = [csi.PluginCapability(service=service)] if self.controller else []
                return csi.GetPluginCapabilitiesResponse(capabilities=offered)
            case csi.ControllerGetCapabilitiesRequest():
                able = [csi.ControllerServiceCapability(rpc=ControllerAbility(type=each)) for each in self.controller]
                return csi.ControllerGetCapabilitiesResponse(capabilities=able)
            case csi.ControllerPublishVolumeRequest():
                return csi.ControllerPublishVolumeResponse(publish_context=self.publish_context)
            case csi.ControllerExpandVolumeRequest():
                return csi.ControllerExpandVolumeResponse(
                    capacity_bytes=self.sizes[request.volume_id], node_expansion_required=self.expands_on_node
                )
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
            case csi.ControllerPublishVolumeRequest():
                self.attached.add((request.volume_id, request.node_id))
            case csi.ControllerUnpublishVolumeRequest():
                self.attached.discard((request.volume_id, request.node_id))
            case csi.ControllerExpandVolumeRequest() | csi.NodeExpandVolumeRequest():
                asked = request.capacity_range.required_bytes
                self.sizes[request.volume_id] = max(asked, self.sizes.get(request.volume_id, 0))

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
    csi.NodeExpandVolumeRequest: csi.NodeExpandVolumeResponse,
    csi.GetPluginCapabilitiesRequest: csi.GetPluginCapabilitiesResponse,
    csi.ControllerGetCapabilitiesRequest: csi.ControllerGetCapabilitiesResponse,
    csi.ControllerPublishVolumeRequest: csi.ControllerPublishVolumeResponse,
    csi.ControllerUnpublishVolumeRequest: csi.ControllerUnpublishVolumeResponse,
    csi.ControllerExpandVolumeRequest: csi.ControllerExpandVolumeResponse,
}
