"""Chores of tests: functions of a module, as those are that a second process can do."""

from __future__ import annotations

import os
import time

from mooring.errors import Refused
from mooring.host.interface import Host


def whose(host: Host, path: str) -> int:
    """Make a directory; the process that did."""
    host.make_directories(path, 0o755)
    return os.getpid()


def remove(host: Host, path: str) -> None:
    host.remove_directory(path)


def refuse(host: Host, what: str) -> None:
    raise Refused(what, why="it is not wanted", next_step="Want it")


def stumble(host: Host) -> float:
    return 1 / 0


def size(host: Host, data: bytes) -> tuple[int, int]:
    return len(data), os.getpid()


def ramble(host: Host) -> str:
    return "on and on " * 100_000


def rest(host: Host, seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()
