"""The Secrets that volumes name for their drivers, as drivers take them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.errors import MooringError, NotYet
from mooring.kube.api import NotFound, Reader
from mooring.kube.objects.kinds import SECRET
from mooring.kube.objects.meta import SecretReference

_KEPT = 300.0
"""Seconds for which a Secret is looked for after it was asked for: longer than anybody pauses who needs it."""


class DriverSecrets:
    """Reads each when it is needed: nobody keeps, or may even list, all Secrets of a cluster for that.

    Nor may anybody watch them, so that those which are missing are looked for every few seconds.
    """

    def __init__(self, api: Reader, *, look_interval: float = 5.0) -> None:
        self._api, self._look_interval = api, look_interval
        self._missing: dict[SecretReference, float] = {}  # when each was asked for last, on the loop's clock
        self._missed = asyncio.Event()

    async def watch(self, appeared: Callable[[], None]) -> None:
        """Say so whenever a Secret is there that was missing, until cancelled."""
        while True:
            await self._missed.wait()
            await asyncio.sleep(self._look_interval)
            if await self._look():
                appeared()

    async def _look(self) -> bool:
        """Whether one of those that are missing has come."""
        now = asyncio.get_running_loop().time()
        self._missing = {ref: asked for ref, asked in self._missing.items() if now < asked + _KEPT}
        found = [ref for ref in list(self._missing) if await self._is_there(ref)]
        for ref in found:
            self._missing.pop(ref, None)
        if not self._missing:
            self._missed.clear()
        return bool(found)

    async def _is_there(self, ref: SecretReference) -> bool:
        try:
            await self._api.get(SECRET, ref.namespace, ref.name)
        except MooringError:
            return False  # whoever needs it asks again, and is told why it cannot be read
        return True

    async def of(self, ref: SecretReference | None, what: str) -> dict[str, str]:
        """The content of a Secret; nothing when none is named, `NotYet` when it is missing."""
        if ref is None or not ref.name:
            return {}
        try:
            found = await self._api.get(SECRET, ref.namespace, ref.name)
        except NotFound:
            self._missing[ref] = asyncio.get_running_loop().time()
            self._missed.set()
            why = f"there is no Secret '{ref.namespace}/{ref.name}'"
            raise NotYet(what, why=why, next_step="Create it") from None
        try:
            return {key: value.decode() for key, value in found.data.items()}
        except UnicodeDecodeError:
            why = f"a value of Secret '{ref.namespace}/{ref.name}' is not a text"
        raise NotYet(what, why=why)
