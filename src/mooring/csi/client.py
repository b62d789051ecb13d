"""Speaking to one CSI driver: a channel to its socket, a deadline for each call, and errors that say what is known."""

from __future__ import annotations

import asyncio
import enum
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from mooring.csi.redaction import described, secret_values, without
from mooring.errors import Doubtful, MooringError, NotYet, Refused
from mooring.rpc import csi, grpc
from mooring.rpc import csi_services as services

if TYPE_CHECKING:
    from google.protobuf.message import Message

log = logging.getLogger(__name__)

CALL_TIMEOUT = 120.0
"""Seconds that a call to a driver may take, as with a kubelet."""

_OPTIONS = (
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),  # else a new channel would inherit the pauses of the one before
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # which bounds how long one try to connect may take
    (
        "grpc.max_reconnect_backoff_ms",
        1000,
    ),  # a driver that starts again is found soon; who waits how long is decided above
)

_MAY_STILL_RUN = frozenset(("CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "ABORTED", "UNAVAILABLE"))

Asked = TypeVar("Asked", bound="Message")
Answered = TypeVar("Answered", bound="Message")


class Kind(enum.Enum):
    """What a failed call leaves behind."""

    UNCERTAIN = "uncertain"  # the driver may still be at it, or have done it
    FINAL = "final"  # the driver answered that it did not do it
    TRANSIENT = "transient"  # nothing was asked that could change anything
    FINISHED = "finished"  # taking away, or looking, ended with an error: it is to be tried again


class CallFailed(MooringError):
    """A call that did not succeed; its words hold no secret."""

    def __init__(
        self, code: grpc.StatusCode, words: str, kind: Kind, *, what: str = "cannot call a CSI driver"
    ) -> None:
        self.code, self.words, self.kind = code, words, kind
        super().__init__(what, why=f"{code.name}: {words}" if words else code.name)

    def as_outcome(self, what: str) -> Refused | NotYet | Doubtful:
        """The error as operations know it, worded by somebody who knows what it was all about."""
        match self.kind:
            case Kind.FINAL:
                return Refused(what, why=self.why)
            case Kind.TRANSIENT:
                return NotYet(what, why=self.why)
            case Kind.UNCERTAIN | Kind.FINISHED:
                return Doubtful(what, why=self.why)


def kind_of(code: grpc.StatusCode) -> Kind:
    """What a set-up that ended with this code leaves behind."""
    return Kind.UNCERTAIN if code.name in _MAY_STILL_RUN else Kind.FINAL


Observer = Callable[[str, str, float], None]
"""Told of each call: its method as `/csi.v1.Node/NodeStageVolume`, how it ended (a code's name), and the seconds."""


class DriverClient:
    """One channel to one driver. Once it is retired it takes no more calls, and closes after the last one."""

    def __init__(
        self, endpoint: str, *, timeout: float = CALL_TIMEOUT, observe: Observer = lambda method, code, seconds: None
    ) -> None:
        self.endpoint = endpoint
        self._timeout = timeout
        self._observe = observe
        self._running = 0
        self._retired = False
        self.channel = grpc.aio.insecure_channel(f"unix:{quote(os.fsencode(socket_of(endpoint)))}", options=_OPTIONS)
        self._node: services.NodeAsyncStub = services.NodeStub(self.channel)

    # -- asking ----------------------------------------------------------------------------------------------------
    async def get_info(self) -> csi.NodeGetInfoResponse:
        return await self.call(self._node.NodeGetInfo, csi.NodeGetInfoRequest(), Kind.TRANSIENT)

    async def get_capabilities(self) -> csi.NodeGetCapabilitiesResponse:
        return await self.call(self._node.NodeGetCapabilities, csi.NodeGetCapabilitiesRequest(), Kind.TRANSIENT)

    async def get_volume_stats(self, request: csi.NodeGetVolumeStatsRequest) -> csi.NodeGetVolumeStatsResponse:
        require(Kind.FINISHED, volume_id=request.volume_id, volume_path=request.volume_path)
        return await self.call(self._node.NodeGetVolumeStats, request, Kind.FINISHED)

    async def get_volume_health(self, request: csi.NodeGetVolumeHealthRequest) -> csi.NodeGetVolumeHealthResponse:
        require(Kind.FINISHED, volume_id=request.volume_id)
        return await self.call(self._node.NodeGetVolumeHealth, request, Kind.FINISHED)

    # -- setting up ------------------------------------------------------------------------------------------------
    async def stage(self, request: csi.NodeStageVolumeRequest) -> None:
        require(Kind.FINAL, volume_id=request.volume_id, staging_target_path=request.staging_target_path)
        await self.call(self._node.NodeStageVolume, request, None)

    async def publish(self, request: csi.NodePublishVolumeRequest) -> None:
        require(Kind.FINAL, volume_id=request.volume_id, target_path=request.target_path)
        await self.call(self._node.NodePublishVolume, request, None)

    async def expand(self, request: csi.NodeExpandVolumeRequest) -> None:
        require(Kind.FINAL, volume_id=request.volume_id, volume_path=request.volume_path)
        await self.call(self._node.NodeExpandVolume, request, None)

    # -- taking away -----------------------------------------------------------------------------------------------
    async def unstage(self, volume_id: str, staging_target_path: str) -> None:
        require(Kind.FINISHED, volume_id=volume_id, staging_target_path=staging_target_path)
        request = csi.NodeUnstageVolumeRequest(volume_id=volume_id, staging_target_path=staging_target_path)
        await self.call(self._node.NodeUnstageVolume, request, Kind.FINISHED)

    async def unpublish(self, volume_id: str, target_path: str) -> None:
        require(Kind.FINISHED, volume_id=volume_id, target_path=target_path)
        request = csi.NodeUnpublishVolumeRequest(volume_id=volume_id, target_path=target_path)
        await self.call(self._node.NodeUnpublishVolume, request, Kind.FINISHED)

    # -- ending ----------------------------------------------------------------------------------------------------
    async def retire(self) -> None:
        """Take no more calls. Those under way end by themselves: closing now would only hide their answers."""
        self._retired = True
        await self._close_when_done()

    async def _close_when_done(self) -> None:
        if self._retired and not self._running:
            await self.channel.close()

    async def call(
        self, method: grpc.aio.UnaryUnaryMultiCallable[Asked, Answered], request: Asked, kind: Kind | None
    ) -> Answered:
        """One call; a failure is of this kind, or else of the one that its code stands for."""
        if self._retired:
            raise CallFailed(grpc.StatusCode.UNAVAILABLE, "the driver is not registered any more", Kind.TRANSIENT)
        self._running += 1
        began, code = asyncio.get_running_loop().time(), grpc.StatusCode.OK.name
        try:
            return await method(request, timeout=self._timeout)
        except grpc.aio.AioRpcError as error:
            code = error.code().name
            # Not `from error`: a driver's own words may hold secrets, and a logged traceback would show them.
            raise _failure(error.code(), error.details() or "", request, kind) from None
        except asyncio.CancelledError:
            code = grpc.StatusCode.CANCELLED.name
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            raise _failure(grpc.StatusCode.CANCELLED, "the call was broken off", request, kind) from None
        except grpc.aio.BaseError as error:
            code = "unknown-non-grpc"
            raise CallFailed(
                grpc.StatusCode.UNKNOWN, without(str(error), secret_values(request)), kind or Kind.UNCERTAIN
            ) from None
        finally:
            seconds = asyncio.get_running_loop().time() - began
            self._observe(_path_of(request), code, seconds)
            if log.isEnabledFor(logging.DEBUG):
                log.debug("%s {%s}: %s in %.3f s", _path_of(request), described(request), code, seconds)
            self._running -= 1
            await self._close_when_done()


def socket_of(endpoint: str) -> str:
    """The path of the socket that an endpoint names, with or without a scheme."""
    return endpoint.removeprefix("unix://").removeprefix("unix:")


def _path_of(request: Message) -> str:
    """The method that a request is for: each has a request of its own, named after it."""
    method = type(request).__name__.removesuffix("Request")
    service = next(each.name for each in csi.DESCRIPTOR.services_by_name.values() if method in each.methods_by_name)
    return f"/csi.v1.{service}/{method}"


def _failure(code: grpc.StatusCode, details: str, request: Message, kind: Kind | None) -> CallFailed:
    words = without(details, secret_values(request)).strip().rstrip(".")
    what = f"{type(request).__name__.removesuffix('Request')} failed"
    return CallFailed(code, words, kind if kind is not None else kind_of(code), what=what)


def require(kind: Kind, **fields: str) -> None:
    for name, value in fields.items():
        if not value:
            raise CallFailed(grpc.StatusCode.INVALID_ARGUMENT, f"the {name.replace('_', ' ')} is missing", kind)
