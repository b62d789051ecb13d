"""Timers of volumes that want to be set up again by themselves, such as those whose token has to be replaced."""

from __future__ import annotations

import asyncio

from mooring.world.changes import Change, Finished
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import Mount

SHORTEST_WAIT = 1.0
"""Seconds: a plugin that asks for less would keep its volume busy."""


class SecondLooks:
    """At most one timer per mount: set when a mount asked for it, gone with the pod's wish for the volume."""

    def __init__(self, desired: DesiredStateOfWorld) -> None:
        self._desired = desired
        self._timers: dict[VolumeName, dict[PodUid, asyncio.TimerHandle]] = {}

    def listen(self, change: Change) -> None:
        """A mount that worked replaces the timer of the one before; one that failed leaves it."""
        if not isinstance(change, Finished) or not isinstance(change.operation, Mount) or not change.outcome.succeeded:
            return
        name, pod = change.operation.volume, change.operation.pod
        self._cancel(name, pod)
        wait = change.outcome.look_again_after
        if wait is not None and self._desired.mount(pod, name) is not None:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(max(wait, SHORTEST_WAIT), self._look, name, pod)
            self._timers.setdefault(name, {})[pod] = timer

    def wish_changed(self, name: VolumeName) -> None:
        """Cancel the timers of pods that do not want the volume any more."""
        for pod in list(self._timers.get(name, ())):
            if self._desired.mount(pod, name) is None:
                self._cancel(name, pod)

    def stop(self) -> None:
        for timers in self._timers.values():
            for timer in timers.values():
                timer.cancel()
        self._timers.clear()

    def __len__(self) -> int:
        """How many timers are set."""
        return sum(map(len, self._timers.values()))

    def _look(self, name: VolumeName, pod: PodUid) -> None:
        self._cancel(name, pod)
        self._desired.refresh(pod, name)

    def _cancel(self, name: VolumeName, pod: PodUid) -> None:
        timers = self._timers.get(name, {})
        timer = timers.pop(pod, None)
        if timer is not None:
            timer.cancel()
            if not timers:
                del self._timers[name]
