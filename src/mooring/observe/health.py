"""What is wrong with mounted volumes, as those who serve them tell: asked now and then, told when it changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

from mooring.errors import MooringError
from mooring.plugins.interface import Inspector
from mooring.world.actual import ActualMount, ActualStateOfWorld, ActualVolume
from mooring.world.changes import Listener, Noticed
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.names import PodUid, VolumeName
from mooring.world.presence import Presence

Key = tuple[PodUid, VolumeName]
InspectorOf = Callable[[ActualVolume, ActualMount], Inspector | None]


class HealthWatch:
    """Asks every `interval` seconds, and only while somebody can tell: `wake` says that this may have changed."""

    def __init__(
        self,
        desired: DesiredStateOfWorld,
        actual: ActualStateOfWorld,
        inspector_of: InspectorOf,
        *,
        can_tell: Callable[[], bool],
        interval: float,
        tell: Listener,
    ) -> None:
        self._desired, self._actual = desired, actual
        self._inspector_of, self._can_tell = inspector_of, can_tell
        self._interval, self._tell = interval, tell
        self._changed = asyncio.Event()
        self._known: dict[Key, tuple[str, ...]] = {}

    def wake(self) -> None:
        self._changed.set()

    def complaints(self, uid: PodUid, name: VolumeName) -> tuple[str, ...]:
        """What was last said to be wrong with a volume of a pod."""
        return self._known.get((uid, name), ())

    async def run(self) -> None:
        while True:
            while not self._can_tell():
                self._changed.clear()
                await self._changed.wait()
            await asyncio.sleep(self._interval)
            await self.look()

    async def look(self) -> None:
        """Ask about every mounted volume once, one after the other: drivers have other things to do."""
        mounted = list(self._mounted())
        for key in self._known.keys() - {key for key, _, _ in mounted}:
            del self._known[key]
        for key, mount, inspector in mounted:
            try:
                self._learn(key, mount, await inspector.complaints(key[0], mount.spec))
            except MooringError:
                continue  # what was known stays; a driver that cannot tell is not asked for an excuse

    def _mounted(self) -> Iterator[tuple[Key, ActualMount, Inspector]]:
        for name, volume in self._actual.volumes.items():
            for uid, mount in volume.mounts.items():
                inspector = self._inspector_of(volume, mount) if mount.presence is Presence.PRESENT else None
                if inspector is not None:
                    yield (uid, name), mount, inspector

    def _learn(self, key: Key, mount: ActualMount, complaints: tuple[str, ...]) -> None:
        if complaints == self._known.get(key, ()):
            return
        self._known[key] = complaints
        wish = self._desired.mount(*key)
        if wish is None:
            return
        volume = wish.outer_names[0]
        message = f"Volume {volume}: {'; '.join(complaints)}" if complaints else f"The volume {volume} is normal again"
        reason = "VolumeConditionAbnormal" if complaints else "VolumeConditionNormal"
        self._tell(Noticed(pod=wish.pod, volume=volume, reason=reason, message=message, warning=bool(complaints)))
