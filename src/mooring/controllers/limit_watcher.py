"""Evicts pods that store more on this node than they may, as the kubelet's eviction manager does.

Volumes are measured every so often, and only while some pod has a limit: a node without any does nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mooring.controllers import storage_limits
from mooring.errors import MooringError
from mooring.host.interface import Host, Risk
from mooring.kube.api import Api, ApiError, Conflict, NotFound
from mooring.kube.objects.kinds import POD
from mooring.kube.objects.pod import Pod
from mooring.plugins.directory_quotas import quota_usage
from mooring.world.actual import ActualStateOfWorld
from mooring.world.changes import Change, Finished, Noticed
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.names import PodUid
from mooring.world.operations import Mount
from mooring.world.presence import Presence

log = logging.getLogger(__name__)

_BUDGET = 1_000_000
"""How many entries of a directory are counted at most; what was counted by then is a lower bound."""


class LimitWatcher:
    """Looks after the limits of this node's pods. `listen` is told what the manager does."""

    def __init__(
        self,
        host: Host,
        api: Api,
        desired: DesiredStateOfWorld,
        actual: ActualStateOfWorld,
        *,
        interval: float,
        tell: Callable[[Noticed], None],
    ) -> None:
        self._host = host
        self._api = api
        self._desired = desired
        self._actual = actual
        self._interval = interval
        self._tell = tell
        self._some_limited = asyncio.Event()

    def listen(self, change: Change) -> None:
        """A pod with a limit that has got a volume is worth looking at from now on."""
        if not isinstance(change, Finished) or not isinstance(change.operation, Mount):
            return
        if change.pod is not None and storage_limits.is_limited(change.pod):
            self._some_limited.set()

    async def run(self) -> None:
        """Look every so often while there is something to look at, until cancelled."""
        while True:
            await self._some_limited.wait()
            await asyncio.sleep(self._interval)
            if not await self.look():
                self._some_limited.clear()

    async def look(self) -> bool:
        """Measure the volumes of all pods with a limit, and evict those above it; false when there are none."""
        limited = self._limited()
        for pod in limited:
            await self._look(pod)
        return bool(limited)

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to look at: it sleeps until that changes."""
        return not self._some_limited.is_set()

    def _limited(self) -> list[Pod]:
        """Pods with a limit that want volumes, and have not been evicted."""
        found: list[Pod] = []
        for uid in sorted(self._desired.pods()):
            names = self._desired.names_for_pod(uid).values()
            wish = next((mount for name in names if (mount := self._desired.mount(uid, name)) is not None), None)
            if wish is not None and storage_limits.is_limited(wish.pod):
                found.append(wish.pod)
        return found

    async def _look(self, pod: Pod) -> None:
        used: dict[str, int] = {}
        uid = PodUid(pod.metadata.uid)
        names = self._desired.names_for_pod(uid)
        for volume in pod.spec.volumes:
            name = names.get(volume.name)
            mount = self._actual.mount(uid, name) if name is not None else None
            is_there = mount is not None and mount.presence is Presence.PRESENT
            if mount is not None and is_there and storage_limits.is_measured(pod, volume):
                try:
                    used[volume.name] = await self._measure(mount.path)
                except (OSError, MooringError) as error:
                    log.warning("cannot measure %s: %s", mount.path, error)
        found = storage_limits.eviction(pod, used)
        if found is not None:
            await self._evict(pod, found)

    async def _measure(self, path: str) -> int:
        return await self._host.run(lambda: self._used(path), risk=Risk.HANGING, what=f"measure {path}")

    def _used(self, path: str) -> int:
        if self._host.mount_at(path) is not None:
            return self._host.file_system_usage(path).used
        counted = quota_usage(self._host, path)
        return counted if counted is not None else self._host.tree_usage(path, _BUDGET).used

    async def _evict(self, pod: Pod, found: storage_limits.Eviction) -> None:
        status = {"phase": "Failed", "reason": storage_limits.REASON, "message": found.message}
        meta = pod.metadata
        # Not read before: a node may not even ask for a pod that is gone.
        patch = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            await self._api.patch(POD, meta.namespace, meta.name, patch, subresource="status")
        except (NotFound, Conflict):
            return  # it is gone, or another pod has taken its name
        except ApiError as error:
            log.warning("cannot evict pod %s: %s", pod.key, error)
            return
        log.warning("pod %s is evicted: %s", pod.key, found.message.strip())
        self._tell(
            Noticed(pod=pod, volume=found.volume, reason=storage_limits.REASON, message=found.message, warning=True)
        )
