"""`mooring controller` on a real API server, in place of the attach/detach controller of kube-controller-manager."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
from rig import control_plane
from rig.control_plane import MANAGER, ControlPlane
from tests.cluster.conftest import Program, Programs, Strangers, kubectl

from mooring.kube import kubeconfig
from mooring.kube.api import NotFound
from mooring.kube.api_server import ApiServer
from mooring.kube.objects.kinds import LEASE, NODE, VOLUME_ATTACHMENT
from mooring.kube.objects.storage import VolumeAttachment

pytestmark = pytest.mark.cluster

T = TypeVar("T")
PATIENCE = 60.0
DISK = "kubernetes.io/csi/disk.csi.test^vol-1"
OBJECTS = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: disk}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  csi: {driver: disk.csi.test, volumeHandle: vol-1}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk, namespace: default}
spec: {resources: {requests: {storage: 1Gi}}, accessModes: [ReadWriteOnce], storageClassName: "", volumeName: disk}
"""
NODE_OBJECT = """
apiVersion: v1
kind: Node
metadata: {name: %s, annotations: {volumes.kubernetes.io/controller-managed-attach-detach: "true"}}
"""
POD_OBJECT = """
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default}
spec:
  nodeName: %s
  terminationGracePeriodSeconds: 0
  tolerations: [{operator: Exists}]
  containers: [{name: main, image: none, volumeMounts: [{name: data, mountPath: /data}]}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: disk}}]
"""


@pytest.fixture(scope="module")
def plane(strangers: Strangers) -> Iterator[ControlPlane]:
    """A control plane of its own, that leaves attaching to others."""
    for name in (*control_plane.PROGRAMS, "kubectl"):
        strangers(name)
    with asyncio.Runner() as runner:
        running = control_plane.running(more={MANAGER: ["--controllers=*,-persistentvolume-attach-detach-controller"]})
        made = runner.run(running.__aenter__())
        yield made
        runner.run(running.__aexit__(None, None, None))


@pytest.fixture
async def api(plane: ControlPlane) -> AsyncIterator[ApiServer]:
    async with ApiServer(kubeconfig.load(str(plane.kubeconfig)), agent="mooring-test") as made:
        yield made


def controller(programs: Programs, plane: ControlPlane, *more: str) -> Program:
    """A controller; it has said that it leads."""
    return programs.serve(*_command(plane, *more))


def _command(plane: ControlPlane, *more: str) -> list[str]:
    return [sys.executable, "-m", "mooring", "controller", "--kubeconfig", str(plane.kubeconfig), *more]


async def until(answer: Callable[[], Awaitable[T | None]]) -> T:
    """The first answer that is not None. Not all that is waited for here is told, so it is asked for until then."""
    async with asyncio.timeout(PATIENCE):
        while True:
            given = await answer()
            if given is not None:
                return given
            await asyncio.sleep(0.05)


async def order_for(api: ApiServer, node: str) -> VolumeAttachment:
    """The order to attach the disk to a node, once it is written."""

    async def answer() -> VolumeAttachment | None:
        orders = (await api.list(VOLUME_ATTACHMENT)).items
        return next((each for each in orders if each.spec.node_name == node), None)

    return await until(answer)


async def told(api: ApiServer, node: str, names: list[str]) -> None:
    """Until the status of a node says just this."""

    async def answer() -> bool | None:
        found = await api.get(NODE, "", node)
        return True if [each.name for each in found.status.volumes_attached] == names else None

    await until(answer)


async def status(api: ApiServer, order: VolumeAttachment, **fields: Any) -> None:
    await api.patch(VOLUME_ATTACHMENT, "", order.metadata.name, {"status": fields}, subresource="status")


async def test_a_volume_for_one_node_moves_only_after_the_old_node_has_let_go_of_it(
    plane: ControlPlane, api: ApiServer, programs: Programs
) -> None:
    kubectl(plane, "apply", "-f", "-", given="---".join((OBJECTS, NODE_OBJECT % "n1", NODE_OBJECT % "n2")))
    controller(programs, plane, "--controllers=attach-detach")
    kubectl(plane, "apply", "-f", "-", given=POD_OBJECT % "n1")
    order = await order_for(api, "n1")
    name = order.metadata.name
    assert (order.metadata.finalizers, order.spec.attacher) == ((), "disk.csi.test")
    # Whoever attaches marks it first, so that it stays until the volume is detached.
    await api.patch(VOLUME_ATTACHMENT, "", name, {"metadata": {"finalizers": ["external-attacher/disk-csi-test"]}})
    assert (await api.get(NODE, "", "n1")).status.volumes_attached == ()
    await status(api, order, attached=True)
    await told(api, "n1", [DISK])

    in_use = {"status": {"volumesInUse": [DISK]}}
    await api.patch(NODE, "", "n1", in_use, subresource="status")
    kubectl(plane, "delete", "pod", "web", "--force", "--grace-period=0")
    kubectl(plane, "apply", "-f", "-", given=POD_OBJECT % "n2")

    async def warned() -> bool | None:
        events = kubectl(plane, "get", "events", "-o", "jsonpath={.items[*].message}")
        return True if 'Multi-Attach error for volume "disk"' in events else None

    await until(warned)
    assert [each.spec.node_name for each in (await api.list(VOLUME_ATTACHMENT)).items] == ["n1"]
    await told(api, "n1", [DISK])
    assert (await api.get(VOLUME_ATTACHMENT, "", name)).metadata.deletion_timestamp is None

    await api.patch(NODE, "", "n1", {"status": {"volumesInUse": []}}, subresource="status")

    async def leaving() -> bool | None:
        return True if (await api.get(VOLUME_ATTACHMENT, "", name)).metadata.deletion_timestamp is not None else None

    await until(leaving)
    assert (await api.get(NODE, "", "n1")).status.volumes_attached == ()  # it was told before
    assert len((await api.list(VOLUME_ATTACHMENT)).items) == 1  # nothing for n2 until n1 is proven to have lost it
    await api.patch(VOLUME_ATTACHMENT, "", name, {"metadata": {"finalizers": []}})
    await status(api, await order_for(api, "n2"), attached=True)
    await told(api, "n2", [DISK])
    kubectl(plane, "delete", "pod", "web", "--force", "--grace-period=0")

    async def none_left() -> bool | None:
        return None if (await api.list(VOLUME_ATTACHMENT)).items else True

    await until(none_left)


async def test_another_controller_takes_over_when_the_leader_is_killed(
    plane: ControlPlane, api: ApiServer, programs: Programs
) -> None:
    place = ("--lease", "default/killed", "--controllers", "attach-detach")
    first = controller(programs, plane, *place)
    second = await asyncio.create_subprocess_exec(*_command(plane, *place), stdout=asyncio.subprocess.PIPE)
    assert second.stdout is not None
    try:
        before = await api.get(LEASE, "default", "killed")
        first.kill()
        async with asyncio.timeout(PATIENCE):
            line = (await second.stdout.readline()).decode()
        assert line.startswith("mooring controller leads default/killed")
        after = await api.get(LEASE, "default", "killed")
        assert after.spec.holder_identity != before.spec.holder_identity
        assert (after.spec.lease_transitions or 0) == (before.spec.lease_transitions or 0) + 1
    finally:
        second.send_signal(signal.SIGTERM)
        assert await second.wait() == 0
    released = await api.get(LEASE, "default", "killed")
    assert not released.spec.holder_identity
    assert os.path.exists(plane.kubeconfig)


async def test_a_controller_that_is_told_to_stop_releases_the_lease(
    plane: ControlPlane, api: ApiServer, programs: Programs
) -> None:
    place = ("--lease", "default/stopped", "--controllers", "attach-detach,binder,ephemeral")
    first = controller(programs, plane, *place)
    first.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(first.wait, 30) == 0
    second = controller(programs, plane, *place)
    assert second.poll() is None
    with pytest.raises(NotFound):
        await api.get(LEASE, "default", "another")
