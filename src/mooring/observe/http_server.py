"""A server for sockets that are asked little: one request a connection, and streams that end when one side leaves.

A library for it would hold as much memory as thousands of volumes do, and load longer than a hundred take to mount.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from http import HTTPStatus

from mooring.observe.http_messages import (
    LONGEST_HEAD,
    Answer,
    BadRequest,
    Request,
    Stream,
    chunk,
    head,
    read_request,
    refusal,
)

log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Answer | Stream]]
Routes = Mapping[str, Handler]
"""Who answers, by method and path: `GET /healthz`."""

_COMES_WITHIN = 30.0
"""Seconds in which a request must have come as a whole."""
_ENDS_WITHIN = 2.0
"""Seconds that answers under way have once the server ends. Streams end at once."""


@contextlib.asynccontextmanager
async def serving(handler: Handler, bound: socket.socket) -> AsyncIterator[None]:
    """Answer whoever connects to a socket that has its address, of any family."""
    async with asyncio.TaskGroup() as tasks:
        connections = _Connections(handler, tasks)
        server = await asyncio.start_server(connections.accept, sock=bound, limit=LONGEST_HEAD)
        try:
            yield
        finally:
            server.close()
            await connections.end()


def routed(routes: Routes) -> Handler:
    """A handler that asks the one that a route names, and knows no other."""

    async def answer(request: Request) -> Answer | Stream:
        handler = routes.get(f"{request.method} {request.path}")
        if handler is not None:
            return await handler(request)
        methods = [route.partition(" ")[0] for route in routes if route.partition(" ")[2] == request.path]
        if methods:
            why = f"{' and '.join(methods)} can be asked there, {request.method} cannot"
            return refusal(HTTPStatus.METHOD_NOT_ALLOWED, f"cannot answer {request.path!r}", why)
        return refusal(HTTPStatus.NOT_FOUND, f"cannot answer {request.path!r}", "nothing is served at that path")

    return answer


class _Connections:
    """Those who have connected, with a task each."""

    def __init__(self, handler: Handler, tasks: asyncio.TaskGroup) -> None:
        self._handler, self._tasks = handler, tasks
        self._open: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._ending = asyncio.Event()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = self._tasks.create_task(self._serve(reader, writer), name="connection")
        self._open[task] = writer
        task.add_done_callback(self._open.pop)

    async def end(self) -> None:
        """Give answers under way a moment, and then nobody is answered any more."""
        self._ending.set()
        if self._open:
            _, late = await asyncio.wait(self._open, timeout=_ENDS_WITHIN)
            for task in late:
                self._open[task].transport.abort()  # what is still to be sent may never be taken
                task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one caller, whose mishaps are not those of the others."""
        try:
            await self._answer(reader, writer)
        except* ConnectionError:
            pass  # whoever asked has left
        except* Exception:
            log.exception("cannot go on with a connection")
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_COMES_WITHIN):
                request = await read_request(
                    reader, caller=_caller(writer), go_on=lambda: writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                )
        except TimeoutError:
            return
        except BadRequest as bad:
            await _write(writer, refusal(bad.status, "cannot read the request", bad.why), with_body=True)
            return
        if request is None:
            return
        answer = await self._asked(replace(request, method="GET") if request.method == "HEAD" else request)
        if isinstance(answer, Answer):
            await _write(writer, answer, with_body=request.method != "HEAD")
        else:
            await self._stream(request, answer, reader, writer)

    async def _asked(self, request: Request) -> Answer | Stream:
        try:
            return await self._handler(request)
        except Exception:
            log.exception("cannot answer %s %s", request.method, request.path)
            why = "something is wrong with mooring itself; its log tells more"
            return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, f"cannot answer {request.path!r}", why)

    async def _stream(
        self, request: Request, stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        coding = ("Transfer-Encoding: chunked",) if request.takes_chunks else ()
        writer.write(head(HTTPStatus.OK, stream.content_type, *coding))
        if request.method == "HEAD":
            return
        framed = chunk if request.takes_chunks else bytes

        async def send() -> None:
            async with contextlib.aclosing(stream.parts) as parts:
                async for part in parts:
                    writer.write(framed(part))
                    await writer.drain()

        async def until_left() -> None:
            while await reader.read(LONGEST_HEAD):
                pass

        async with asyncio.TaskGroup() as tasks:
            ends = [tasks.create_task(each) for each in (send(), until_left(), self._ending.wait())]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in ends:
                task.cancel()
        writer.write(framed(b""))


async def _write(writer: asyncio.StreamWriter, answer: Answer, *, with_body: bool) -> None:
    writer.write(head(answer.status, answer.content_type, f"Content-Length: {len(answer.body)}"))
    if with_body:
        writer.write(answer.body)
    await writer.drain()


def _caller(writer: asyncio.StreamWriter) -> int:
    """The number of the process at the other end; 0 when it cannot be seen from here."""
    connection = writer.get_extra_info("socket")
    if connection.family != socket.AF_UNIX:
        return 0
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(pid)
