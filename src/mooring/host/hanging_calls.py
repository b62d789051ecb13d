"""Calls that may never return, each in a thread of its own that can be left behind.

A thread that waits in the kernel cannot be ended. One that is given up gets `Abandoned` the moment its call returns,
so that it has no further effect on a machine on which the work it belonged to has been undone meanwhile.
"""

from __future__ import annotations

import asyncio
import ctypes
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from mooring.errors import Doubtful
from mooring.host.health import Stall

T = TypeVar("T")

WORK: ContextVar[Hashable] = ContextVar("WORK", default=None)
"""What the present task works on; a call it makes is known by this."""

STALLED_AFTER = 1.0  # seconds without an answer after which a call counts as stalled


class Abandoned(BaseException):
    """Raised in a thread that nobody waits for any more. Not an Exception, so that nothing takes it for a failure."""


@dataclass(eq=False, slots=True, kw_only=True)
class _Call:
    what: str
    at: str
    work: Hashable
    began: float
    answer: asyncio.Future[Any]
    thread: threading.Thread = field(init=False)
    stalled: bool = False
    left: bool = False  # nobody waits for it any more


class HangingCalls:
    """All calls under way that may never return. Lives on one event loop."""

    def __init__(self, *, deadline: float) -> None:
        self._deadline = deadline
        self._calls: dict[_Call, None] = {}
        self._count = 0
        self.watch: Callable[[], None] = lambda: None  # told when a call stalls, and when a stalled one ends

    async def run(self, call: Callable[[], T], *, what: str, at: str) -> T:
        """Run a call in a thread; `Doubtful` when there is no answer within the deadline or it is given up."""
        loop = asyncio.get_running_loop()
        work = WORK.get()
        self._refuse_second(what, work)
        answer: asyncio.Future[T] = loop.create_future()
        made = _Call(what=what, at=at, work=work, began=loop.time(), answer=answer)
        self._count += 1
        name = f"mooring-hanging-{self._count}"
        made.thread = threading.Thread(target=self._work, args=(made, call, loop), name=name, daemon=True)
        self._calls[made] = None
        timer = loop.call_later(STALLED_AFTER, self._stalled, made)
        made.thread.start()
        try:
            async with asyncio.timeout(self._deadline):
                return await answer
        except TimeoutError as error:
            if answer.done() and not answer.cancelled():  # the call itself raised it
                raise
            raise _doubt(what, f"no answer within {self._deadline:g} s") from error
        finally:
            timer.cancel()
            if made in self._calls:
                self._leave(made)

    def _refuse_second(self, what: str, work: Hashable) -> None:
        """The same call for the same work would only be stuck beside the first one."""
        for made in self._calls:
            if made.left and (made.work, made.what) == (work, what) and made.thread.is_alive():
                raise _doubt(what, f"an earlier call has had no answer for {_now() - made.began:.0f} s")

    def stalls(self) -> tuple[Stall, ...]:
        """Calls that have not answered for a while, oldest first, also those that nobody waits for any more."""
        for made in [made for made in self._calls if made.left and not made.thread.is_alive()]:
            del self._calls[made]
        return tuple(
            Stall(what=made.what, at=made.at, work=made.work, seconds=_now() - made.began, abandoned=made.left)
            for made in self._calls
            if made.stalled or made.left
        )

    def give_up(self, work: Hashable, why: str) -> None:
        """Wait no longer for the stalled calls of a work: whoever does gets `Doubtful`."""
        for made in list(self._calls):
            if made.work == work and made.stalled and not made.answer.done():
                made.answer.set_exception(_doubt(made.what, why))

    def _work(self, made: _Call, call: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        try:
            try:
                result = call()
            except Abandoned:
                raise
            except BaseException as error:  # whatever it is belongs to the one who waits
                tell(loop, lambda error=error: self._ended(made, error, None))  # type: ignore[misc]
            else:
                tell(loop, lambda: self._ended(made, None, result))
        except Abandoned:
            tell(loop, lambda: self._ended(made, None, None))

    def _ended(self, made: _Call, error: BaseException | None, result: object) -> None:
        self._calls.pop(made, None)
        if not made.answer.done():
            if error is not None:
                made.answer.set_exception(error)
            else:
                made.answer.set_result(result)
        if made.stalled or made.left:
            self.watch()

    def _stalled(self, made: _Call) -> None:
        made.stalled = True
        self.watch()

    def _leave(self, made: _Call) -> None:
        made.left = True
        identity = made.thread.ident
        if identity is not None and made.thread.is_alive():
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(identity), ctypes.py_object(Abandoned))
        self.watch()


def tell(loop: asyncio.AbstractEventLoop, news: Callable[[], None]) -> None:
    """Let the loop hear of something that happened in a thread."""
    with suppress(RuntimeError):  # the loop is closed: nobody is left to tell
        loop.call_soon_threadsafe(news)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _doubt(what: str, why: str) -> Doubtful:
    return Doubtful(what, why=why, next_step="It is undone or done again once it is known")
