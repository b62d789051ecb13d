"""A node that registers itself on a real API server with a kubelet's identity, as a control plane sees it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import AsyncIterator

import pytest
from rig.control_plane import SERVER, ControlPlane
from tests.cluster.conftest import kubectl
from tests.cluster.test_controller import until

from mooring.controllers.node_object import Taint
from mooring.controllers.node_registration import NodeRegistration
from mooring.daemon.machine import machine_facts
from mooring.kube import kubeconfig
from mooring.kube.api import ConnectionRefused, NotFound
from mooring.kube.api_server import ApiServer
from mooring.kube.objects import Container, ObjectMeta, Pod, PodSpec
from mooring.kube.objects.kinds import LEASE, NODE, POD
from mooring.kube.objects.node import Node
from mooring.settings import Settings

pytestmark = pytest.mark.cluster


class Bench:
    """A node that registers itself, and an administrator who looks at it."""

    def __init__(self, node: ApiServer, admin: ApiServer, name: str) -> None:
        self.node, self.admin, self.name = node, admin, name
        self.not_ready = "looks at the disk"
        self.registration = NodeRegistration(
            node,
            machine_facts(Settings(root="/", node_name=name), boot_id="boot-1", address="192.0.2.7"),
            ready=lambda: self.not_ready,
            labels={"disk": "fast"},
            taints=[Taint(key="mooring.test/only", effect="NoSchedule")],
            random_source=random.Random(1),
        )

    async def becomes(self, *, ready: str) -> Node:
        async def answer() -> Node | None:
            with contextlib.suppress(NotFound):
                node = await self.admin.get(NODE, "", self.name)
                if any(each["type"] == "Ready" and each["status"] == ready for each in node.status.conditions):
                    return node
            return None

        return await until(answer)

    async def taints(self) -> set[str]:
        return {each["key"] for each in (await self.admin.get(NODE, "", self.name)).spec.taints}


@pytest.fixture
async def bench(plane: ControlPlane) -> AsyncIterator[Bench]:
    name = f"node-{uuid.uuid4().hex[:8]}"
    async with (
        ApiServer(kubeconfig.load(str(plane.node_kubeconfig(name))), agent="mooring-test") as node,
        ApiServer(kubeconfig.load(str(plane.kubeconfig)), agent="mooring-test") as admin,
    ):
        made = Bench(node, admin, name)
        async with asyncio.TaskGroup() as tasks:
            running = tasks.create_task(made.registration.run())
            yield made
            running.cancel()
        await admin.delete(NODE, "", name)


async def test_a_node_becomes_ready_and_a_pod_can_be_bound_to_it(plane: ControlPlane, bench: Bench) -> None:
    node = await bench.becomes(ready="False")
    assert node.metadata.labels["disk"] == "fast"
    assert "node.kubernetes.io/not-ready" in await bench.taints()
    bench.not_ready = ""
    bench.registration.changed()
    await bench.becomes(ready="True")

    async def is_free() -> bool | None:
        return True if await bench.taints() == {"mooring.test/only"} else None

    await until(is_free)  # kube-controller-manager takes off what it, or admission, has put on
    lease = await bench.admin.get(LEASE, "kube-node-lease", bench.name)
    assert (lease.spec.holder_identity, lease.metadata.owner_references[0].uid) == (bench.name, node.metadata.uid)
    assert "+mooring." in kubectl(plane, "get", "node", bench.name)

    spec = PodSpec(node_name=bench.name, containers=(Container(name="main", image="none"),))
    made = await bench.admin.create(Pod(metadata=ObjectMeta(generate_name="web-", namespace="default"), spec=spec))
    seen = await bench.node.get(POD, "default", made.metadata.name)
    assert seen.spec.node_name == bench.name
    kubectl(plane, "delete", "pod", made.metadata.name, "--force", "--grace-period=0")


async def test_what_is_not_its_own_stays_and_a_steady_status_is_not_written_again(
    plane: ControlPlane, bench: Bench
) -> None:
    await bench.becomes(ready="False")
    attached = {"status": {"volumesAttached": [{"name": "disk", "devicePath": "/dev/sda"}], "volumesInUse": ["disk"]}}
    await bench.admin.patch(NODE, "", bench.name, attached, subresource="status")
    await bench.admin.patch(NODE, "", bench.name, {"metadata": {"annotations": {"note": "1"}}})
    bench.not_ready = ""
    bench.registration.changed()
    node = await bench.becomes(ready="True")
    assert (node.status.volumes_in_use, node.status.volumes_attached[0].name) == (("disk",), "disk")
    assert node.metadata.annotations["note"] == "1"

    before = {each["type"]: each["lastHeartbeatTime"] for each in node.status.conditions}
    renewed = (await bench.admin.get(LEASE, "kube-node-lease", bench.name)).spec.renew_time

    async def is_renewed() -> bool | None:
        lease = await bench.admin.get(LEASE, "kube-node-lease", bench.name)
        return True if lease.spec.renew_time != renewed else None

    await until(is_renewed)
    node = await bench.admin.get(NODE, "", bench.name)
    assert {each["type"]: each["lastHeartbeatTime"] for each in node.status.conditions} == before


async def test_a_server_that_was_killed_is_caught_up_with(plane: ControlPlane, bench: Bench) -> None:
    await bench.becomes(ready="False")
    plane.kill(SERVER)
    with pytest.raises(ConnectionRefused):
        await bench.admin.get(NODE, "", bench.name)
    bench.not_ready = ""
    bench.registration.changed()
    await plane.start(SERVER)
    await bench.becomes(ready="True")
