"""Runs calls that may take long, or never return, off the event loop.

All threads are daemon threads and nothing joins them: a call stuck in the kernel costs its own volume and does not
keep the process from exiting, which an executor of the standard library would.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from mooring.host.hanging_calls import HangingCalls, tell
from mooring.host.interface import Risk

T = TypeVar("T")
Job = Callable[[], None]


class Threads:
    """A small pool for bulky work, and one thread each for work that may hang."""

    def __init__(self, *, pool_size: int = 4, deadline: float = 120.0) -> None:
        self.hanging = HangingCalls(deadline=deadline)
        self._pool_size = pool_size
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._workers = 0
        self._waiting = 0

    async def run(self, call: Callable[[], T], *, risk: Risk, what: str, at: str = "") -> T:
        """Run a call where its risk belongs; `Doubtful` when a hanging one gives no answer within the deadline."""
        match risk:
            case Risk.CHEAP:
                return call()
            case Risk.BULKY:
                return await self._run_in_pool(call)
            case Risk.HANGING:
                return await self.hanging.run(call, what=what, at=at)

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
            tell(loop, partial(_settle_with_error, answer, error))
        else:
            tell(loop, partial(_settle, answer, result))

    return job


def _settle(answer: asyncio.Future[T], result: T) -> None:
    if not answer.done():
        answer.set_result(result)


def _settle_with_error(answer: asyncio.Future[T], error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)
