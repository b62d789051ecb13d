"""Chores: short work on our own files, of which a burst is shared with a second process.

One by one they are done on the event loop, for a hop to anywhere else costs more than they do. But most of a chore is
spent in the kernel, and a thread that shares the interpreter with the loop wins nothing of that back: each waits for
the other at every call. So once many come together a process is started that does as many as it can, while the loop
does the rest. It ends soon after the last of them, and at once with the process that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import json
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from mooring.errors import Doubtful
from mooring.host.chore_process import LONGEST, Answer, Call, answer_to, packed, surroundings
from mooring.host.interface import Host

log = logging.getLogger(__name__)

_MANY, _WITHIN = 100, 0.25
"""So many chores within so many seconds are a burst: a new process needs a third of that to begin."""

_TOGETHER = 8  # chores in a message
_AHEAD = 48  # chores that the process has been given at most: enough to be never without one
_PATIENCE = 2.0  # seconds without a chore after which the process ends
_LAST_WAIT = 1.0  # seconds that it has to go when it is told to

_PROGRAM = """\
import sys, json
sys.path[:] = json.loads(sys.argv[1])
from mooring.host import chore_process
chore_process.main()
"""


class Sharing(enum.Enum):
    """When chores are shared with a second process."""

    AUTO = "auto"  # when there are many
    ALWAYS = "always"  # from the first one on
    OFF = "off"


class Chores:
    """Decides who does a chore, and keeps the process that does some of them. Lives on one event loop."""

    def __init__(self, host: Host, sharing: Sharing = Sharing.AUTO) -> None:
        self._host = host
        self.sharing = sharing
        if sharing is Sharing.AUTO and len(os.sched_getaffinity(0)) == 1:
            self.sharing = Sharing.OFF  # a second process would take turns with this one
        self._burst_began, self._burst = 0.0, 0
        self._process: _Process | None = None

    def take(self, call: Call) -> asyncio.Future[Any] | None:
        """The answer to come of a chore that the process does; None: it is to be done here."""
        if self._process is None:
            if self.sharing is not Sharing.OFF and self._is_burst():
                self._start()
            return None
        return self._process.take(call)

    def expect(self, count: int) -> None:
        """Begin before a burst that is about to come."""
        if count > _MANY and self.sharing is not Sharing.OFF and self._process is None:
            self._start()

    @property
    def process(self) -> int | None:
        """The id of the process, while there is one."""
        return self._process.id if self._process is not None else None

    def _is_burst(self) -> bool:
        now = time.monotonic()
        if now - self._burst_began > _WITHIN:
            self._burst_began, self._burst = now, 0
        self._burst += 1
        return self._burst > _MANY or self.sharing is Sharing.ALWAYS

    def _start(self) -> None:
        self._burst = 0
        try:
            self._process = _Process(self._host, self._ended)
        except OSError as error:
            self._ended(f"it cannot be started: {error}")

    def _ended(self, why: str) -> None:
        """The process is no more. With a reason none is started again."""
        self._process = None
        if why:
            self.sharing = Sharing.OFF
            log.warning("bursts of work are not shared with a second process: %s", why)

    def close(self) -> None:
        """End the process; chores that it has not done are in doubt."""
        if self._process is not None:
            self._process.end("")


class _Process:
    """One process, from its start to its end."""

    def __init__(self, host: Host, ended: Callable[[str], None]) -> None:
        self._host, self._ended = host, ended
        self._surroundings = surroundings()
        self._loop = asyncio.get_running_loop()
        self._asked: dict[int, tuple[Call, asyncio.Future[Any]]] = {}
        self._unsent: list[int] = []
        self._numbers = 0
        self._ready = False
        self._used = True  # since the last look
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = _started(theirs.fileno())
            except OSError:
                self._socket.close()
                raise
        self.id = self._process.pid
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket, self._hear)
        self._timer = self._loop.call_later(_PATIENCE, self._look)

    # -- giving ----------------------------------------------------------------------------------------------------
    def take(self, call: Call) -> asyncio.Future[Any] | None:
        if not self._ready or len(self._asked) >= _AHEAD:
            return None
        self._numbers += 1
        self._used = True
        answer = self._loop.create_future()
        self._asked[self._numbers] = call, answer
        self._unsent.append(self._numbers)
        if len(self._unsent) == 1:
            self._loop.call_soon(self._send)
        elif len(self._unsent) == _TOGETHER:
            self._send()
        return answer

    def _send(self) -> None:
        """Hand over what was taken in this turn of the loop. What cannot be sent, or not at once, is done here."""
        numbers, self._unsent = self._unsent, []
        if not numbers or self._socket.fileno() < 0:
            return  # they were sent, or it has ended since and all answers are given
        message = packed(numbers, [self._asked[number][0] for number in numbers])
        try:
            if message is not None and len(message) <= LONGEST:
                self._socket.send(message)
                return
        except ConnectionError:
            return  # it has ended, which is heard next
        except OSError as error:  # it has more to do than we thought, or the kernel's limit is a lower one
            log.debug("chores are not handed over: %s", error)
        for number in numbers:
            self._settle(number, None)

    # -- hearing ---------------------------------------------------------------------------------------------------
    def _hear(self) -> None:
        try:
            message = self._socket.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:
            message = b""
        if not message:
            self.end(self._lost())
        elif self._ready:
            self._understand(message)
        elif message == self._surroundings:
            self._ready = True
        else:
            self.end("its surroundings are not those of this process")

    def _understand(self, message: bytes) -> None:
        try:
            answers = pickle.loads(message)
        except Exception as error:  # it was cut, or means nothing here
            self.end(f"its answers cannot be read: {error!r}")
            return
        for number, told in answers:
            self._settle(number, told)

    def _settle(self, number: int, told: Answer | None) -> None:
        """Pass an answer on. None: the chore was not begun, and is done here."""
        call, answer = self._asked.pop(number)
        if answer.done():
            return  # nobody waits for it any more
        value, error = told if told is not None else answer_to(call, self._host)
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)

    # -- ending ----------------------------------------------------------------------------------------------------
    def _look(self) -> None:
        """End what has had nothing to do for a while."""
        if self._used or self._asked or not self._ready:
            self._used = False
            self._timer = self._loop.call_later(_PATIENCE, self._look)
        else:
            self.end("")

    def _lost(self) -> str:
        """Why it has ended before its time; a process that somebody killed may be followed by another."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_LAST_WAIT)
        status = self._process.returncode
        if status is not None and status < 0:
            log.warning("a process that shared work was killed by %s", signal.Signals(-status).name)
            return "" if self._ready else "it was killed before it could begin"
        return f"it ended with status {status}"

    def end(self, why: str) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._socket.close()
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):  # it is stuck in the kernel
            self._process.wait(_LAST_WAIT)
        for _, answer in self._asked.values():
            if not answer.done():
                answer.set_exception(_doubt())
        self._asked.clear()
        self._ended(why)


def _started(descriptor: int) -> subprocess.Popen[bytes]:
    places = json.dumps([os.path.abspath(place) for place in sys.path])
    numbers = map(str, (descriptor, os.getpid()))
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _PROGRAM, places, *numbers],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(descriptor,),
        cwd="/",
        start_new_session=True,  # a signal from the terminal is for the daemon alone
    )


def _doubt() -> Doubtful:
    return Doubtful(
        "the work stopped half way", why="the process that did it has ended", next_step="It is done again by itself"
    )
