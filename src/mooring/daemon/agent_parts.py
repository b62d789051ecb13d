"""What a node of a cluster has beside the parts of every node, and what it is told at its start."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.controllers.mirror_pods import MirrorPods
from mooring.controllers.node_object import MachineFacts, Taint
from mooring.controllers.node_registration import NodeRegistration
from mooring.controllers.node_reporter import NodeReporter
from mooring.controllers.pod_deletion import PodDeletion
from mooring.csi.names import NAME as CSI
from mooring.csi.names import attachment_name, split_volume_name
from mooring.csi.patient_node_info import PatientNodeInfo
from mooring.daemon.node_parts import NodeParts
from mooring.errors import Refused
from mooring.kube.api import Api
from mooring.kube.api_server import ApiServer
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.kubeconfig import Access
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import NODE, POD, Kind
from mooring.kube.reflector import REFLECT_ALL, ReflectorOptions
from mooring.kube.tracked_objects import TrackedObjects
from mooring.manager.volume_manager import VolumeManager
from mooring.sources.cluster_pods import ClusterPods
from mooring.sources.node_pods import NodePods
from mooring.world.names import PodUid, VolumeName

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """What a Node is made with."""

    labels: Mapping[str, str]
    taints: Sequence[Taint]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `mooring agent` was told."""

    access: Access
    manifests: Sequence[str] = ()
    cri: str = ""  # the socket of the container runtime that tells which containers have ended
    registration: Registration | None = None  # None: somebody else makes the Node, and finishes its pods' deletion


def attachment_names(attached: Iterable[VolumeName], node: str) -> frozenset[str]:
    """The VolumeAttachments of volumes that the node's status says are attached: a node may read just those."""
    found = set()
    for name in attached:
        if name.startswith(f"{CSI}/"):
            with contextlib.suppress(ValueError):  # whatever it is, no VolumeAttachment belongs to it
                found.add(attachment_name(split_volume_name(name.removeprefix(f"{CSI}/")), node))
    return frozenset(found)


def of_this_node(name: str, kind: Kind[Any]) -> ReflectorOptions:
    """What a node may follow of pods and nodes: its own."""
    selectors = {POD.name: f"spec.nodeName={name}", NODE.name: f"metadata.name={name}"}
    return ReflectorOptions(field_selector=selectors[kind.name]) if kind.name in selectors else REFLECT_ALL


async def run_when_listed(pods: ClusterPods, objects: TrackedObjects) -> None:
    """What a pod needs may be asked for as long as the pod is there, which the last view of the cluster cannot know."""
    await pods.listed.wait()
    await objects.run()


async def run_when_synced(manager: VolumeManager, reporter: NodeReporter) -> None:
    """What is in use can be told once it is known what earlier processes left."""
    await manager.wait_for_states_synced()
    await reporter.run()


async def hurry_when_back(api: ApiServer, everyone: Sequence[Callable[[], None]]) -> None:
    """Whoever waits after a failure tries again as soon as the server serves again."""
    while True:
        await api.until_back()
        log.info("the API server serves again")
        for hurry in everyone:
            hurry()


async def run_when_heard(pods: NodePods, work: PodDeletion | MirrorPods) -> None:
    """What becomes of pods in the API is known when all that this node may have has been looked at."""
    await pods.heard.wait()
    await work.run()


def deletion_of(node: NodeParts, api: Api) -> PodDeletion:
    """Who takes the last step of the deletion of pods."""
    return PodDeletion(
        api,
        may_run=lambda pod: not node.states.runtime_removed(PodUid(pod.metadata.uid)),
        unmounted=node.manager.wait_for_uid_unmount,
        random_source=random.Random(),
    )


async def register(
    api: Api,
    machine: Callable[[], MachineFacts],
    made_with: Registration,
    manager: VolumeManager,
    csi_node: PatientNodeInfo,
    reporter: NodeReporter,
) -> None:
    """Make the Node and keep it. It is Ready once volumes are known again, and it says what others go by."""

    def ready() -> str:
        if not manager.reconciler_states_has_been_synced():
            return "what earlier processes left is being looked for"
        if not csi_node.begun.is_set():
            return "CSINode is not yet initialized"
        return "" if reporter.begun.is_set() else "the Node does not say yet what is in use, and who attaches volumes"

    registration = NodeRegistration(
        api,
        machine,
        ready=ready,
        labels=made_with.labels,
        taints=made_with.taints,
        random_source=random.Random(),
    )
    async with asyncio.TaskGroup() as tasks:
        csi_node.begun_changed = reporter.begun_changed = registration.changed
        tasks.create_task(registration.run())
        await manager.wait_for_states_synced()
        registration.changed()


def follow_node(factory: SharedInformerFactory, csi_node: PatientNodeInfo) -> None:
    """Let whoever writes what drivers say hear of a Node that goes, and of each that takes the place of another."""
    factory.informer(NODE).add_event_handler(
        Handler(
            on_add=lambda node, is_initial: csi_node.node_seen(node),
            on_update=lambda old, new: csi_node.node_seen(new),
            on_delete=lambda node: csi_node.node_gone(),
        )
    )


class SignedElsewhere:
    """Stands where an instance has its public keys: tokens of a cluster are signed by its API server."""

    def __init__(self, server: str) -> None:
        self._server = server

    def key_set(self) -> dict[str, Any]:
        raise self._refusal()

    def configuration(self) -> dict[str, Any]:
        raise self._refusal()

    def _refusal(self) -> Refused:
        next_step = "Ask there for /openid/v1/jwks or /.well-known/openid-configuration"
        return Refused(
            "cannot tell who signs tokens", why=f"the API server at {self._server} does", next_step=next_step
        )
