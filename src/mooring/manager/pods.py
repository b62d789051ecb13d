"""The pods this node should serve, and what is known of their containers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from mooring.kube.objects.pod import Pod
from mooring.world.names import PodUid


class PodStates(Protocol):
    """What the owner of the containers knows. The default, without one, is `KnownPods`."""

    def containers_terminating(self, uid: PodUid) -> bool:
        """Whether the pod will start no container any more: it gains no further volumes."""
        ...

    def runtime_removed(self, uid: PodUid) -> bool:
        """Whether all its containers are confirmed to have stopped: its volumes may go."""
        ...


class PodManager:
    """Pods by UID and by name. Pods come and go here; nothing else is decided."""

    def __init__(self) -> None:
        self._by_uid: dict[PodUid, Pod] = {}
        self._by_key: dict[str, PodUid] = {}

    def __iter__(self) -> Iterator[Pod]:
        return iter(list(self._by_uid.values()))

    def __len__(self) -> int:
        return len(self._by_uid)

    def put(self, pod: Pod) -> PodUid:
        uid = PodUid(pod.metadata.uid)
        self._by_uid[uid] = pod
        self._by_key[pod.key] = uid
        return uid

    def remove(self, uid: PodUid) -> Pod | None:
        pod = self._by_uid.pop(uid, None)
        if pod is not None and self._by_key.get(pod.key) == uid:
            del self._by_key[pod.key]
        return pod

    def get(self, uid: PodUid) -> Pod | None:
        return self._by_uid.get(uid)

    def find(self, key: str) -> Pod | None:
        """The pod called `namespace/name`."""
        uid = self._by_key.get(key)
        return self._by_uid.get(uid) if uid is not None else None


def is_evicted(pod: Pod) -> bool:
    """Whether a pod took more than it may, and has ended for that."""
    return pod.status.phase == "Failed" and pod.status.reason == "Evicted"


class KnownPods:
    """A pod lives as long as a source tells of it, and its volumes as long as containers of it may be there."""

    def __init__(self, pods: PodManager) -> None:
        self._pods = pods
        self.draining = False  # all pods count as gone, as `mooring down` wants it
        self.with_containers: set[PodUid] = set()  # pods of which `mooring run` started containers that may be there

    def containers_terminating(self, uid: PodUid) -> bool:
        pod = self._pods.get(uid)
        return self.draining or pod is None or is_evicted(pod)

    def runtime_removed(self, uid: PodUid) -> bool:
        return self.containers_terminating(uid) and uid not in self.with_containers
