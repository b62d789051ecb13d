"""Who is told of the pods of a node in a cluster."""

from __future__ import annotations

from collections.abc import Callable

from mooring.controllers.pod_deletion import PodDeletion
from mooring.daemon.runs import PodsAndRuns
from mooring.engine.waiters import Waiters
from mooring.kube.objects.pod import Pod
from mooring.manager.volume_manager import VolumeManager
from mooring.runtimes.pod_watcher import RuntimePodWatcher
from mooring.runtimes.supervisor import RunSupervisor
from mooring.world.names import PodUid
from mooring.world.pod_life import has_ended

_ANY = "pods"


class AgentSink(PodsAndRuns):
    """The manager and its runs; before them the runtime's watcher, of pods that leave; after them whoever waits."""

    def __init__(
        self,
        manager: VolumeManager,
        runs: RunSupervisor,
        watcher: RuntimePodWatcher | None,
        deletion: PodDeletion | None,
    ) -> None:
        super().__init__(manager, runs)
        self._watcher, self._deletion = watcher, deletion
        self._arrivals = Waiters()
        self.forgotten: Callable[[], None] = lambda: None

    def pod_changed(self, pod: Pod) -> None:
        if self._watcher is not None and (pod.metadata.deletion_timestamp is not None or has_ended(pod)):
            self._watcher.look(PodUid(pod.metadata.uid))
        super().pod_changed(pod)
        if self._deletion is not None:
            self._deletion.pod_changed(pod)
        self._arrivals.notify(_ANY)

    def pod_removed(self, uid: PodUid) -> None:
        if self._watcher is not None:
            self._watcher.look(uid)
        super().pod_removed(uid)
        if self._deletion is not None:
            self._deletion.pod_removed(uid)
        self.forgotten()

    def is_known(self, uid: PodUid) -> bool:
        return self._manager.pods.get(uid) is not None

    async def until_known(self, find: Callable[[], Pod | None], *, timeout: float) -> Pod:
        """The pod that is looked for, once it has come; TimeoutError when it does not."""
        return await self._arrivals.until(_ANY, find, timeout=timeout)
