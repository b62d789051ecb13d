"""Short calls in which the kernel waits for itself, as it does when it unmounts: in a thread of their own.

One thread, for several would wait for each other. It takes calls from a queue, and tells the event loop of many answers
at once: to wake the loop for each would cost both sides more than the calls do.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from mooring.host.hanging_calls import tell

T = TypeVar("T")

_MOST_ANSWERS = 32
"""How many answers wait for each other at most, while there are more calls to make."""

_Answer = asyncio.Future[Any]
_Settle = Callable[[], None]


class WaitingCalls:
    """A queue of calls, and a thread that comes with the first of them and stays."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Callable[[], Any], _Answer]] = queue.SimpleQueue()
        self._is_served = False

    async def run(self, call: Callable[[], T]) -> T:
        """What a call returns or raises. Calls are made one by one, in the order they come."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._calls.put((call, answer))
        if not self._is_served:
            self._is_served = True
            threading.Thread(target=self._serve, name="mooring-waiting", daemon=True).start()
        return await answer

    def _serve(self) -> None:
        answers: list[_Settle] = []
        while True:
            call, answer = self._calls.get()
            answers.append(_made(call, answer))
            if len(answers) == _MOST_ANSWERS or self._calls.empty():
                tell(answer.get_loop(), partial(_settle_all, answers))
                answers = []


def _made(call: Callable[[], Any], answer: _Answer) -> _Settle:
    """Make a call that somebody still waits for; what is left is to settle its answer on the event loop."""
    if answer.cancelled():
        return _nothing
    try:
        result = call()
    except BaseException as error:  # whatever it is belongs to the one who waits
        return partial(_settle_with_error, answer, error)
    return partial(_settle, answer, result)


def _nothing() -> None:
    return None


def _settle(answer: _Answer, result: Any) -> None:
    if not answer.done():
        answer.set_result(result)


def _settle_with_error(answer: _Answer, error: BaseException) -> None:
    if not answer.done():
        answer.set_exception(error)


def _settle_all(answers: list[_Settle]) -> None:
    for settle in answers:
        settle()
