"""A relay before a server, whose connections can be cut as a broken network does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from urllib.parse import urlsplit

from rig.flags import HOST

_CHUNK = 1 << 16


class Relay:
    """Passes bytes on, both ways, until it is cut; then it hangs up on whoever calls, until it is mended."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._is_cut = False
        self._left: int | None = None
        self.was_cut = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()

    def cut(self) -> None:
        """Reset all connections, in the middle of whatever they carry."""
        self._is_cut = True
        self._left = None
        self.was_cut.set()
        for each in self._open:
            each.transport.abort()

    def cut_after(self, size: int) -> None:
        """Cut as soon as clients have been told this many bytes more."""
        self.was_cut.clear()
        self._left = size

    def mend(self) -> None:
        self._is_cut = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to its end."""
        if self._is_cut:
            writer.transport.abort()
            return
        with contextlib.suppress(OSError):
            onward, back = await asyncio.open_connection(self._host, self._port)
            self._open |= {writer, back}
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(_pass_on(reader, back))
                    tasks.create_task(_pass_on(onward, writer, self._told))
            finally:
                self._open -= {writer, back}

    def _told(self, size: int) -> None:
        if self._left is not None:
            self._left -= size
            if self._left <= 0:
                self.cut()


async def _pass_on(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, passed: Callable[[int], None] = lambda size: None
) -> None:
    with contextlib.suppress(OSError):
        while chunk := await source.read(_CHUNK):
            sink.write(chunk)
            await sink.drain()
            passed(len(chunk))
    sink.close()


@contextlib.asynccontextmanager
async def relaying(server: str) -> AsyncIterator[tuple[Relay, str]]:
    """A relay before the server at this URL, and the URL to use instead."""
    address = urlsplit(server)
    relay = Relay(address.hostname or HOST, address.port or 443)
    listening = await asyncio.start_server(relay.serve, HOST, 0)
    try:
        yield relay, f"{address.scheme}://{HOST}:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()
        relay.cut()
