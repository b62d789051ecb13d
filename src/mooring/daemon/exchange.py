"""One request to a control socket and its answer: HTTP/1.0, so that an answer ends where the connection does.

The library's client reads mail headers and brings TLS along, which takes longer to import than most answers take.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from io import BufferedReader

_MOST_HEADERS = 100


class BadAnswer(Exception):
    """What came is no answer, or not a whole one."""


class Answer:
    """The status and the body of an answer, which is read when it is asked for."""

    def __init__(self, connection: socket.socket, stream: BufferedReader) -> None:
        self._connection, self._stream = connection, stream
        self.status = _status(stream.readline())
        self._length = _length(stream)

    def read(self) -> bytes:
        body = self._stream.read()
        if self._length is not None and len(body) != self._length:
            raise BadAnswer(f"{len(body)} of {self._length} bytes came")
        return body

    def __iter__(self) -> Iterator[bytes]:
        """The lines, as they come."""
        return iter(self._stream)

    def __enter__(self) -> Answer:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        self._connection.close()


def exchange(path: str, request: str, body: bytes, content_type: str, timeout: float | None) -> Answer:
    """Ask whoever listens at a path; `request` is a method and a target. `BadAnswer` or OSError when nobody answers."""
    head = f"{request} HTTP/1.0\r\nHost: mooring\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(path)
        connection.sendall(head.encode() + body)
        return Answer(connection, connection.makefile("rb"))
    except BaseException:
        connection.close()
        raise


def _status(line: bytes) -> int:
    words = line.split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not words[1].isdigit():
        raise BadAnswer("it does not begin as an answer does")
    return int(words[1])


def _length(stream: BufferedReader) -> int | None:
    """Reads all headers; returns the length that one of them tells."""
    length = None
    for _ in range(_MOST_HEADERS):
        line = stream.readline()
        if not line.strip():
            if not line:
                break
            return length
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    raise BadAnswer("its headers do not end")
