"""What the controller looks up: informers of all kinds that tell about attaching, and what a Node says."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.controllers.attachdetach.actual import Report
from mooring.controllers.attachdetach.pod_volumes import claim_of
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.objects.kinds import CLAIM, CSI_DRIVER, NODE, PERSISTENT_VOLUME, POD, VOLUME_ATTACHMENT
from mooring.kube.objects.node import Node
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import CSIDriver, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.world.names import VolumeName

MANAGED_ANNOTATION = "volumes.kubernetes.io/controller-managed-attach-detach"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"

_BY_NODE = "attach-detach node"
_BY_CLAIM = "attach-detach claim"


def is_managed(node: Node) -> bool:
    """Whether a node leaves attaching to a controller; any value of the annotation says so."""
    return MANAGED_ANNOTATION in node.metadata.annotations


def is_ready(node: Node) -> bool:
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in node.status.conditions)


def is_out_of_service(node: Node) -> bool:
    """Whether somebody vouches that the machine is off."""
    return any(each.get("key") == OUT_OF_SERVICE for each in node.spec.taints)


def reported_by(node: Node) -> Report:
    """What the status of a Node says to be attached."""
    return tuple(sorted((VolumeName(each.name), each.device_path) for each in node.status.volumes_attached))


def version_of(node: Node) -> int:
    return int(node.metadata.resource_version or "0")


class ClusterCaches:
    """Look-ups in the caches of one factory, which must not have been started before."""

    def __init__(self, factory: SharedInformerFactory) -> None:
        self.pods = factory.informer(POD)
        self.nodes = factory.informer(NODE)
        self.claims = factory.informer(CLAIM)
        self.volumes = factory.informer(PERSISTENT_VOLUME)
        self.drivers = factory.informer(CSI_DRIVER)
        self.attachments = factory.informer(VOLUME_ATTACHMENT)
        self.pods.add_indexers({_BY_NODE: _node_of, _BY_CLAIM: _claims_of})

    def pod(self, key: str) -> Pod | None:
        return self.pods.indexer.get_by_key(key)

    def node(self, name: str) -> Node | None:
        return self.nodes.indexer.get_by_key(name)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        return self.claims.indexer.get_by_key(key)

    def persistent_volume(self, name: str) -> PersistentVolume | None:
        return self.volumes.indexer.get_by_key(name)

    def csi_driver(self, name: str) -> CSIDriver | None:
        return self.drivers.indexer.get_by_key(name)

    def attachment(self, name: str) -> VolumeAttachment | None:
        return self.attachments.indexer.get_by_key(name)

    def pods_on(self, node: str) -> Sequence[Pod]:
        return self.pods.indexer.by_index(_BY_NODE, node)

    def pods_using(self, claim: str) -> Sequence[Pod]:
        """The pods that use a claim, given as `namespace/name`."""
        return self.pods.indexer.by_index(_BY_CLAIM, claim)


def _node_of(pod: Pod) -> tuple[str, ...]:
    return (pod.spec.node_name,) if pod.spec.node_name else ()


def _claims_of(pod: Pod) -> list[str]:
    return [claim for volume in pod.spec.volumes if (claim := claim_of(pod, volume)) is not None]
