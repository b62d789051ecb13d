"""A recorder between a caller and a CSI driver: forwards each call as it is, and can answer in the driver's place.

    python -m mooring.testing.recording_proxy LISTEN FORWARD --calls FILE

does so until it is ended, and writes a line of JSON for each call.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc import (
    GenericRpcHandler,
    RpcMethodHandler,
    StatusCode,
    aio,
    method_handlers_generic_handler,
    unary_unary_rpc_method_handler,
)

from mooring.csi.redaction import redacted, secret_values, without
from mooring.stubs import csi_pb2 as csi
from mooring.testing.scripted_csi_driver import OK, Answer

SERVICES = ("Identity", "Controller", "Node")

Context = aio.ServicerContext[bytes, bytes]
Handler = Callable[[bytes, Context], Awaitable[bytes]]
Forward = aio.UnaryUnaryMultiCallable[bytes, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """A call and its answer, secrets hidden; fields have the names of the protocol, those that are not set are missing.

    Numbers count calls as they came. An answer that the driver did not give is recorded as the caller saw it.
    """

    number: int
    method: str
    request: Mapping[str, Any]
    response: Mapping[str, Any] | None  # none when the call failed
    code: StatusCode
    words: str = ""

    def line(self) -> str:
        """The call as JSON."""
        told = {"number": self.number, "method": self.method, "request": self.request, "code": self.code.name}
        if self.response is not None:
            told["response"] = self.response
        if self.words:
            told["words"] = self.words
        return json.dumps(told, sort_keys=True)


class RecordingProxy:
    """Listens at one socket and forwards to another, which need not be there yet."""

    def __init__(self, socket: str, driver: str, *, calls_file: str | None = None) -> None:
        self.socket, self.driver = socket, driver
        self.called = asyncio.Event()  # set by each call, once it was forwarded or is known not to be
        self._calls: dict[int, RecordedCall] = {}
        self._came = 0
        self._answers: dict[str, deque[Answer]] = {}
        self._calls_file = calls_file
        self._dropped = asyncio.Event()

    @property
    def calls(self) -> list[RecordedCall]:
        """All calls that were answered or broken off, in the order in which they came."""
        return [self._calls[number] for number in sorted(self._calls)]

    def answer(self, method: str, *answers: Answer) -> None:
        """The next calls of a method are answered so, one after the other; those after them as the driver does.

        What `happens` is forwarded first. An answer that `dies` drops all connections without a word.
        """
        self._answers.setdefault(method, deque()).extend(answers)

    # -- serving ---------------------------------------------------------------------------------------------------
    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """The proxy listens, until the end."""
        listening, ending = asyncio.Event(), asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._serve(listening, ending))
            await listening.wait()
            try:
                yield
            finally:
                ending.set()
                self._dropped.set()

    async def _serve(self, listening: asyncio.Event, ending: asyncio.Event) -> None:
        """One server after the other: only the end of a server drops its connections."""
        async with aio.insecure_channel(f"unix:{self.driver}", options=_OPTIONS) as channel:
            while not ending.is_set():
                self._dropped.clear()
                server = aio.server()
                server.add_generic_rpc_handlers(tuple(self._service(name, channel) for name in SERVICES))
                server.add_insecure_port(f"unix:{self.socket}")
                await server.start()
                listening.set()
                await self._dropped.wait()
                await server.stop(None)

    def _service(self, name: str, channel: aio.Channel) -> GenericRpcHandler:
        service: ServiceDescriptor = csi.DESCRIPTOR.services_by_name[name]
        # Without serializers, messages stay bytes: fields that are not known here are forwarded as well.
        handlers: dict[str, RpcMethodHandler[bytes, bytes]] = {
            method.name: unary_unary_rpc_method_handler(self._handler(method, channel)) for method in service.methods
        }
        return method_handlers_generic_handler(service.full_name, handlers)

    # -- one call --------------------------------------------------------------------------------------------------
    def _handler(self, method: MethodDescriptor, channel: aio.Channel) -> Handler:
        forward: Forward = channel.unary_unary(f"/{method.containing_service.full_name}/{method.name}")

        async def handle(sent: bytes, context: Context) -> bytes:
            self._came += 1
            number, outcome = self._came, _BROKEN_OFF
            try:
                outcome = await self._outcome(method.name, forward, sent, context.time_remaining())
            finally:
                self._record(number, method, sent, outcome)
            if outcome.code is not StatusCode.OK:
                await context.abort(outcome.code, outcome.words)
            return outcome.told

        return handle

    async def _outcome(self, method: str, forward: Forward, sent: bytes, timeout: float | None) -> _Outcome:
        written = self._answers.get(method)
        answer = written.popleft() if written else OK
        outcome = _Outcome(answer.code, answer.words)
        if answer.happens:
            forwarded = await _forwarded(forward, sent, timeout)
            outcome = forwarded if answer.code is StatusCode.OK else outcome
        self.called.set()
        if answer.late is not None:
            await answer.late.wait()
        if answer.dies:
            self._dropped.set()
            await asyncio.Event().wait()  # the end of the server ends this call
        return outcome

    def _record(self, number: int, method: MethodDescriptor, sent: bytes, outcome: _Outcome) -> None:
        request = _parsed(method.input_type, sent)
        succeeded = outcome.code is StatusCode.OK
        call = RecordedCall(
            number=number,
            method=method.name,
            request=_plain(request),
            response=_plain(_parsed(method.output_type, outcome.told)) if succeeded else None,
            code=outcome.code,
            words=without(outcome.words, secret_values(request)),
        )
        self._calls[number] = call
        if self._calls_file is not None:
            with Path(self._calls_file).open("a") as lines:
                lines.write(f"{call.line()}\n")


@dataclass(frozen=True, slots=True)
class _Outcome:
    code: StatusCode
    words: str = ""
    told: bytes = b""


_BROKEN_OFF = _Outcome(StatusCode.CANCELLED, "the call was broken off")
_OPTIONS = (("grpc.default_authority", "localhost"), ("grpc.max_reconnect_backoff_ms", 100))


async def _forwarded(forward: Forward, sent: bytes, timeout: float | None) -> _Outcome:
    try:
        return _Outcome(StatusCode.OK, told=await forward(sent, timeout=timeout))
    except aio.AioRpcError as error:
        return _Outcome(error.code(), error.details() or "")


def _parsed(kind: Descriptor, sent: bytes) -> Message:
    message: Message = GetMessageClass(kind).FromString(sent)
    return message


def _plain(message: Message) -> Mapping[str, Any]:
    """The message as a dictionary, secrets hidden."""
    shown = redacted(message)
    plain: Mapping[str, Any] = json_format.MessageToDict(shown, preserving_proto_field_name=True)
    return plain


async def _run(listen: str, forward: str, calls_file: str) -> None:
    ended = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(each, ended.set)
    async with RecordingProxy(listen, forward, calls_file=calls_file).serving():
        os.write(1, b"serving\n")  # who started us waits for this line
        await ended.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description="Records the calls to a CSI driver.")
    parser.add_argument("listen", help="socket for the caller")
    parser.add_argument("forward", help="socket of the driver")
    parser.add_argument("--calls", required=True, help="file that gets a line of JSON for each call")
    given = parser.parse_args()
    asyncio.run(_run(given.listen, given.forward, given.calls))


if __name__ == "__main__":
    main()
