"""The server of the control socket, byte by byte, and as a stranger's client sees it."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import ClientSession
from tests.observe.conftest import asked

from mooring.observe import http_server
from mooring.observe.http_messages import LARGEST_BODY, LONGEST_HEAD, Answer, Request, Stream, json_answer
from mooring.observe.http_server import Handler, routed, serving

Exchange = Callable[[bytes], Awaitable[bytes]]


async def echo(request: Request) -> Answer:
    """What was understood of a request."""
    seen = {"method": request.method, "path": request.path, "query": dict(request.query)}
    return json_answer({**seen, "type": request.content_type, "body": request.body.decode()})


@asynccontextmanager
async def exchanging(handler: Handler = echo) -> AsyncIterator[Exchange]:
    """Bytes that are sent to a handler, and all that comes back until it ends the connection."""
    bound = socket.create_server(("127.0.0.1", 0))
    address = bound.getsockname()

    async def exchange(sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(sent)
        async with asyncio.timeout(10):
            answer = await reader.read()
        writer.close()
        return answer

    async with serving(handler, bound):
        yield exchange


def body_of(answer: bytes) -> object:
    return json.loads(answer.partition(b"\r\n\r\n")[2])


async def test_a_request_is_understood_and_its_answer_is_whole() -> None:
    async with exchanging() as exchange:
        first = b"POST /a%20b?x=1&y=&z=%26 HTTP/1.1\r\n"
        answer = await exchange(first + b"host: h\r\ncontent-TYPE: Text/Plain; a=b\r\nContent-Length: 2\r\n\r\nhi")
    head, _, _ = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\nConnection: close" in head
    assert body_of(answer) == {
        "method": "POST",
        "path": "/a b",
        "query": {"x": "1", "y": "", "z": "&"},
        "type": "text/plain",
        "body": "hi",
    }


async def test_a_body_may_come_in_chunks() -> None:
    async with exchanging() as exchange:
        head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        answer = await exchange(head + b"3\r\nabc\r\nA;note=1\r\n0123456789\r\n0\r\nTrailer: x\r\n\r\n")
        assert b'"body":"abc0123456789"' in answer


async def test_whoever_asks_before_sending_a_body_is_told_to_go_on() -> None:
    async with exchanging() as exchange:
        answer = await exchange(b"POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi")
    assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n")


@pytest.mark.parametrize(
    ("sent", "status", "why"),
    [
        (b"nonsense\r\n\r\n", 400, "first line"),
        (b"GET / x HTTP/1.1\r\n\r\n", 400, "first line"),
        (b"GET / HTTP/2.0\r\n\r\n", 505, "HTTP/2.0"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400, "headers"),
        (b"GET / HTTP/1.1\r\nspace : x\r\n\r\n", 400, "headers"),
        (b"GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n", 400, "headers"),
        (b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400, "not a number"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 400, "two lengths"),
        (b"POST / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % (LARGEST_BODY + 1), 413, "exceeds"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501, "chunks"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", 400, "chunks"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\n", 413, "exceeds"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc", 400, "chunks"),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\n", 413, "exceeds"),
        (b"GET / HTTP/1.1\r\nA: " + b"a" * LONGEST_HEAD + b"\r\n\r\n", 431, "head exceeds"),
    ],
)
async def test_what_is_no_request_is_refused_in_words(sent: bytes, status: int, why: str) -> None:
    async with exchanging() as exchange:
        answer = await exchange(sent)
        assert int(answer.split(b" ", 2)[1]) == status
        assert why in json.loads(answer.partition(b"\r\n\r\n")[2])["why"]
        assert (await exchange(b"GET / HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_whoever_leaves_in_the_middle_harms_nobody() -> None:
    bound = socket.create_server(("127.0.0.1", 0))
    async with serving(echo, bound):
        for part in (b"", b"GET / HT", b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nfour"):
            _, writer = await asyncio.open_connection(*bound.getsockname())
            writer.write(part)
            writer.close()
            await writer.wait_closed()
        async with ClientSession() as client, client.get(f"http://127.0.0.1:{bound.getsockname()[1]}/x") as answer:
            assert (await answer.json())["path"] == "/x"


async def test_whoever_sends_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_COMES_WITHIN", 0.01)
    async with exchanging() as exchange:
        assert await exchange(b"GET / HTTP/1.1\r\n") == b""


async def test_a_path_nobody_serves_and_a_method_nobody_takes(tmp_path: Path) -> None:
    async with asked(routed({"GET /a": echo, "POST /b": echo}), tmp_path / "s") as client:
        async with client.get("/c") as answer:
            assert (answer.status, "nothing is served" in (await answer.json())["error"]) == (404, True)
        async with client.get("/b") as answer:
            assert (answer.status, "POST can be asked" in (await answer.json())["error"]) == (405, True)
        async with client.head("/a") as answer:
            assert (answer.status, await answer.read()) == (200, b"")
            assert int(answer.headers["Content-Length"]) > 0


async def test_a_mistake_of_ours_is_an_answer_and_a_line_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(request: Request) -> Answer:
        raise KeyError("oops")

    async with asked(broken, tmp_path / "s") as client, client.get("/") as answer:
        assert (answer.status, "oops" in await answer.text()) == (500, False)
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert "oops" in caplog.text


class Ticker:
    """A stream that goes on until somebody ends it."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.parts_to_come: asyncio.Queue[bytes] = asyncio.Queue()

    async def _parts(self) -> AsyncGenerator[bytes, None]:
        try:
            while part := await self.parts_to_come.get():
                yield part
        finally:
            self.ended.set()

    async def __call__(self, request: Request) -> Stream:
        return Stream(self._parts(), "text/plain")


async def test_a_stream_comes_in_parts_and_ends_with_its_source(tmp_path: Path) -> None:
    ticker = Ticker()
    async with asked(ticker, tmp_path / "s") as client, client.get("/") as answer:
        ticker.parts_to_come.put_nowait(b"one\n")
        assert await answer.content.readline() == b"one\n"
        ticker.parts_to_come.put_nowait(b"two\n")
        ticker.parts_to_come.put_nowait(b"")
        assert await answer.read() == b"two\n"


async def test_a_stream_for_old_clients_ends_with_the_connection() -> None:
    ticker = Ticker()
    for part in (b"one\n", b"two\n", b""):
        ticker.parts_to_come.put_nowait(part)
    async with exchanging(ticker) as exchange:
        answer = await exchange(b"GET / HTTP/1.0\r\n\r\n")
    assert answer.endswith(b"\r\n\r\none\ntwo\n")
    assert b"chunked" not in answer


async def test_a_stream_ends_when_its_reader_has_left(tmp_path: Path) -> None:
    ticker = Ticker()
    async with asked(ticker, tmp_path / "s") as client, client.get("/") as answer:
        ticker.parts_to_come.put_nowait(b"one\n")
        assert await answer.content.readline() == b"one\n"
        answer.close()
        async with asyncio.timeout(10):
            await ticker.ended.wait()


async def test_streams_end_with_the_server_and_answers_under_way_are_given() -> None:
    ticker, begun, may_end = Ticker(), asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Answer:
        begun.set()
        await may_end.wait()
        return Answer(b"done")

    bound = socket.create_server(("127.0.0.1", 0))
    at = f"http://127.0.0.1:{bound.getsockname()[1]}"
    async with ClientSession() as client:
        async with serving(routed({"GET /stream": ticker, "GET /slow": slow}), bound):
            stream = await client.get(f"{at}/stream")
            answer = asyncio.create_task(client.get(f"{at}/slow"))
            await begun.wait()
            asyncio.get_running_loop().call_later(0.01, may_end.set)
        assert await stream.read() == b""
        assert await (await answer).read() == b"done"
    assert ticker.ended.is_set()


async def test_an_answer_that_never_comes_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_ENDS_WITHIN", 0.01)
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def never(request: Request) -> Answer:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        return Answer(b"")

    bound = socket.create_server(("127.0.0.1", 0))
    async with serving(never, bound):
        _, writer = await asyncio.open_connection(*bound.getsockname())
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await begun.wait()
    assert cancelled.is_set()
    writer.close()


async def test_a_caller_who_does_not_read_the_answer_does_not_hold_up_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "_ENDS_WITHIN", 0.01)

    async def long(request: Request) -> Answer:
        return Answer(b"x" * LARGEST_BODY)

    bound = socket.create_server(("127.0.0.1", 0))
    async with asyncio.timeout(10):
        async with serving(long, bound):
            reader, writer = await asyncio.open_connection(*bound.getsockname(), limit=1)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            assert await reader.read(1) == b"H"
    writer.close()
