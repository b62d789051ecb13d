"""The end of a pod on a real API server, by a node that has a kubelet's identity."""

from __future__ import annotations

import asyncio
import random
import uuid

import pytest
from rig.control_plane import ControlPlane
from tests.cluster.test_controller import until

from mooring.controllers.pod_deletion import PodDeletion
from mooring.kube import kubeconfig
from mooring.kube.api import NotFound
from mooring.kube.api_server import ApiServer
from mooring.kube.objects import Container, ObjectMeta, Pod, PodSpec
from mooring.kube.objects.kinds import NODE as NODE_KIND
from mooring.kube.objects.kinds import POD
from mooring.kube.objects.node import Node
from mooring.world.names import PodUid
from mooring.world.pod_life import may_run_containers

pytestmark = pytest.mark.cluster

NODE = f"leaving-{uuid.uuid4().hex[:8]}"


async def test_a_pod_goes_when_its_node_says_that_nothing_of_it_is_left(plane: ControlPlane) -> None:
    async with (
        ApiServer(kubeconfig.load(str(plane.kubeconfig)), agent="mooring-test") as admin,
        ApiServer(kubeconfig.load(str(plane.node_kubeconfig(NODE))), agent="mooring-test") as node,
        asyncio.TaskGroup() as tasks,
    ):
        await admin.create(Node(metadata=ObjectMeta(name=NODE)))
        spec = PodSpec(node_name=NODE, containers=(Container(name="main", image="none"),))
        pod = await admin.create(Pod(metadata=ObjectMeta(name=NODE, namespace="default"), spec=spec))
        unmounted = asyncio.Event()

        async def wait(uid: PodUid) -> None:
            assert uid == pod.metadata.uid
            await unmounted.wait()

        deletion = PodDeletion(node, may_run=may_run_containers, unmounted=wait, random_source=random.Random(1))
        running = tasks.create_task(deletion.run())
        deletion.pod_changed(pod)
        await admin.delete(POD, "default", NODE)
        leaving = await node.get(POD, "default", NODE)
        assert leaving.metadata.deletion_timestamp is not None
        deletion.pod_changed(leaving)
        await asyncio.sleep(0)
        assert (await node.get(POD, "default", NODE)).metadata.uid == pod.metadata.uid
        unmounted.set()

        async def is_gone() -> bool | None:
            try:
                await admin.get(POD, "default", NODE)
            except NotFound:
                return True
            return None

        await until(is_gone)
        running.cancel()
        await admin.delete(NODE_KIND, "", NODE)
