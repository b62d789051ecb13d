"""An event loop whose clock jumps: hours of timers pass in microseconds, the same way in each run."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, ParamSpec, TypeVar, TypeVarTuple

from mooring.errors import MooringError

P = ParamSpec("P")
T = TypeVar("T")
Ts = TypeVarTuple("Ts")

THIRTY_DAYS = 30 * 24 * 3600.0


class VirtualTimeStuck(MooringError):
    """Nothing can happen any more, or nothing but timers happened for too long."""


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop that never blocks: when nothing is ready, its clock jumps to the next timer.

    `time()` starts at 0.0. Functions given to `run_in_executor` (and so `asyncio.to_thread`) run at once on the
    loop's own thread, which keeps the order of things fixed. Sockets, pipes and other threads do not work here.
    When nothing is ready and no timer is set, or when the clock passes `limit` seconds, `VirtualTimeStuck` is
    raised out of the run instead of hanging; it names the tasks that wait and the line each waits at.
    """

    def __init__(self, *, limit: float = THIRTY_DAYS) -> None:
        self._now = 0.0
        self._limit = limit
        super().__init__(_JumpingSelector(self._jump))
        # Timers closer together than this run in one go. asyncio takes the resolution of the real clock, which a
        # float cannot tell apart any more after some months of virtual time; the loop would then spin.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        return self._now

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future

    def _jump(self, seconds: float | None) -> None:
        if seconds is None:
            raise VirtualTimeStuck(
                f"virtual time stands still at {self._now:g} s",
                why=f"no timer is set and nothing is ready to run; waiting: {_describe_tasks(self)}",
                next_step="Look for an event nobody sets, or for real I/O or threads, which virtual time cannot serve",
            )
        # Rounded, so that tests can compare sums of delays with the number a person would write.
        self._now = round(self._now + seconds, 9)
        if self._now > self._limit:
            raise VirtualTimeStuck(
                f"virtual time ran past its limit of {self._limit:g} s",
                why=f"timers kept it going but the run did not end; waiting: {_describe_tasks(self)}",
                next_step="Look for an event nobody sets, or raise the limit",
            )


class _JumpingSelector(selectors.SelectSelector):
    """Reports no I/O, and tells the loop how long it would have slept."""

    def __init__(self, jump: Callable[[float | None], None]) -> None:
        super().__init__()
        self._jump_clock = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._jump_clock(timeout)
        return []


def _describe_tasks(loop: asyncio.AbstractEventLoop) -> str:
    lines = []
    for task in asyncio.all_tasks(loop):
        frames = task.get_stack(limit=1)
        where = f"{frames[0].f_code.co_filename}:{frames[0].f_lineno}" if frames else "not started"
        lines.append(f"{task.get_name()} ({where})")
    return ", ".join(sorted(lines)) or "no task"


def run_virtual(main: Coroutine[Any, Any, T], *, limit: float = THIRTY_DAYS) -> T:
    """Run `main` to its end on a fresh virtual-time loop and return its result."""
    with asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(limit=limit)) as runner:
        return runner.run(main)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Decorate an async test so that it runs on a virtual-time loop of its own."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_virtual(test(*args, **kwargs))

    return run
