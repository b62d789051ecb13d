"""What is known of the containers of a node in a cluster, where others run them."""

from __future__ import annotations

from mooring.manager.pods import KnownPods, PodManager
from mooring.world.names import PodUid
from mooring.world.pod_life import has_ended, may_run_containers


class PodStatusStates(KnownPods):
    """A pod gains no volumes once it is being deleted or has ended. Its volumes go when its containers have.

    When that is comes from the pod's status or, where a container runtime is asked as well, from the runtime alone:
    it keeps `with_containers`, and whoever asks it must do so before the pod is told to be leaving.
    """

    def __init__(self, pods: PodManager, *, runtime_tells: bool = False) -> None:
        super().__init__(pods)
        self._runtime_tells = runtime_tells

    def containers_terminating(self, uid: PodUid) -> bool:
        pod = self._pods.get(uid)
        return self.draining or pod is None or pod.metadata.deletion_timestamp is not None or has_ended(pod)

    def runtime_removed(self, uid: PodUid) -> bool:
        if uid in self.with_containers or not self.containers_terminating(uid):
            return False
        pod = self._pods.get(uid)
        return self._runtime_tells or self.draining or pod is None or not may_run_containers(pod)
