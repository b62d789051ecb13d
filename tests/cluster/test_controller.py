"""`mooring controller` on a real API server, in place of the attach/detach controller and the binder of Kubernetes."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest
from msgspec import structs
from rig import control_plane
from rig.control_plane import MANAGER, ControlPlane
from tests.cluster.conftest import Program, Programs, Strangers, controller_kubeconfig, kubectl

from mooring.controllers.attachdetach.attachers import attachment_name
from mooring.kube import kubeconfig
from mooring.kube.api import NotFound
from mooring.kube.api_server import ApiServer
from mooring.kube.objects.kinds import CLAIM, LEASE, NODE, PERSISTENT_VOLUME, VOLUME_ATTACHMENT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import PersistentVolumeClaim, VolumeAttachment
from mooring.world.names import VolumeName

pytestmark = pytest.mark.cluster

T = TypeVar("T")
PATIENCE = 60.0
ATTACH_DETACH, BINDER = "persistentvolume-attach-detach-controller", "persistentvolume-binder-controller"
PROVISIONER = "volume.kubernetes.io/storage-provisioner"
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
MADE_CLAIM = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: made}
provisioner: disk.csi.test
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: made, namespace: default}
spec: {resources: {requests: {storage: 1Gi}}, accessModes: [ReadWriteOnce], storageClassName: made}
"""
MADE_VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: pvc-made}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: made
  csi: {driver: disk.csi.test, volumeHandle: made}
  claimRef: {apiVersion: v1, kind: PersistentVolumeClaim, namespace: default, name: made, uid: %s}
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
    """A control plane of its own, that leaves attaching and binding to others."""
    for name in (*control_plane.PROGRAMS, "kubectl"):
        strangers(name)
    with asyncio.Runner() as runner:
        running = control_plane.running(more={MANAGER: [f"--controllers=*,-{ATTACH_DETACH},-{BINDER}"]})
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
    return [sys.executable, "-m", "mooring", "controller", "--kubeconfig", str(controller_kubeconfig(plane)), *more]


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
    controller(programs, plane, "--controllers=attach-detach,binder")
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
    source = "jsonpath={.items[?(@.reason=='FailedAttachVolume')].source.component}"
    assert kubectl(plane, "get", "events", "-o", source) == "attachdetach-controller"
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


async def attached(plane: ControlPlane, api: ApiServer, node: str) -> VolumeAttachment:
    """A pod on a node has the disk, as the controller and whoever attaches see it; the order for that."""
    kubectl(plane, "apply", "-f", "-", given=POD_OBJECT % node)
    order = await order_for(api, node)
    mark = {"metadata": {"finalizers": ["external-attacher/disk-csi-test"]}}
    await api.patch(VOLUME_ATTACHMENT, "", order.metadata.name, mark)
    await status(api, order, attached=True)
    await told(api, node, [DISK])
    return order


async def let_go(api: ApiServer, order: VolumeAttachment) -> None:
    """Whoever attaches has detached, and nothing is left."""

    async def leaving() -> bool | None:
        found = await api.get(VOLUME_ATTACHMENT, "", order.metadata.name)
        return True if found.metadata.deletion_timestamp is not None else None

    await until(leaving)
    await api.patch(VOLUME_ATTACHMENT, "", order.metadata.name, {"metadata": {"finalizers": []}})

    async def none_left() -> bool | None:
        return None if (await api.list(VOLUME_ATTACHMENT)).items else True

    await until(none_left)


async def test_a_node_that_is_out_of_service_loses_a_volume_that_it_still_uses(
    plane: ControlPlane, api: ApiServer, programs: Programs
) -> None:
    kubectl(plane, "apply", "-f", "-", given="---".join((OBJECTS, NODE_OBJECT % "n5")))
    controller(programs, plane, "--controllers=attach-detach,binder", "--lease", "kube-system/taint")
    order = await attached(plane, api, "n5")
    await api.patch(NODE, "", "n5", {"status": {"volumesInUse": [DISK]}}, subresource="status")
    kubectl(plane, "delete", "pod", "web", "--force", "--grace-period=0")
    await asyncio.sleep(0.5)  # nothing tells that nothing happens
    assert (await api.get(VOLUME_ATTACHMENT, "", order.metadata.name)).metadata.deletion_timestamp is None
    kubectl(plane, "taint", "node", "n5", "node.kubernetes.io/out-of-service=off:NoExecute")
    await let_go(api, order)
    await told(api, "n5", [])


async def test_a_controller_that_starts_again_detaches_what_nobody_wants_any_more(
    plane: ControlPlane, api: ApiServer, programs: Programs
) -> None:
    """One volume is in the status of its node, and another one was ordered just before the controller was killed."""
    kubectl(plane, "apply", "-f", "-", given="---".join((OBJECTS, NODE_OBJECT % "n3", NODE_OBJECT % "n4")))
    first = controller(programs, plane, "--controllers=attach-detach,binder", "--lease", "kube-system/before")
    order = await attached(plane, api, "n3")
    first.kill()
    first.wait()
    kubectl(plane, "delete", "pod", "web", "--force", "--grace-period=0")
    name = attachment_name(VolumeName(DISK), "n4")
    assert name is not None
    elsewhere = structs.replace(order.spec, node_name="n4")
    await api.create(VolumeAttachment(metadata=ObjectMeta(name=name), spec=elsewhere))
    controller(programs, plane, "--controllers=attach-detach", "--lease", "kube-system/after")
    await let_go(api, order)
    await told(api, "n3", [])


async def test_a_provisioner_is_asked_for_a_volume_and_the_claim_bound_to_what_it_makes(
    plane: ControlPlane, api: ApiServer, programs: Programs
) -> None:
    controller(programs, plane, "--controllers=binder", "--lease", "kube-system/binder")
    kubectl(plane, "apply", "-f", "-", given=MADE_CLAIM)

    async def asked() -> PersistentVolumeClaim | None:
        found = await api.get(CLAIM, "default", "made")
        return found if found.metadata.annotations.get(PROVISIONER) == "disk.csi.test" else None

    claim = await until(asked)
    assert claim.status.phase == "Pending"
    kubectl(plane, "apply", "-f", "-", given=MADE_VOLUME % claim.metadata.uid)

    async def bound() -> bool | None:
        return True if (await api.get(CLAIM, "default", "made")).status.phase == "Bound" else None

    await until(bound)
    assert (await api.get(PERSISTENT_VOLUME, "", "pvc-made")).status.phase == "Bound"


async def test_another_controller_takes_over_when_the_leader_is_killed(
    plane: ControlPlane, api: ApiServer, programs: Programs
) -> None:
    place = ("--lease", "kube-system/killed", "--controllers", "attach-detach")
    first = controller(programs, plane, *place)
    second = await asyncio.create_subprocess_exec(*_command(plane, *place), stdout=asyncio.subprocess.PIPE)
    assert second.stdout is not None
    try:
        before = await api.get(LEASE, "kube-system", "killed")
        first.kill()
        async with asyncio.timeout(PATIENCE):
            line = (await second.stdout.readline()).decode()
        assert line.startswith("mooring controller leads kube-system/killed")
        after = await api.get(LEASE, "kube-system", "killed")
        assert after.spec.holder_identity != before.spec.holder_identity
        assert (after.spec.lease_transitions or 0) == (before.spec.lease_transitions or 0) + 1
    finally:
        second.send_signal(signal.SIGTERM)
        assert await second.wait() == 0
    released = await api.get(LEASE, "kube-system", "killed")
    assert not released.spec.holder_identity
    assert os.path.exists(plane.kubeconfig)


async def test_a_controller_that_is_told_to_stop_releases_the_lease(
    plane: ControlPlane, api: ApiServer, programs: Programs
) -> None:
    place = ("--lease", "kube-system/stopped", "--controllers", "attach-detach,binder,ephemeral")
    first = controller(programs, plane, *place)
    first.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(first.wait, 30) == 0
    second = controller(programs, plane, *place)
    assert second.poll() is None
    with pytest.raises(NotFound):
        await api.get(LEASE, "kube-system", "another")
