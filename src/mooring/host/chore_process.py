"""The process that does chores for another one, told by `chores` what to do.

It has the mount namespace, the rights and the umask of whoever started it, or is not used.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

from mooring.errors import MooringError
from mooring.host.interface import Host

LONGEST = 1 << 17
"""Bytes of a message. What is more than that is done by whoever has it."""
_MOST_ANSWERS = 16  # that wait for each other, as long as there is more to do
_PROTOCOL = pickle.HIGHEST_PROTOCOL
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A chore, and what it is called with after the host."""

Answer = tuple[Any, Exception | None]


def answer_to(call: Call, host: Host) -> Answer:
    """What a chore returns or raises, as a value."""
    chore, arguments, more = call
    try:
        return chore(host, *arguments, **more), None
    except (OSError, MooringError) as error:
        return None, error
    except Exception as error:  # whatever it is belongs to the one who waits
        error.add_note(traceback.format_exc())
        return None, error


def packed(numbers: list[int], calls: list[Call]) -> bytes | None:
    """A message that asks for chores, by their numbers; None when one is not made of plain values."""
    try:
        return pickle.dumps((numbers, pickle.dumps(calls, _PROTOCOL)), _PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None


def _unpacked(message: bytes) -> list[tuple[int, Call | None]]:
    """What is asked for; without calls where their modules are not to be had here."""
    numbers, calls = pickle.loads(message)
    try:
        return list(zip(numbers, pickle.loads(calls), strict=True))
    except (ImportError, AttributeError):
        return [(number, None) for number in numbers]


def surroundings() -> bytes:
    """What must be the same for a call to have the same effect: mounts, rights, and the modes of what is made."""
    with open("/proc/self/status", "rb") as status:
        shown = [line for line in status if line.startswith((b"CapEff:", b"Umask:", b"Uid:", b"Gid:"))]
    return b"".join([os.readlink("/proc/self/ns/mnt").encode(), b"\n", *shown])


def main() -> None:
    """Run as a process of its own; after the path of modules: the socket, and the process that started it."""
    descriptor, parent = map(int, sys.argv[2:])
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        return
    from mooring.host.linux import LinuxHost  # noqa: PLC0415 - it has the other side of this

    host = LinuxHost()
    with socket.socket(fileno=descriptor) as connection:
        connection.send(surroundings())
        while message := connection.recv(LONGEST):
            _serve(connection, message, host)


def _serve(connection: socket.socket, message: bytes, host: Host) -> None:
    """Do what a message holds and all that has come by then; answer together, but before it gets late."""
    answers: list[tuple[int, Answer | None]] = []
    while message:
        for number, call in _unpacked(message):
            answers.append((number, answer_to(call, host) if call is not None else None))
            if len(answers) == _MOST_ANSWERS:
                _tell(connection, answers)
                answers = []
        try:
            message = connection.recv(LONGEST, socket.MSG_DONTWAIT)
        except BlockingIOError:
            break
    _tell(connection, answers)


def _tell(connection: socket.socket, answers: list[tuple[int, Answer | None]]) -> None:
    if answers:
        connection.send(pickle.dumps(answers, _PROTOCOL))
