"""How full mounted volumes are: asked for on demand, off the event loop, and remembered for a while."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from mooring.errors import MooringError, Unsupported
from mooring.host.interface import FileSystemUsage, Host, Risk
from mooring.observe.health import InspectorOf
from mooring.world.actual import ActualMount, ActualStateOfWorld, ActualVolume
from mooring.world.names import PluginName, PodUid, VolumeName
from mooring.world.presence import Presence

BUDGET = 1_000_000
"""How many entries of a directory are counted at most."""
_AT_ONCE = 4
_UNMEASURED = frozenset({PluginName("kubernetes.io/host-path"), PluginName("kubernetes.io/image")})
"""Types whose content is the machine's own or the container runtime's, and not measured by a kubelet either."""

Key = tuple[PodUid, VolumeName]


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeUsage:
    """What a volume holds and may hold. `complete` is false when a directory was too large to be counted to its end."""

    capacity: int
    available: int
    used: int
    inodes: int
    inodes_free: int
    inodes_used: int
    complete: bool = True


@dataclass(frozen=True, slots=True)
class _Measured:
    at: float
    usage: VolumeUsage | None  # None when the file system did not answer


_PATIENCE = 5.0  # seconds that a volume has to tell how full it is


class UsageMeter:
    """Measures the mounted volumes of a node. A volume whose file system does not answer costs only its own figures."""

    def __init__(
        self,
        host: Host,
        actual: ActualStateOfWorld,
        *,
        clock: Callable[[], float],
        lifetime: float,
        inspector_of: InspectorOf = lambda volume, mount: None,
    ) -> None:
        self._host = host
        self._actual = actual
        self._clock = clock
        self._lifetime = lifetime
        self._inspector_of = inspector_of
        self._measured: dict[Key, _Measured] = {}
        self._turn = asyncio.Semaphore(_AT_ONCE)

    def known(self) -> dict[Key, VolumeUsage]:
        """The last figures of all volumes that are still mounted, without asking anybody."""
        mounted = set(self._mounted())
        return {key: m.usage for key, m in self._measured.items() if key in mounted and m.usage is not None}

    async def measure(self) -> dict[Key, VolumeUsage]:
        """Figures of all mounted volumes, none older than the lifetime."""
        now = self._clock()
        mounted = set(self._mounted())
        for key in self._measured.keys() - mounted:
            del self._measured[key]
        due = [key for key in sorted(mounted) if self._is_due(key, now)]
        await asyncio.gather(*(self._measure(key) for key in due))
        return self.known()

    def _mounted(self) -> Iterable[Key]:
        for name, volume in self._actual.volumes.items():
            if volume.plugin in _UNMEASURED:
                continue
            for pod, mount in volume.mounts.items():
                if mount.presence is Presence.PRESENT and self._can_be_measured(volume, mount):
                    yield pod, name

    def _can_be_measured(self, volume: ActualVolume, mount: ActualMount) -> bool:
        """Of a raw device only who serves it can tell anything."""
        return not volume.spec.is_block or self._inspector_of(volume, mount) is not None

    def _is_due(self, key: Key, now: float) -> bool:
        before = self._measured.get(key)
        return before is None or now - before.at >= self._lifetime

    async def _measure(self, key: Key) -> None:
        found: VolumeUsage | None = None
        async with self._turn:
            pod, name = key
            volume = self._actual.volumes.get(name)
            mount = volume.mounts.get(pod) if volume is not None else None
            if volume is None or mount is None:
                return
            with contextlib.suppress(OSError, MooringError, TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    found = await self._ask(volume, mount)
        self._measured[key] = _Measured(self._clock(), found)

    async def _ask(self, volume: ActualVolume, mount: ActualMount) -> VolumeUsage | None:
        """What its driver tells, or the kernel where that tells nothing."""
        inspector = self._inspector_of(volume, mount)
        if inspector is not None:
            try:
                return _of_whole(await inspector.usage(mount.pod, mount.spec))
            except Unsupported:
                if volume.spec.is_block:
                    return None
        return await self._host.run(
            lambda: self._look(mount.path), risk=Risk.HANGING, what=f"measure {mount.path}", at=mount.path
        )

    def _look(self, path: str) -> VolumeUsage:
        """A file system of its own tells for itself; in a shared one the volume's part is counted."""
        whole = self._host.file_system_usage(path)
        if self._host.mount_at(path) is not None:
            return _of_whole(whole)
        tree = self._host.tree_usage(path, BUDGET)
        return replace(_of_whole(whole), used=tree.used, inodes_used=tree.inodes, complete=tree.complete)


def _of_whole(figures: FileSystemUsage) -> VolumeUsage:
    return VolumeUsage(
        capacity=figures.capacity,
        available=figures.available,
        used=figures.used,
        inodes=figures.inodes,
        inodes_free=figures.inodes_free,
        inodes_used=figures.inodes_used,
    )
