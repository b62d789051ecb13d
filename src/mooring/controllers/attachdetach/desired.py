"""DesiredStateOfWorld of the cluster: which volumes are to be attached to which managed nodes, for which pods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from mooring.errors import Refused
from mooring.kube.objects.pod import Pod
from mooring.world.names import PodUid, VolumeName
from mooring.world.spec import VolumeSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedVolume:
    """A volume that pods on one node need there. The spec is that of the pod which came first."""

    name: VolumeName
    node: str
    spec: VolumeSpec
    pods: Mapping[PodUid, Pod] = field(default_factory=dict)
    multi_attach_told: bool = False


class DesiredStateOfWorld:
    """Managed nodes with what is to be attached to each. Belongs to the event loop."""

    def __init__(self) -> None:
        self._nodes: dict[str, dict[VolumeName, WantedVolume]] = {}
        self._volumes: dict[VolumeName, dict[str, WantedVolume]] = {}
        self._pods: dict[PodUid, dict[tuple[str, VolumeName], None]] = {}

    # -- nodes -----------------------------------------------------------------------------------------------------
    def add_node(self, node: str) -> bool:
        """Manage a node; whether it was not managed before. What it has stays."""
        if node in self._nodes:
            return False
        self._nodes[node] = {}
        return True

    def delete_node(self, node: str) -> None:
        """Manage a node no more; `Refused` while volumes are wanted there."""
        wanted = self._nodes.get(node)
        if wanted:
            first = min(wanted)
            why = f"{len(wanted)} volumes are still wanted there, such as {first!r}"
            raise Refused(f"cannot let go of node {node!r}", why=why)
        self._nodes.pop(node, None)

    def is_managed(self, node: str) -> bool:
        return node in self._nodes

    def nodes(self) -> list[str]:
        return sorted(self._nodes)

    # -- pods ------------------------------------------------------------------------------------------------------
    def add_pod(self, pod: Pod, name: VolumeName, spec: VolumeSpec, node: str) -> bool:
        """A pod on a managed node needs a volume; whether the node did not want it before.

        A volume that is wanted already keeps its spec, and a pod that is known stays as it is.
        """
        wanted = self._nodes.get(node)
        if wanted is None:
            why = f"node {node!r} does not leave attaching to a controller"
            raise Refused(f"cannot attach volume {name!r} for pod {pod.key!r}", why=why)
        uid = PodUid(pod.metadata.uid)
        known = wanted.get(name)
        if known is not None and uid in known.pods:
            return False
        base = known or WantedVolume(name=name, node=node, spec=spec)
        self._put(replace(base, pods={**base.pods, uid: pod}))
        self._pods.setdefault(uid, {})[node, name] = None
        return known is None

    def delete_pod(self, uid: PodUid, name: VolumeName, node: str) -> bool:
        """A pod needs a volume no more; whether that was the last one on the node that did."""
        pairs = self._pods.get(uid, {})
        if (node, name) not in pairs:
            return False
        del pairs[node, name]
        if not pairs:
            del self._pods[uid]
        known = self._nodes[node][name]
        left = {each: pod for each, pod in known.pods.items() if each != uid}
        if left:
            self._put(replace(known, pods=left))
            return False
        del self._nodes[node][name]
        del self._volumes[name][node]
        if not self._volumes[name]:
            del self._volumes[name]
        return True

    def pod_uids(self) -> list[PodUid]:
        return list(self._pods)

    def of_pod(self, uid: PodUid) -> list[tuple[str, VolumeName]]:
        """The nodes and volumes that a pod is counted for."""
        return list(self._pods.get(uid, ()))

    def pod(self, uid: PodUid) -> Pod | None:
        """A pod as it was when it first wanted a volume."""
        for node, name in self._pods.get(uid, ()):
            return self._nodes[node][name].pods[uid]
        return None

    # -- volumes ---------------------------------------------------------------------------------------------------
    def get(self, name: VolumeName, node: str) -> WantedVolume | None:
        return self._nodes.get(node, {}).get(name)

    def wanted_on(self, name: VolumeName) -> Mapping[str, WantedVolume]:
        """Where a volume is wanted, by node."""
        return self._volumes.get(name, {})

    def volumes(self) -> Iterator[WantedVolume]:
        """All that is to be attached, sorted by volume and node."""
        for name in sorted(self._volumes):
            for node in sorted(self._volumes[name]):
                yield self._volumes[name][node]

    def note_multi_attach(self, name: VolumeName, node: str) -> None:
        """The pods have been told that another node has the volume; once is enough as long as they want it."""
        known = self.get(name, node)
        if known is not None:
            self._put(replace(known, multi_attach_told=True))

    def _put(self, volume: WantedVolume) -> None:
        self._nodes[volume.node][volume.name] = volume
        self._volumes.setdefault(volume.name, {})[volume.node] = volume
