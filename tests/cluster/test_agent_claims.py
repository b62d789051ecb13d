"""What an agent does for claims beside mounting them: growth, claims of pods' own, attaching by itself."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from rig.control_plane import ControlPlane
from tests.cluster.agents import Agent, Cluster, pod
from tests.cluster.conftest import Programs, controller_kubeconfig
from tests.cluster.test_agent_moves import forget
from tests.node.loop_driver.conftest import LoopDriver

from mooring.stubs import csi_pb2 as csi
from mooring.stubs import csi_pb2_grpc as services

pytestmark = pytest.mark.cluster

NODE_ID = "here"
STORAGE = """
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {{name: {name}}}
provisioner: loop.mooring.dev
allowVolumeExpansion: true
---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 320Mi}}
  accessModes: [ReadWriteOnce]
  storageClassName: {name}
  csi: {{driver: loop.mooring.dev, volumeHandle: {handle}, fsType: xfs}}
---
"""
CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: data}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: {name}, resources: {{requests: {{storage: 320Mi}}}}}}
---
"""
OWN = """ephemeral: {{volumeClaimTemplate: {{spec: {{accessModes: [ReadWriteOnce], storageClassName: {name},
      resources: {{requests: {{storage: 320Mi}}}}}}}}}}"""
DATA = {"data": "persistentVolumeClaim: {claimName: data}"}
NO_ATTACHING = """
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: loop.mooring.dev}
spec: {attachRequired: false}
---
"""


@dataclass(frozen=True, slots=True)
class Site:
    """A node of a cluster with a CSI driver beside it."""

    cluster: Cluster
    driver: LoopDriver
    agent: Agent
    programs: Programs

    def begin(self, *driver_flags: str, controllers: str = "", **environment: str) -> None:
        """Start the driver, the agent, and controllers where some are named."""
        self.driver.start("--register", self.driver.registry, *driver_flags)
        self.agent.environment = {"MOORING_PLUGIN_REGISTRY": self.driver.registry, **environment}
        self.agent.start()
        if controllers:
            access = controller_kubeconfig(self.cluster.plane)
            command = (sys.executable, "-m", "mooring", "controller", "--kubeconfig", access)
            lease = f"kube-system/{self.cluster.namespace}"
            chosen = ("--controllers", controllers, "--csi-socket", self.driver.socket, "--lease", lease)
            self.programs.serve(*command, *chosen)

    def make_volume(self) -> str:
        """A volume, with a class of its own; the name of both."""
        name = self.cluster.namespace
        command = ("csi", "create", name, "--endpoint", self.driver.socket, "--size", "320Mi", "--fs-type", "xfs")
        manifest = self.agent.done(*command)
        handle = next(line.split(": ")[1] for line in manifest.splitlines() if "volumeHandle" in line)
        self.cluster.apply(STORAGE.format(name=name, handle=handle))
        return name

    def attached_to(self) -> list[str]:
        """The nodes, as the driver calls them, to which it has attached a volume."""
        with grpc.insecure_channel(f"unix:{self.driver.socket}") as channel:
            listed = services.ControllerStub(channel).ListVolumes(csi.ListVolumesRequest(), timeout=10)
        return [node for entry in listed.entries for node in entry.status.published_node_ids]

    def claim(self) -> str:
        """What is told of the claim."""
        return self.cluster.kubectl("get", "pvc", "data", "-o", "json")


@pytest.fixture
def site(plane: ControlPlane, node_root: str, programs: Programs) -> Iterator[Site]:
    above = Path(node_root)
    with tempfile.TemporaryDirectory(prefix="mooring-") as sockets:
        (above / "driver").mkdir()
        driver = LoopDriver(str(above / "driver"), sockets)
        cluster = Cluster(plane, above)
        agent = cluster.agent()
        try:
            yield Site(cluster, driver, agent, programs)
        finally:
            cluster.close()
            for kind in ("csidriver/loop.mooring.dev", f"pv/{cluster.namespace}", f"storageclass/{cluster.namespace}"):
                cluster.kubectl("delete", kind, "--ignore-not-found", "--wait=false")
            driver.end(signal.SIGKILL)
            forget(agent)
            driver.clear()


def test_a_claim_grows_under_a_running_pod(site: Site) -> None:
    cluster, agent = site.cluster, site.agent
    cluster.apply(NO_ATTACHING)
    site.begin(controllers="expander", MOORING_CLAIM_INTERVAL="1s")
    name = site.make_volume()
    cluster.apply(CLAIM.format(name=name) + pod("web", agent.name, DATA))
    agent.ready(cluster.key("web"))
    place = agent.path_of(cluster.key("web"), "data")
    before = os.statvfs(place).f_blocks
    (place / "proof").write_text("written before")
    cluster.kubectl("patch", "pvc", "data", "-p", '{"spec": {"resources": {"requests": {"storage": "400Mi"}}}}')
    cluster.until(lambda: json.loads(site.claim())["status"]["capacity"]["storage"] == "400Mi", site.claim)
    assert os.statvfs(place).f_blocks > before * 1.1
    assert (place / "proof").read_text() == "written before"
    assert "allocatedResourceStatuses" not in json.loads(site.claim())["status"]

    def reasons() -> str:
        return cluster.kubectl("get", "events", "-o", "jsonpath={.items[*].reason}")

    cluster.until(lambda: "FileSystemResizeSuccessful" in reasons(), shown=reasons)


def test_a_pods_own_claim_is_used_when_somebody_has_made_and_bound_it(site: Site) -> None:
    cluster, agent = site.cluster, site.agent
    cluster.apply(NO_ATTACHING)
    site.begin()
    name = site.make_volume()
    cluster.apply(pod("web", agent.name, {"own": OWN.format(name=name)}))
    agent.ready(cluster.key("web"))
    assert [row["claim"] for row in agent.json("get", "claims")] == [cluster.key("web-own")]
    assert os.path.ismount(agent.path_of(cluster.key("web"), "own"))


def test_a_driver_that_is_described_after_its_pod_came_serves_it_without_attaching(site: Site) -> None:
    cluster, agent = site.cluster, site.agent
    site.begin()
    name = site.make_volume()
    cluster.apply(CLAIM.format(name=name) + pod("web", agent.name, DATA))
    cluster.until(lambda: "does not list it as attached" in agent.run("explain", cluster.key("web")).out)
    cluster.apply(NO_ATTACHING)
    agent.ready(cluster.key("web"))
    in_use = "jsonpath={.status.volumesInUse}"
    cluster.until(lambda: cluster.kubectl("get", "node", agent.name, "-o", in_use) in ("", "[]"))


def test_a_node_that_attaches_by_itself_needs_no_controller_and_no_more_rights(site: Site) -> None:
    cluster, agent = site.cluster, site.agent
    site.begin("--attach", MOORING_ATTACH="local")
    name = site.make_volume()
    cluster.apply(CLAIM.format(name=name) + pod("web", agent.name, DATA))
    agent.ready(cluster.key("web"))
    (row,) = agent.json("get", "volumes")
    assert row["state"] == "mounted"
    assert site.attached_to() == [NODE_ID]
    node = cluster.kubectl("get", "node", agent.name, "-o", "json")
    assert "controller-managed-attach-detach" not in node
    assert agent.name not in cluster.kubectl("get", "volumeattachments", "-o", "jsonpath={.items[*].spec.nodeName}")

    first_log = agent.log()
    # The authorizer learns of a pod as we do, now and then a moment later; any other refusal is of a right too many.
    own = {"persistentvolumeclaims 'data'", f"persistentvolumes '{name}'"}
    assert refused(first_log) <= own, first_log

    agent.end(signal.SIGKILL)
    cluster.delete_pod("web")
    agent.start()
    cluster.until(lambda: not site.attached_to(), site.attached_to)
    assert not agent.mounts()
    assert refused(agent.log().removeprefix(first_log)) == set()


def refused(log: str) -> set[str]:
    """What an agent was not allowed to ask for, by kind and name; a whole kind has no name."""
    lines = [line for line in log.splitlines() if "forbidden" in line]
    found = [re.search(r'([\w.]+)(?: "([^"]*)")? is forbidden', line) for line in lines]
    return {f"{each[1]} '{each[2] or ''}'" if each else line for line, each in zip(lines, found, strict=True)}


def test_a_node_that_is_deleted_and_made_anew_tells_of_its_drivers_again(site: Site) -> None:
    cluster, agent, driver = site.cluster, site.agent, site.driver
    driver.start("--register", driver.registry)
    agent.environment = {"MOORING_PLUGIN_REGISTRY": driver.registry}
    agent.start("--register-node")

    def told() -> tuple[str, list[str], bool]:
        """The UID of the Node, the drivers of its CSINode, and whether it has the ID of the driver."""
        node = cluster.kubectl("get", "node", agent.name, "-o", "json", "--ignore-not-found")
        csi_node = cluster.kubectl("get", "csinode", agent.name, "-o", "json", "--ignore-not-found")
        if not node or not csi_node:
            return "", [], False
        meta, written = json.loads(node)["metadata"], json.loads(csi_node)
        if [each["uid"] for each in written["metadata"]["ownerReferences"]] != [meta["uid"]]:
            return "", [], False
        drivers = [each["name"] for each in written["spec"]["drivers"] or ()]
        return (
            meta["uid"],
            drivers,
            "loop.mooring.dev" in meta["annotations"].get("csi.volume.kubernetes.io/nodeid", ""),
        )

    cluster.until(lambda: told()[1:] == (["loop.mooring.dev"], True), told)
    before = told()[0]
    cluster.kubectl("delete", "node", agent.name)
    cluster.until(lambda: told()[0] not in ("", before) and told()[1:] == (["loop.mooring.dev"], True), told)
