"""Whether a server is still there when none of its streams says anything.

A process that is stopped, or a load balancer that has lost what is behind it, closes no connection and answers for it:
the kernel's keep-alive finds nothing wrong. A stream may rightly be silent for long, so the server is asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

SILENCE = 45.0
"""Seconds without a word after which a server is asked whether it is there. Go's clients ask as often."""


class Pulse:
    """Listens to all streams of one server. `is_there` asks it, and is asked by one stream for all of them."""

    def __init__(self, is_there: Callable[[], Awaitable[bool]]) -> None:
        self._is_there = is_there
        self._heard = 0.0  # when the server last said anything, on the loop's clock
        self._turn = asyncio.Lock()
        self._losses = 0

    def heard(self) -> None:
        """The server has said something just now."""
        self._heard = asyncio.get_running_loop().time()

    async def listen(self, read: Callable[[], Awaitable[bytes]], end: float) -> bytes:
        """The next piece of a stream. Nothing when it has ended, or should have by now, or when the server is lost."""
        clock, losses = asyncio.get_running_loop().time, self._losses
        while (now := clock()) < end:
            try:
                async with asyncio.timeout_at(min(now + SILENCE, end)):
                    said = await read()
            except TimeoutError:
                if clock() < end and not await self._beats(losses):
                    return b""
            else:
                self.heard()
                return said
        return b""

    async def _beats(self, losses: int) -> bool:
        """Whether the server is there, and was ever since it had been lost so many times."""
        async with self._turn:
            if self._losses != losses:
                return False  # another stream has found that out; a server that is back knows nothing of this one
            if asyncio.get_running_loop().time() - self._heard < SILENCE:
                return True
            if await self._is_there():
                self.heard()
                return True
            self._losses += 1
            return False
