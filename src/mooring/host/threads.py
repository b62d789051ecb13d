"""Runs calls that may take long, or never return, off the event loop.

All threads are daemon threads and nothing joins them: a call stuck in the kernel costs its own volume and does not
keep the process from exiting, which an executor of the standard library would.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TypeVar

from mooring.errors import Doubtful
from mooring.host.interface import Risk

T = TypeVar("T")
Job = Callable[[], None]


class Threads:
    """A small pool for bulky work, and one thread each for work that may hang."""

    def __init__(self, *, pool_size: int = 4, deadline: float = 120.0) -> None:
        self._pool_size = pool_size
        self._deadline = deadline
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._workers = 0
        self._waiting = 0
        self._count = 0
        self._running: set[int] = set()
        self._abandoned: dict[int, str] = {}

    @property
    def stuck(self) -> int:
        """How many threads are abandoned: nobody waits any more for what they may still do."""
        return len(self._abandoned)

    @property
    def stuck_on(self) -> tuple[str, ...]:
        """What the abandoned threads are at, oldest first."""
        return tuple(self._abandoned.values())

    async def run(self, call: Callable[[], T], *, risk: Risk, what: str) -> T:
        """Run a call where its risk belongs; `Doubtful` when a hanging one gives no answer within the deadline."""
        match risk:
            case Risk.CHEAP:
                return call()
            case Risk.BULKY:
                return await self._run_in_pool(call)
            case Risk.HANGING:
                return await self._run_alone(call, what)

    async def _run_in_pool(self, call: Callable[[], T]) -> T:
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        job = _job(call, answer)
        self._waiting += 1
        if self._workers < min(self._pool_size, self._waiting):
            self._workers += 1
            threading.Thread(target=self._work, name=f"mooring-pool-{self._workers}", daemon=True).start()
        self._jobs.put(job)
        try:
            return await answer
        finally:
            self._waiting -= 1

    async def _run_alone(self, call: Callable[[], T], what: str) -> T:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        self._count += 1
        number = self._count
        job = _job(call, answer)

        def work() -> None:
            job()
            _tell(loop, partial(self._ended, number))

        self._running.add(number)
        threading.Thread(target=work, name=f"mooring-hanging-{number}", daemon=True).start()
        try:
            async with asyncio.timeout(self._deadline):
                return await answer
        except TimeoutError as error:
            if answer.done() and not answer.cancelled():  # the call itself raised it
                raise
            why = f"no answer within {self._deadline:g} s"
            raise Doubtful(what, why=why, next_step="It is undone or done again once it is known") from error
        finally:
            if answer.cancelled() and number in self._running:
                self._abandoned[number] = what

    def _ended(self, number: int) -> None:
        self._running.discard(number)
        self._abandoned.pop(number, None)

    def _work(self) -> None:
        while True:
            self._jobs.get()()


def _job(call: Callable[[], T], answer: asyncio.Future[T]) -> Job:
    loop = answer.get_loop()

    def job() -> None:
        if answer.cancelled():
            return
        try:
            result = call()
        except BaseException as error:  # whatever it is belongs to the one who waits
            _tell(loop, partial(_settle_with_error, answer, error))
        else:
            _tell(loop, partial(_settle, answer, result))

    return job


def _tell(loop: asyncio.AbstractEventLoop, news: Job) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
        loop.call_soon_threadsafe(news)


def _settle(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _settle_with_error(answer: asyncio.Future[T], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
