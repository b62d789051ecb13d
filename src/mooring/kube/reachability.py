"""Whether an API server serves, and when one that was away is back."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from mooring.kube.api import ApiError
from mooring.kube.backoff import Backoff, BackoffSettings

_LOOKS = BackoffSettings(base=0.5, cap=2.0, jitter=1.0)
"""Between two looks at a server that is away: of all nodes of a cluster only a few look at a time."""


class Reachability:
    """Remembers that a server gave no answer, or was not ready, until `look` finds it serving.

    Whoever failed meanwhile waits ever longer before trying again. One who looks more often spares all others the rest
    of their wait. A server that is ready but cannot do one thing was not away: nobody is told, and each waits in peace.
    """

    def __init__(self, look: Callable[[], Awaitable[object]]) -> None:
        self._look = look  # raises an `ApiError` as long as the server does not serve
        self._doubted = asyncio.Event()
        self._away = False

    def doubted(self) -> None:
        """The server answered that it could not do what was asked, or did not end its answer: it may be ill."""
        self._doubted.set()

    def lost(self) -> None:
        """There was no answer."""
        self._away = True
        self._doubted.set()

    async def until_back(self) -> None:
        """Return when a server that was away, or is from now on, serves again."""
        looks = Backoff(_LOOKS, random.Random())
        while True:
            await self._doubted.wait()
            await looks.wait()
            self._doubted.clear()
            if not await self._serves():
                self._away = True
                self._doubted.set()
            elif self._away:
                self._away = False
                return

    async def _serves(self) -> bool:
        """Whether it is ready, or at least well enough to say that we may not know: any answer but of a failure."""
        try:
            await self._look()
        except ApiError as error:
            return error.code < 500
        return True
