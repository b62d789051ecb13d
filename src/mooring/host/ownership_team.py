"""Shares a large tree among processes: threads would take turns, since a walk is mostly Python between short calls.

Whoever has nothing to do is lent entries by whoever has; a directory is owned by the process that came upon it, once
all that it lent of it has come back. Descriptors are handed from process to process, never paths.
"""

from __future__ import annotations

import mmap
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass

from mooring.host.ownership_calls import OwnershipWalk
from mooring.host.ownership_entries import MOST_ERRORS, Task
from mooring.host.ownership_worker import FIGURES, HUNGRY, MESSAGE, PLACES, STOPPED, pack, unpack

MOST_WORKERS = 4
_LOOK_EVERY = 0.1  # seconds between two looks at figures and at the wish to stop
_LAST_WAIT = 1.0  # seconds that workers have to go; one that is stuck in the kernel does not
_PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_PROGRAM = (
    "import sys; sys.path.append(sys.argv[1]); from mooring.host import ownership_worker; ownership_worker.main()"
)
_ROOT = -1  # who lent the whole tree


def default_size() -> int:
    """One process for each processor this one may use, up to a few."""
    return min(MOST_WORKERS, len(os.sched_getaffinity(0)))


@dataclass(slots=True)
class _Member:
    process: subprocess.Popen[bytes]
    connection: socket.socket
    tasks: dict[int, tuple[int, int]]  # what it was lent, by our number: who lent it, and under which of its numbers


@dataclass(slots=True)
class _Part:
    """Work that nobody has yet."""

    message: bytes
    descriptor: int
    lender: tuple[int, int]


class Team:
    """Worker processes for one tree. They end with it, and with the process that started them."""

    def __init__(self, task: Task, *, size: int) -> None:
        self._task = task
        self._memory = os.memfd_create("mooring-ownership", os.MFD_CLOEXEC)
        os.ftruncate(self._memory, PLACES * 8)
        self._map = mmap.mmap(self._memory, PLACES * 8)
        self._figures = memoryview(self._map).cast("Q")
        self._waiting: deque[_Part] = deque()
        self._idle: set[int] = set()
        self._numbers = 0
        self._finished = False
        self.errors: list[str] = []
        self._members: list[_Member] = []
        self._events = select.poll()
        try:
            for number in range(size):
                self._members.append(self._start(number))
        except OSError:
            self.close()
            raise

    def _start(self, number: int) -> _Member:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        numbers = [theirs.fileno(), self._memory, number, os.getpid(), *self._task.numbers()]
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _PROGRAM, _PACKAGES, *map(str, numbers)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(), self._memory),
                cwd="/",
                start_new_session=True,  # a signal from the terminal is for the daemon alone
            )
        self._events.register(ours, select.POLLIN)
        return _Member(process, ours, {})

    @property
    def is_ready(self) -> bool:
        """Whether somebody can begin."""
        self._listen(0.0)
        return bool(self._idle)

    @property
    def processes(self) -> tuple[int, ...]:
        return tuple(member.process.pid for member in self._members)

    @property
    def visited(self) -> int:
        return self._sum(0)

    @property
    def changed(self) -> int:
        return self._sum(1)

    @property
    def failed(self) -> int:
        return self._sum(2)

    def _sum(self, which: int) -> int:
        return sum(self._figures[FIGURES + 3 * number + which] for number in range(len(self._members)))

    def own_below(self, descriptor: int, path: str, walk: OwnershipWalk, changed_before: int) -> bool:
        """Own all below a directory, whose descriptor is closed; false when it was stopped.

        OSError when a process ended before its time.
        """
        self._waiting.append(_Part(pack("whole", 0, path, [], []), descriptor, (_ROOT, 0)))
        self._hand_out()
        while not self._finished and not walk.stopped:
            self._listen(_LOOK_EVERY)
            walk.count(self.visited, changed_before + self.changed, self.failed)
        return self._finished

    def _listen(self, seconds: float) -> None:
        by_descriptor = {member.connection.fileno(): number for number, member in enumerate(self._members)}
        for descriptor, _ in self._events.poll(seconds * 1000):
            self._hear(by_descriptor[descriptor])
        self._hand_out()

    def _hear(self, number: int) -> None:
        member = self._members[number]
        try:
            message, descriptors, _, _ = socket.recv_fds(member.connection, MESSAGE, 1, socket.MSG_CMSG_CLOEXEC)
        except ConnectionError:
            message, descriptors = b"", []
        if not message:
            raise self._lost(member)
        kind, own_number, text, _, _ = unpack(message)
        match kind:
            case "idle":
                self._idle.add(number)
            case "part":
                self._waiting.append(_Part(message, descriptors[0], (number, own_number)))
            case "done":
                self._give_back(member.tasks.pop(own_number))
            case "error":
                self.errors.extend([text] if len(self.errors) < MOST_ERRORS else [])
            case _:
                why, _, path = text.partition("\n")
                raise OSError(own_number, why, path or None)

    def _give_back(self, lender: tuple[int, int]) -> None:
        number, own_number = lender
        if number == _ROOT:
            self._finished = True
            return
        self._idle.discard(number)
        self._members[number].connection.send(pack("returned", own_number, "", [], []))

    def _hand_out(self) -> None:
        while self._waiting and self._idle:
            number, part = self._idle.pop(), self._waiting.popleft()
            member = self._members[number]
            self._numbers += 1
            member.tasks[self._numbers] = part.lender
            kind, _, path, directories, files = unpack(part.message)
            message = pack(kind, self._numbers, path, directories, files)
            try:
                socket.send_fds(member.connection, [message], [part.descriptor])
            except ConnectionError:
                raise self._lost(member) from None
            finally:
                os.close(part.descriptor)
        self._figures[HUNGRY] = len(self._idle) if not self._waiting else 0

    def _lost(self, member: _Member) -> OSError:
        with suppress(subprocess.TimeoutExpired):
            member.process.wait(_LAST_WAIT)
        status = member.process.returncode
        ended = f"killed by {signal.Signals(-status).name}" if status is not None and status < 0 else f"status {status}"
        return OSError(None, f"a process that changed the owners of files ended before its time ({ended})")

    def close(self) -> None:
        """End all processes, between two entries as long as they heed it; what they have not come to stays as it is."""
        self._figures[STOPPED] = 1
        for member in self._members:
            member.connection.close()
        end = time.monotonic() + _LAST_WAIT
        for member in self._members:
            try:
                member.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
        for part in self._waiting:
            os.close(part.descriptor)
        self._figures.release()
        self._map.close()
        os.close(self._memory)
