"""Requests to a control socket, answered by whatever listens there."""

from __future__ import annotations

import socket
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from mooring.daemon.exchange import BadAnswer, exchange


def ask(place: Path, answer: bytes) -> tuple[int, bytes, bytes]:
    """The status and the body that come of an answer, and the request that was sent."""
    path = str(place / "socket")
    with socket.socket(socket.AF_UNIX) as listener, ThreadPoolExecutor(1) as pool:
        listener.bind(path)
        listener.listen()
        asked: Future[bytes] = pool.submit(_serve, listener, answer)
        with exchange(path, "GET /v1/pods", b"body", "text/plain", 5.0) as given:
            return given.status, given.read(), asked.result()


def _serve(listener: socket.socket, answer: bytes) -> bytes:
    connection, _ = listener.accept()
    with connection:
        request = b""
        while not request.endswith(b"body"):
            request += connection.recv(1024)
        connection.sendall(answer)
    return request


def test_an_answer_has_its_status_and_its_body(tmp_path: Path) -> None:
    status, body, request = ask(tmp_path, b"HTTP/1.0 404 Not Found\r\ncontent-length: 4\r\nX: y\r\n\r\nnone")
    assert (status, body) == (404, b"none")
    assert request.startswith(b"GET /v1/pods HTTP/1.0\r\n")
    assert b"\r\nContent-Length: 4\r\n" in request


def test_an_answer_of_no_told_length_ends_with_its_connection(tmp_path: Path) -> None:
    assert ask(tmp_path, b"HTTP/1.1 200 OK\r\n\r\n[]\n")[:2] == (200, b"[]\n")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"220 mail.example ESMTP\r\n",
        b"HTTP/1.0 fine\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n",
        b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n[]",
        b"HTTP/1.0 200 OK\r\n" + b"X: y\r\n" * 101 + b"\r\n",
    ],
)
def test_what_is_no_whole_answer_is_told_from_one(tmp_path: Path, answer: bytes) -> None:
    with pytest.raises(BadAnswer):
        ask(tmp_path, answer)
