"""HTTP messages as values: a request as it was read, and what it is answered with."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

LONGEST_HEAD = 64 * 1024
LARGEST_BODY = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks for. `caller` is the number of their process, 0 when it cannot be seen from here."""

    method: str
    path: str
    query: Mapping[str, str]
    content_type: str
    body: bytes
    caller: int
    takes_chunks: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    status: int = 200


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer that comes in parts and ends with them."""

    parts: AsyncGenerator[bytes, None]
    content_type: str


class BadRequest(Exception):
    """What came is no request that can be answered as meant."""

    def __init__(self, status: HTTPStatus, why: str) -> None:
        super().__init__(why)
        self.status, self.why = status, why


def json_answer(value: Any, *, status: int = 200, content_type: str = "application/json") -> Answer:
    return Answer(msgspec.json.encode(value), f"{content_type}; charset=utf-8", status)


def refusal(status: int, what: str, why: str, next_step: str = "") -> Answer:
    """An error in the shape that all of them have."""
    whole = f"{what}: {why}." + (f" {next_step}." if next_step else "")
    return json_answer({"error": whole, "what": what, "why": why, "next_step": next_step}, status=status)


# -- reading ---------------------------------------------------------------------------------------------------------
async def read_request(reader: asyncio.StreamReader, *, caller: int, go_on: Callable[[], None]) -> Request | None:
    """The request that comes, or None when there is none. `go_on` tells somebody who waits for it to send the body."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise BadRequest(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"its head exceeds {LONGEST_HEAD} bytes") from None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, version = _first_line(first)
    headers = _headers(lines)
    takes_chunks = version != "HTTP/1.0"
    if takes_chunks and headers.get("expect", "").lower() == "100-continue":
        go_on()
    parts = urlsplit(target)
    return Request(
        method=method,
        path=unquote(parts.path),
        query=dict(parse_qsl(parts.query, keep_blank_values=True)),
        content_type=headers.get("content-type", "").partition(";")[0].strip().lower(),
        body=await _body(reader, headers),
        caller=caller,
        takes_chunks=takes_chunks,
    )


def _first_line(line: str) -> tuple[str, str, str]:
    match line.split(" "):
        case [method, target, ("HTTP/1.0" | "HTTP/1.1") as version] if method.isalpha() and target:
            return method, target, version
        case [_, _, version] if version.startswith("HTTP/"):
            raise BadRequest(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, f"{version} is not spoken here, HTTP/1.1 is")
    raise BadRequest(HTTPStatus.BAD_REQUEST, "its first line is not a method, a target and a version")


def _headers(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise BadRequest(HTTPStatus.BAD_REQUEST, "one of its headers is not a name and a value")
        if found.setdefault(name.lower(), value.strip()) != value.strip() and name.lower() == "content-length":
            raise BadRequest(HTTPStatus.BAD_REQUEST, "it tells two lengths of its body")
    return found


async def _body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    coding, length = headers.get("transfer-encoding", ""), headers.get("content-length", "0")
    try:
        if coding:
            if coding.lower() != "chunked" or "content-length" in headers:
                raise BadRequest(HTTPStatus.NOT_IMPLEMENTED, "its body is neither of a length nor in chunks alone")
            return await _chunks(reader)
        if not (length.isascii() and length.isdigit()):
            raise BadRequest(HTTPStatus.BAD_REQUEST, "the length of its body is not a number")
        return await reader.readexactly(_small_enough(int(length)))
    except asyncio.IncompleteReadError:
        raise BadRequest(HTTPStatus.BAD_REQUEST, "its body ends too early") from None


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    with contextlib.suppress(ValueError, asyncio.LimitOverrunError):
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            _small_enough(len(body) + size)
            body += await reader.readexactly(size)
            if await reader.readexactly(2) != b"\r\n":
                break
        else:
            while await reader.readuntil(b"\r\n") != b"\r\n":  # fields after the body mean nothing here
                pass
            return bytes(body)
    raise BadRequest(HTTPStatus.BAD_REQUEST, "its chunks are not as they should be")


def _small_enough(size: int) -> int:
    if not 0 <= size <= LARGEST_BODY:
        raise BadRequest(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"its body exceeds {LARGEST_BODY} bytes")
    return size


# -- writing ---------------------------------------------------------------------------------------------------------
def head(status: int, content_type: str, *more: str) -> bytes:
    """The head of an answer, the last on its connection."""
    phrase = HTTPStatus(status).phrase
    fields = (f"Content-Type: {content_type}", f"Date: {formatdate(usegmt=True)}", "Connection: close", *more)
    return "\r\n".join((f"HTTP/1.1 {status} {phrase}", *fields, "", "")).encode()


def chunk(part: bytes) -> bytes:
    """A part of a stream; an empty one ends it."""
    return b"%x\r\n%b\r\n" % (len(part), part)
