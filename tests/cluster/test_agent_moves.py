"""A volume that one node can have moves from one agent to another, whoever attaches: Kubernetes or mooring."""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rig import control_plane
from rig.control_plane import MANAGER, ControlPlane
from tests.cluster.agents import Agent, Cluster, pod
from tests.cluster.conftest import Programs, Strangers, controller_kubeconfig, kubectl
from tests.node.loop_driver.conftest import LoopDriver

from mooring.host import syscalls

pytestmark = pytest.mark.cluster

CLAIM = """
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 32Mi}}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  csi: {{driver: loop.mooring.dev, volumeHandle: {handle}, fsType: ext4}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  volumeName: {name}
  resources: {{requests: {{storage: 32Mi}}}}
---
"""
DATA = {"data": "persistentVolumeClaim: {claimName: data}"}


@pytest.fixture(scope="module", params=["kube-controller-manager", "mooring"])
def attaching(request: pytest.FixtureRequest, strangers: Strangers) -> Iterator[tuple[ControlPlane, str]]:
    """A control plane, and the controllers that mooring must bring: a CSI driver's attacher, or all of attaching."""
    for name in (*control_plane.PROGRAMS, "kubectl"):
        strangers(name)
    is_ours = request.param == "mooring"
    flags = {MANAGER: ["--controllers=*,-persistentvolume-attach-detach-controller"]} if is_ours else {}
    with asyncio.Runner() as runner:
        running = control_plane.running(more=flags)
        plane = runner.run(running.__aenter__())
        yield plane, "attach-detach,csi-attacher" if is_ours else "csi-attacher"
        runner.run(running.__aexit__(None, None, None))


@dataclass(frozen=True, slots=True)
class Two:
    """Two nodes that share the volumes of one driver."""

    cluster: Cluster
    driver: LoopDriver
    first: Agent
    second: Agent

    def is_staged(self, agent: Agent) -> bool:
        return any(path.endswith("/globalmount") for path in agent.mounts())

    def attachments(self) -> dict[str, str]:
        """Nodes with an order to attach, and what became of it."""
        form = 'jsonpath={range .items[*]}{.spec.nodeName}={.status.attached}{"\\n"}{end}'
        lines = self.cluster.kubectl("get", "volumeattachments", "-o", form).splitlines()
        return dict(line.split("=", 1) for line in lines if line)

    def until(self, condition: Callable[[], bool]) -> None:
        self.cluster.until(condition, shown=self.attachments)


@pytest.fixture
def two(attaching: tuple[ControlPlane, str], node_root: str, programs: Programs) -> Iterator[Two]:
    plane, controllers = attaching
    above = Path(node_root)
    with tempfile.TemporaryDirectory(prefix="mooring-") as sockets:
        (above / "driver").mkdir()
        driver = LoopDriver(str(above / "driver"), sockets)
        cluster = Cluster(plane, above)
        made = Two(cluster, driver, cluster.agent("first"), cluster.agent("second"))
        try:
            other = f"there,{sockets}/there.sock,{sockets}/there"
            driver.start("--attach", "--register", driver.registry, "--also-node", other)
            for agent, registry in ((made.first, driver.registry), (made.second, f"{sockets}/there")):
                agent.environment = {"MOORING_PLUGIN_REGISTRY": registry}
                agent.start()
            command = [sys.executable, "-m", "mooring", "controller", "--kubeconfig", str(controller_kubeconfig(plane))]
            programs.serve(*command, "--controllers", controllers, "--csi-socket", driver.socket)
            yield made
        finally:
            cluster.close()
            driver.end(signal.SIGKILL)
            for agent in cluster.agents:
                forget(agent)
            driver.clear()


def forget(agent: Agent) -> None:
    """Unmount what a failing test left, so that loop devices can go."""
    for path in sorted(agent.mounts(), reverse=True):
        syscalls.umount2(path, syscalls.UMOUNT_NOFOLLOW)


def a_claim(two: Two) -> str:
    """A volume with a claim; the name of the volume."""
    command = ("csi", "create", two.cluster.namespace, "--endpoint", two.driver.socket, "--size", "32Mi")
    manifest = two.first.done(*command, "--fs-type", "ext4")
    handle = next(line.split(": ")[1] for line in manifest.splitlines() if "volumeHandle" in line)
    two.cluster.apply(CLAIM.format(name=two.cluster.namespace, handle=handle))
    return two.cluster.namespace


def test_a_volume_moves_only_after_the_first_node_has_unmounted_it(two: Two) -> None:
    cluster, first, second = two.cluster, two.first, two.second
    volume = a_claim(two)
    cluster.apply(pod("one", first.name, DATA))
    first.ready(cluster.key("one"))
    place = first.path_of(cluster.key("one"), "data")
    (place / "proof").write_text("written on the first node")
    assert two.attachments() == {first.name: "true"}

    cluster.apply(pod("two", second.name, DATA))
    two.until(lambda: "Multi-Attach error" in cluster.kubectl("get", "events", "-o", "jsonpath={.items[*].message}"))
    # The controller may have heard of the pod before the node has.
    two.until(lambda: "attached" in second.run("explain", cluster.key("two")).out)

    with open(place / "held", "w", encoding="utf-8"):  # somebody uses the volume: it cannot be unmounted
        cluster.delete_pod("one")
        two.until(lambda: any("busy" in (row["reason"] or "") for row in first.json("get", "volumes")))
        assert two.is_staged(first)
        assert not two.is_staged(second)
        assert first.name in two.attachments(), "it is not detached under somebody who uses it"
        assert second.name not in two.attachments()

    second.ready(cluster.key("two"))
    assert not two.is_staged(first)
    assert (second.path_of(cluster.key("two"), "data") / "proof").read_text() == "written on the first node"
    cluster.delete_pod("two")
    second.gone(cluster.key("two"))
    two.until(lambda: not two.attachments())
    for agent in (first, second):
        in_use = kubectl(cluster.plane, "get", "node", agent.name, "-o", "jsonpath={.status.volumesInUse}")
        assert in_use in ("", "[]")
    cluster.kubectl("delete", "pv", volume, "--wait=false")


def test_an_agent_that_was_killed_gives_up_a_volume_it_did_not_see_going(two: Two) -> None:
    cluster, first, second = two.cluster, two.first, two.second
    a_claim(two)
    cluster.apply(pod("one", first.name, DATA))
    first.ready(cluster.key("one"))
    first.end(signal.SIGKILL)
    cluster.delete_pod("one")
    cluster.apply(pod("two", second.name, DATA))
    two.until(lambda: "Multi-Attach error" in cluster.kubectl("get", "events", "-o", "jsonpath={.items[*].message}"))
    assert two.attachments() == {first.name: "true"}, "nobody has said that the first node has let go of it"
    first.start()
    second.ready(cluster.key("two"))
    assert not two.is_staged(first)
    cluster.delete_pod("two")
    second.gone(cluster.key("two"))
    two.until(lambda: not two.attachments())


def test_a_volume_moves_while_the_object_of_its_first_pod_stays(two: Two) -> None:
    cluster, first, second = two.cluster, two.first, two.second
    a_claim(two)
    cluster.apply(pod("one", first.name, DATA, metadata=", finalizers: [mooring.test/stays]"))
    first.ready(cluster.key("one"))
    cluster.apply(pod("two", second.name, DATA))
    cluster.kubectl("delete", "pod", "one", "--grace-period=30", "--wait=false")
    try:
        second.ready(cluster.key("two"))
        assert not two.is_staged(first)
        assert two.attachments() == {second.name: "true"}
        assert cluster.kubectl("get", "pod", "one", "-o", "jsonpath={.metadata.deletionTimestamp}")
    finally:
        cluster.kubectl("patch", "pod", "one", "--type=merge", "-p", '{"metadata": {"finalizers": null}}')
    cluster.delete_pod("two")
    second.gone(cluster.key("two"))
    two.until(lambda: not two.attachments())


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("iscsi: {targetPortal: 192.0.2.1, iqn: 'iqn.2026-01.test:x', lun: 0}", "iscsi/192.0.2.1:iqn.2026-01.test:x:0"),
        ("fc: {targetWWNs: [500A0982991B8DC5], lun: 1}", "fc/[500A0982991B8DC5]:1"),
    ],
)
def test_a_disk_on_a_network_is_tried_once_its_node_is_told_to_have_it(two: Two, source: str, name: str) -> None:
    cluster, first = two.cluster, two.first
    cluster.apply(pod("disk", first.name, {"data": source}))
    attached = "jsonpath={.status.volumesAttached[*].name}"
    cluster.until(lambda: kubectl(cluster.plane, "get", "node", first.name, "-o", attached) == f"kubernetes.io/{name}")
    cluster.until(lambda: "as attached yet" not in first.run("explain", cluster.key("disk")).out)
    cluster.delete_pod("disk")
    cluster.until(lambda: not kubectl(cluster.plane, "get", "node", first.name, "-o", attached))
