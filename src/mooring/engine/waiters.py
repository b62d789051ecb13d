"""Waiting for a condition without polling: it is looked at again when its key is notified, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class _Waiter(Generic[T]):
    __slots__ = ("answer", "future")

    def __init__(self, answer: Callable[[], T | None]) -> None:
        self.answer = answer
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def ask(self) -> None:
        if not self.future.done():
            given = self.answer()
            if given is not None:
                self.future.set_result(given)


class Waiters:
    """Conditions that somebody waits for, grouped by the key whose changes can make them true."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[_Waiter[Any], None]] = {}

    async def until(self, key: str, answer: Callable[[], T | None], *, timeout: float | None) -> T:
        """Return the first answer that is not None; TimeoutError when none came in time.

        The answer is asked for at once, then after each `notify` of the key.
        """
        first = answer()
        if first is not None:
            return first
        waiter = _Waiter(answer)
        group = self._waiting.setdefault(key, {})
        group[waiter] = None
        try:
            async with asyncio.timeout(timeout):
                return await waiter.future
        finally:
            del group[waiter]
            if not group:
                del self._waiting[key]

    def notify(self, key: str) -> None:
        """Ask every condition waiting on this key again."""
        for waiter in list(self._waiting.get(key, ())):
            waiter.ask()
