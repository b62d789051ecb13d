"""A process that walks parts of a large tree, told by `ownership_team` what to walk.

It is given descriptors, never paths to open. Its figures go into memory that it shares with whoever started it, and
there it sees whether others have nothing to do, so that it lends them something, and whether all is to end.
"""

from __future__ import annotations

import _socket
import array
import ctypes
import fcntl
import mmap
import os
import signal
import sys

from mooring.host.ownership_entries import Alone, EntryOwner, Task
from mooring.host.ownership_walk import Level, Loan, TreeWalk

HUNGRY, STOPPED, FIGURES = 0, 1, 2  # places in the shared memory: two numbers, then three for each worker
PLACES = 64
MESSAGE = 1 << 17
_MOST_WALKS = 16  # that wait for what they lent: each keeps directories open
_DIE_WITH_PARENT = 1  # PR_SET_PDEATHSIG
_DESCRIPTOR_SIZE = array.array("i").itemsize


class SharedLock(Alone):
    """Lets one of several processes in, by way of a file they share."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def __enter__(self) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        fcntl.lockf(self._descriptor, fcntl.LOCK_UN)


def pack(kind: str, number: int, path: str, directories: list[str], files: list[str]) -> bytes:
    """A message: what it is, a number, and the entries it is about."""
    head = (kind, str(number), path, str(len(directories)))
    return b"\0".join(map(os.fsencode, (*head, *directories, *files)))


def unpack(message: bytes) -> tuple[str, int, str, list[str], list[str]]:
    kind, number, path, count, *names = map(os.fsdecode, message.split(b"\0"))
    return kind, int(number), path, names[: int(count)], names[int(count) :]


class Worker:
    """Walks what it is lent. A walk that waits for what it lent itself is put aside for another one."""

    def __init__(self, connection: _socket.socket, memory: int, number: int, task: Task) -> None:
        self._connection = connection
        self._figures = memoryview(mmap.mmap(memory, PLACES * 8)).cast("Q")
        self._place = FIGURES + 3 * number
        self._owner = EntryOwner(task, SharedLock(memory))
        self._walks: dict[TreeWalk, tuple[int, int]] = {}  # number of the loan, and descriptor
        self._current: TreeWalk | None = None
        self._lent: dict[int, Level] = {}
        self._loans = 0
        self._told = 0

    def run(self) -> None:
        """Work until there is nobody left to work for."""
        while True:
            for walk in list(self._walks):
                self._current = walk
                if walk.run():
                    number, descriptor = self._walks.pop(walk)
                    os.close(descriptor)
                    self._finish("done", number)
            self._current = None
            self._finish("idle", 0)
            self._receive()

    def _finish(self, kind: str, number: int) -> None:
        self._publish()
        self._send(pack(kind, number, "", [], []))

    def _receive(self) -> None:
        message, extra, _, _ = self._connection.recvmsg(MESSAGE, _socket.CMSG_SPACE(_DESCRIPTOR_SIZE))
        if not message:
            os._exit(0)
        kind, number, path, directories, files = unpack(message)
        if kind == "returned":
            self._lent.pop(number).lent -= 1
            return
        (descriptor,) = array.array("i", extra[0][2])
        os.set_inheritable(descriptor, False)
        level = Level(descriptor, path)
        loan = Loan(level, directories, files) if kind == "part" else None
        self._walks[TreeWalk(self._owner, descriptor, path, self._look_up, loan)] = number, descriptor

    def _look_up(self) -> None:
        """Between two pieces of work: tell how far it is, and see what others want."""
        self._publish()
        if self._figures[STOPPED]:
            os._exit(0)
        if self._figures[HUNGRY]:
            self._lend()

    def _publish(self) -> None:
        figures, place, owner = self._figures, self._place, self._owner
        figures[place], figures[place + 1], figures[place + 2] = owner.visited, owner.changed, owner.failed
        while self._told < len(owner.errors):
            self._send(pack("error", 0, owner.errors[self._told], [], []))
            self._told += 1

    def _lend(self) -> None:
        if self._current is None or len(self._walks) > _MOST_WALKS:
            return
        loan = self._current.lend()
        if loan is None:
            return
        self._loans += 1
        loan.level.lent += 1
        self._lent[self._loans] = loan.level
        message = pack("part", self._loans, loan.level.path, loan.directories, loan.files)
        rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", [loan.level.descriptor]))]
        self._connection.sendmsg([message], rights)

    def _send(self, message: bytes) -> None:
        self._connection.send(message)

    def give_up(self, error: OSError) -> None:
        """Tell that the walk cannot go on."""
        self._send(pack("broken", error.errno or 0, f"{error.strerror}\n{error.filename or ''}", [], []))


def main() -> None:
    """Run as a process of its own: socket, memory, number and parent, then the task, as numbers."""
    descriptor, memory, number, parent, *task = map(int, sys.argv[2:])
    ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        return
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0, descriptor)
    worker = Worker(connection, memory, number, Task(*task))
    try:
        worker.run()
    except OSError as error:
        worker.give_up(error)
