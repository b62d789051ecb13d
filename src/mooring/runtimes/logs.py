"""What containers write, in the log format of the Container Runtime Interface: `time stream P|F text` per line.

Both podman (`k8s-file`) and CRI runtimes write it. A line of the container that is longer than the runtime's buffer
comes in parts marked `P`, the last one marked `F`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_PIECE = 1 << 16
_LONGEST = 1 << 20  # bytes of one line that are kept together
_PAUSE = 0.05  # seconds between two looks at a log that is being written


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line that a container wrote on `stdout` or `stderr`, without its end."""

    stream: str
    text: str


class LogReader:
    """Takes a log file piece by piece, and gives the lines that are complete."""

    def __init__(self) -> None:
        self._rest = b""
        self._parts: dict[str, bytes] = {}

    def feed(self, piece: bytes) -> Iterator[LogLine]:
        """The lines that a further piece completes. What is not in the format is passed on as it is."""
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines:
            yield from self._line(line)

    def finish(self) -> Iterator[LogLine]:
        """What came without an end: a container may end in the middle of a line."""
        if self._rest:
            yield from self._line(self._rest)
            self._rest = b""
        for stream, text in self._parts.items():
            yield _decoded(stream, text)
        self._parts.clear()

    def _line(self, line: bytes) -> Iterator[LogLine]:
        fields = line.split(b" ", 3)
        if len(fields) < 3 or fields[1] not in (b"stdout", b"stderr"):
            yield _decoded("stdout", line)
            return
        stream, tags = fields[1].decode(), fields[2]
        text = self._parts.pop(stream, b"") + (fields[3] if len(fields) == 4 else b"")
        if tags.split(b":")[0] == b"P" and len(text) < _LONGEST:
            self._parts[stream] = text
        else:
            yield _decoded(stream, text)


def _decoded(stream: str, text: bytes) -> LogLine:
    return LogLine(stream, text.decode("utf-8", "replace"))


async def follow(path: str, ended: asyncio.Event, show: Callable[[LogLine], None]) -> None:
    """Show the lines of a log as they are written, until its writer has ended and all was shown."""
    reader = LogReader()
    descriptor: int | None = None
    try:
        while True:
            last = ended.is_set()
            if descriptor is None:
                descriptor = _open(path)
            if descriptor is not None:
                while piece := os.read(descriptor, _PIECE):
                    for line in reader.feed(piece):
                        show(line)
            if last:
                break
            await _until(ended, _PAUSE)
    finally:
        if descriptor is not None:
            os.close(descriptor)
    for line in reader.finish():
        show(line)


def _open(path: str) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None


async def _until(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
