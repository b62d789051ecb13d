"""Operations held up by a file system that does not answer: named, passed by, and given up when nobody wants them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from mooring.host.health import Answer, Stall
from mooring.host.interface import Host, Risk
from mooring.world.explain import HoldUp

_PATIENCE = 0.5  # seconds; those who are held up have waited longer already
_INTERVAL = 1.0  # seconds between two looks at what is held up, while anything is


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    held_up: HoldUp
    is_silent: bool  # a server does not answer, which can last for ever; else it may only take long


class Hangs:
    """Looks at stalled calls as long as there are any; costs nothing while there are none."""

    def __init__(self, host: Host, *, is_wanted: Callable[[Hashable], bool], make_room: Callable[[int], None]) -> None:
        self._host = host
        self._is_wanted = is_wanted
        self._make_room = make_room
        self._changed = asyncio.Event()
        self.held_up: dict[Hashable, HoldUp] = {}  # by the work that waits
        self._stopping = False
        host.watch_stalls(self._changed.set)

    def stop(self) -> None:
        """From now on nothing is worth waiting for a server that does not answer."""
        self._stopping = True
        self._changed.set()

    async def run(self) -> None:
        """Look whenever a call stalls, and then again and again until none is stalled any more."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            while await self._look():
                try:
                    async with asyncio.timeout(_INTERVAL):
                        await self._changed.wait()
                except TimeoutError:
                    continue
                self._changed.clear()

    async def _look(self) -> bool:
        stalls = self._host.stalls()
        self._make_room(sum(not stall.abandoned for stall in stalls))
        found = await asyncio.gather(*(self._hold_up(stall) for stall in stalls))
        self.held_up = {stall.work: each.held_up for stall, each in zip(stalls, found, strict=True)}
        for stall, each in zip(stalls, found, strict=True):
            if each.is_silent and not stall.abandoned and (self._stopping or not self._is_wanted(stall.work)):
                self._host.give_up(stall.work, f"{each.held_up.cause}; it is not waited for any longer")
        return bool(stalls)

    async def _hold_up(self, stall: Stall) -> _Found:
        server = await self._silent_server(stall.at) if stall.at else ""
        since = f"for {stall.seconds:.0f} s"
        if not server:
            return _Found(held_up=HoldUp(cause=f"{stall.what}: it has been at it {since}"), is_silent=False)
        cause = f"{stall.what}: no answer {since} from {server}"
        next_step = "Bring it back, or end it; other volumes are not held up"
        return _Found(held_up=HoldUp(cause=cause, next_step=next_step), is_silent=True)

    async def _silent_server(self, path: str) -> str:
        """The server of the file system at a path, in words, when it is there and does not answer."""
        server = self._host.server_of(path)
        if not server:
            return ""
        answer = await self._host.run(
            lambda: self._host.answers(path, _PATIENCE), risk=Risk.HANGING, what=f"ask the server of {path}"
        )
        return "" if answer is Answer.WELL else server
