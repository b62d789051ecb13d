"""Feeds both worlds of the cluster from what informers tell: at the start from all they know, then with each event."""

from __future__ import annotations

import logging
from collections.abc import Callable

from mooring.controllers.attachdetach import pod_volumes
from mooring.controllers.attachdetach.actual import ActualStateOfWorld, Use
from mooring.controllers.attachdetach.caches import ClusterCaches, is_managed, reported_by, version_of
from mooring.controllers.attachdetach.desired import DesiredStateOfWorld
from mooring.controllers.attachdetach.pod_volumes import Resolved, Unresolved
from mooring.errors import Refused
from mooring.kube.objects.node import Node
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, VolumeAttachment
from mooring.world.names import PodUid, VolumeName
from mooring.world.pod_life import may_run_containers
from mooring.world.presence import Presence

log = logging.getLogger(__name__)


class WorldFeeder:
    """Brings both worlds up to date, and says which volumes and nodes are to be looked at again.

    `touch` is told each volume that something happened to, and whether what it waited for may have come.
    """

    def __init__(
        self,
        caches: ClusterCaches,
        desired: DesiredStateOfWorld,
        actual: ActualStateOfWorld,
        *,
        touch: Callable[[VolumeName, bool], None],
        touch_node: Callable[[str], None],
    ) -> None:
        self._caches, self._desired, self._actual = caches, desired, actual
        self._touch, self._touch_node = touch, touch_node

    # -- at the start ----------------------------------------------------------------------------------------------
    def reconstruct(self) -> None:
        """Learn from the caches what is attached and wanted. The order matters: statuses, attachments, then pods."""
        for node in sorted(self._caches.nodes.indexer.list(), key=lambda each: each.metadata.name):
            if is_managed(node):
                self._recall_node(node)
        self._find_attachments()
        for pod in sorted(self._caches.pods.indexer.list(), key=lambda each: each.key):
            self.pod_changed(pod)

    def _recall_node(self, node: Node) -> None:
        """What its status lists is attached; of what sort it is, pods may tell."""
        name, report = node.metadata.name, reported_by(node)
        for volume, device_path in report:
            self._actual.mark(volume, None, name, Presence.PRESENT, device_path=device_path)
        self._actual.report_written(name, report, version_of(node))
        self._actual.hear_node(name, node.status.volumes_in_use, version_of(node))
        self._desired.add_node(name)

    # -- attachments -----------------------------------------------------------------------------------------------
    def _find_attachments(self) -> None:
        for attachment in sorted(self._caches.attachments.indexer.list(), key=lambda each: each.metadata.name):
            self.attachment_found(attachment)

    def attachment_found(self, attachment: VolumeAttachment) -> None:
        """Whatever was ordered may be attached, also when nobody had the time to say so in a status.

        What a node has ordered that attaches by itself is known too: others must not have the volume meanwhile.
        """
        found, node = pod_volumes.ordered(attachment, self._caches), attachment.spec.node_name
        if found is None or self._caches.attachment(attachment.metadata.name) is None:
            return
        self._actual.learn_spec(found.name, found.spec)
        if self._actual.presence(found.name, node) is Presence.ABSENT:
            self._actual.mark(found.name, found.spec, node, Presence.UNCERTAIN)
            self._touch(found.name, False)

    # -- pods ------------------------------------------------------------------------------------------------------
    def pod_changed(self, pod: Pod) -> None:
        """A pod came or changed, or something that its volumes depend on did."""
        if not pod.spec.node_name:
            return
        if not may_run_containers(pod):
            self.pod_gone(pod)  # that its node has unmounted them is proven before they are detached
        elif pod.spec.volumes and self._desired.is_managed(pod.spec.node_name):
            self._want(pod)

    def _want(self, pod: Pod) -> None:
        node, uid = pod.spec.node_name, PodUid(pod.metadata.uid)
        found = pod_volumes.resolve_all(pod, self._caches)
        wanted = {each.name: each for each in found.values() if isinstance(each, Resolved)}
        for each in wanted.values():
            self._actual.learn_spec(each.name, each.spec)
            if self._desired.add_pod(pod, each.name, each.spec, node):
                self._touch(each.name, True)
        if any(isinstance(each, Unresolved) for each in found.values()):
            return  # what it had before may be just that
        for held, name in self._desired.of_pod(uid):
            if name not in wanted:
                self._unwant(uid, name, held)

    def pod_gone(self, pod: Pod) -> None:
        """A pod needs its volumes no more. What they are need not be known any more for that."""
        self._forget_pod(PodUid(pod.metadata.uid))

    def _forget_pod(self, uid: PodUid) -> None:
        for node, name in self._desired.of_pod(uid):
            self._unwant(uid, name, node)

    def _unwant(self, uid: PodUid, name: VolumeName, node: str) -> None:
        if self._desired.delete_pod(uid, name, node):
            self._touch(name, True)

    def claim_changed(self, key: str) -> None:
        for pod in self._caches.pods_using(key):
            self.pod_changed(pod)

    def volume_changed(self, volume: PersistentVolume) -> None:
        owner = volume.spec.claim_ref
        if owner is not None:
            self.claim_changed(f"{owner.namespace}/{owner.name}")

    # -- nodes -----------------------------------------------------------------------------------------------------
    def node_changed(self, node: Node, *, added: bool) -> None:
        name = node.metadata.name
        if is_managed(node) and self._desired.add_node(name):
            for pod in self._caches.pods_on(name):
                self.pod_changed(pod)
        if added:
            self._compare_report(node)
        self._hear(node)

    def _compare_report(self, node: Node) -> None:
        """A status that says something else than what was written last is written again."""
        name = node.metadata.name
        written = self._actual.written(name)
        if not self._desired.is_managed(name) or version_of(node) < written.version:
            return
        if written.sure and reported_by(node) != written.report:
            self._actual.doubt_report(name)
            self._touch_node(name)

    def _hear(self, node: Node) -> None:
        name = node.metadata.name
        unwanted = [each for each in self._actual.on_node(name) if self._desired.get(each, name) is None]
        before = {volume: self._actual.use(volume, name) for volume in unwanted}
        if self._actual.hear_node(name, node.status.volumes_in_use, version_of(node)):
            for volume in unwanted:
                self._touch(volume, before[volume] is Use.IN_USE and self._actual.use(volume, name) is Use.FREE)

    def node_gone(self, node: Node) -> None:
        """What the node used last it may still use: that nobody tells of it any more proves nothing."""
        self._let_go(node.metadata.name)
        self._hear(node)

    def _let_go(self, name: str) -> None:
        try:
            self._desired.delete_node(name)
        except Refused as error:
            log.info("%s", error)

    # -- self-healing ----------------------------------------------------------------------------------------------
    def heal(self) -> None:
        """Compare all that is wanted with the caches once more; should find nothing."""
        for uid in self._desired.pod_uids():
            known = self._desired.pod(uid)
            current = self._caches.pod(known.key) if known is not None else None
            if current is None or current.metadata.uid != uid:
                self._forget_pod(uid)
        for name in self._desired.nodes():
            node = self._caches.node(name)
            if node is not None:
                self._compare_report(node)
            elif not any(each.node == name for each in self._desired.volumes()):
                self._let_go(name)
        for pod in self._caches.pods.indexer.list():
            self.pod_changed(pod)
        self._find_attachments()
