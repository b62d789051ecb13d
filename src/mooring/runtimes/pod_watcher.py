"""Tells which pods of a node have containers that others started, and when those have stopped."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Protocol

from mooring.runtimes.interface import RuntimeFailed
from mooring.world.names import PodUid

log = logging.getLogger(__name__)

_LOOK_WHILE_LEAVING = 1.0  # seconds, where the runtime has no events
_LOOK_IN_DOUBT = 10.0  # an event may be lost
_LONGEST_PAUSE = 30.0
_REMEMBERED = 4096  # pods that left
_LATEST_EVENTS = 0.05  # containers of one pod stop together

Tell = Callable[[PodUid, str | None], None]


class RuntimePods(Protocol):
    """A runtime, as far as pods of a node are concerned. Calls raise `RuntimeFailed`."""

    @property
    def where(self) -> str:
        """Which runtime this is, in words for people."""
        ...

    async def live_pods(self) -> Mapping[PodUid, str]:
        """Pods with a container or a sandbox that has not stopped, and what that is, in words."""
        ...

    def events(self) -> AsyncIterator[None]:
        """Yields whenever something may have changed. Ends at once where the runtime has no events."""
        ...


class RuntimePodWatcher:
    """Asks a runtime at the start, at its events and when pods leave, and tells what is left of which pod.

    Until `answered` is set nothing is known, and nothing may be taken down. From `look` on, a pod counts as having
    containers until an answer to a question that was asked later says that it has none.
    """

    def __init__(self, runtime: RuntimePods, tell: Tell) -> None:
        self.answered = asyncio.Event()
        self._runtime = runtime
        self._tell = tell
        self._told: dict[PodUid, str] = {}
        self._leaving: set[PodUid] = set()
        self._left: dict[PodUid, None] = {}  # oldest first
        self._wake = asyncio.Event()
        self._has_events = False

    def look(self, uid: PodUid) -> None:
        """A pod is leaving. Call it in the turn of the loop in which that is heard; again does nothing."""
        if uid in self._leaving or uid in self._left:
            return
        self._leaving.add(uid)
        if uid not in self._told:
            self._say(uid, f"{self._runtime.where} has not said yet that there are none")
        self._wake.set()

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._follow(), name="events of the container runtime")
            tasks.create_task(self._ask(), name="containers of the container runtime")

    # -- asking --------------------------------------------------------------------------------------------------
    async def _ask(self) -> None:
        failures = 0
        while True:
            self._wake.clear()
            try:
                await self._ask_once()
            except RuntimeFailed as error:
                failures += 1
                if failures == 1:
                    log.warning("containers of pods are not known, and nothing is taken down: %s", error)
                await asyncio.sleep(min(0.5 * 2**failures, _LONGEST_PAUSE))
                continue
            failures = 0
            await self._rest()

    async def _ask_once(self) -> None:
        before = set(self._told)  # of what is told during the question the answer says nothing
        live = await self._runtime.live_pods()
        for uid, words in sorted(live.items()):
            self._left.pop(uid, None)
            self._say(uid, words)
        for uid in sorted(before - live.keys()):
            del self._told[uid]
            if uid in self._leaving:
                self._leaving.discard(uid)
                self._remember(uid)
            self._tell(uid, None)
        self.answered.set()

    async def _rest(self) -> None:
        """Wait until it is time to ask again."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._pause()):
                await self._wake.wait()
        if self._has_events:
            await asyncio.sleep(_LATEST_EVENTS)

    def _pause(self) -> float | None:
        if self._has_events:
            return _LOOK_IN_DOUBT if self._leaving else None
        if self._leaving:
            return _LOOK_WHILE_LEAVING
        return _LOOK_IN_DOUBT if self._told else None

    # -- events --------------------------------------------------------------------------------------------------
    async def _follow(self) -> None:
        failures, said = 0, ""
        while True:
            try:
                async for _ in self._runtime.events():
                    self._has_events, failures = True, 0
                    self._wake.set()
                words = f"{self._runtime.where} tells of no changes, and is asked while pods leave"
            except RuntimeFailed as error:
                words = str(error)
            if not self._has_events and words != said:
                log.info("%s", words)
                said = words
            self._has_events = False
            self._wake.set()  # what happened meanwhile was not heard
            failures += 1
            await asyncio.sleep(min(0.5 * 2**failures, _LONGEST_PAUSE))

    # -- telling -------------------------------------------------------------------------------------------------
    def _say(self, uid: PodUid, words: str) -> None:
        if self._told.get(uid) != words:
            self._told[uid] = words
            self._tell(uid, words)

    def _remember(self, uid: PodUid) -> None:
        self._left[uid] = None
        if len(self._left) > _REMEMBERED:
            del self._left[next(iter(self._left))]
