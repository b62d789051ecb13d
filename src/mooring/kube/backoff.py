"""How long a reflector waits between attempts, and how long it forgives internal errors of a server."""

from __future__ import annotations

import asyncio
import contextlib
import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BackoffSettings:
    """Delays in seconds. The first is `base`; each next one is `factor` times longer, up to `cap`.

    Jitter makes each wait up to (1 + jitter) times as long. After `reset_after` seconds the delays start over.
    """

    base: float = 0.8
    factor: float = 2.0
    cap: float = 30.0
    jitter: float = 1.0
    reset_after: float = 120.0


USUAL_BACKOFF = BackoffSettings()


class Backoff:
    """Growing delays on the loop's clock.

    The time for starting over counts from the last start, not from the last use: during one long outage the delay
    falls back to the base every so often, and the first failure after a long quiet time waits only the base.
    """

    def __init__(self, settings: BackoffSettings, source: random.Random) -> None:
        self._settings = settings
        self._random = source
        self._delay = settings.base
        self._started = asyncio.get_running_loop().time()
        self._over = asyncio.Event()  # there is nothing to wait for any more

    def start_over(self) -> None:
        """End the wait that is under way; what fails from now on waits the base again."""
        self._started, self._delay = asyncio.get_running_loop().time(), self._settings.base
        self._over.set()

    def step(self) -> float:
        """The next delay in seconds."""
        settings, now = self._settings, asyncio.get_running_loop().time()
        if now - self._started > settings.reset_after:
            self._started, self._delay = now, settings.base
        delay = self._delay
        self._delay = min(delay * settings.factor, settings.cap)
        return delay * (1.0 + settings.jitter * self._random.random())

    async def wait(self, *, at_least: float = 0.0) -> None:
        self._over.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(self.step(), at_least)):
                await self._over.wait()


class InternalErrorStreak:
    """Forgives a server's internal errors for a while after the first of a streak."""

    FORGOTTEN_AFTER = 60.0

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._first: float | None = None
        self._last = 0.0

    def forgive(self) -> bool:
        """Count one more internal error; true while the streak is still within patience."""
        now = asyncio.get_running_loop().time()
        if self._first is None or now - self._last >= self.FORGOTTEN_AFTER:
            self._first = now
        self._last = now
        return self._patience > 0 and now - self._first <= self._patience
