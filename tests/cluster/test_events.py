"""Events on a real API server, written with the identity of a node: as kubectl shows them."""

from __future__ import annotations

import asyncio
import random
import uuid

import pytest
from rig.control_plane import ControlPlane
from tests.cluster.conftest import kubectl
from tests.cluster.test_controller import until
from tests.cluster.test_tracked_objects import account_of

from mooring.kube import kubeconfig
from mooring.kube.api import Forbidden
from mooring.kube.api_server import ApiServer
from mooring.kube.objects import Container, ObjectMeta, Pod, PodSpec
from mooring.kube.objects.kinds import EVENT
from mooring.kube.objects.pod import Namespace
from mooring.observe.cluster_events import ClusterEvents
from mooring.observe.events import EventRecorder

pytestmark = pytest.mark.cluster

NODE = "telling-node"


async def make_pod(plane: ControlPlane) -> Pod:
    """A pod of the node, in a namespace of its own."""
    async with ApiServer(kubeconfig.load(str(plane.kubeconfig)), agent="mooring-test") as admin:
        namespace = f"events-{uuid.uuid4().hex[:8]}"
        await admin.create(Namespace(metadata=ObjectMeta(name=namespace)))
        await account_of(admin, namespace)
        spec = PodSpec(node_name=NODE, containers=(Container(name="main", image="none"),))
        return await admin.create(Pod(metadata=ObjectMeta(name="web", namespace=namespace), spec=spec))


async def test_a_nodes_events_are_counted_and_combined_under_their_pod(plane: ControlPlane) -> None:
    pod = await make_pod(plane)
    namespace = pod.metadata.namespace
    access = kubeconfig.load(str(plane.node_kubeconfig(NODE)))

    async def shown(*words: str) -> str:
        async def answer() -> str | None:
            text = kubectl(plane, "describe", "pod", "web", "--namespace", namespace)
            return text if all(word in text for word in words) else None

        return await until(answer)

    async with ApiServer(access, agent="mooring-test") as node, asyncio.TaskGroup() as tasks:
        with pytest.raises(Forbidden):
            await node.get(EVENT, namespace, "any")
        writer = ClusterEvents(node, node_name=NODE, random_source=random.Random(1))
        recorder = EventRecorder(writer)
        running = tasks.create_task(recorder.run())
        recorder.pod_waits(pod, "FailedMount", "the disk is late")
        await shown("the disk is late")
        for _ in range(3):
            recorder.pod_waits(pod, "FailedMount", "the disk is late")
        text = await shown("(x4 over ")
        assert "mooring" in text.partition("Events:")[2]
        for number in range(12):
            recorder.pod_waits(pod, "FailedMount", f"try {number} failed")
        text = await shown("(x4 over ", "(combined from similar events): try 11 failed")
        assert "try 7 failed" in text
        assert "try 8 failed" not in text, "it was the first to be combined, and is no more the last"
        assert writer.dropped == 0
        running.cancel()
