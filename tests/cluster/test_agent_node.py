"""What an agent tells its cluster: the Node, events, deletions, and what it asks for on the way."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding
from rig import control_plane
from rig.certificates import Authority
from rig.control_plane import SERVER, ControlPlane
from tests.cluster.agents import Cluster, config_map, pod, secret
from tests.cluster.conftest import Strangers, kubectl
from tests.node.runtimes.conftest import make_engine, places
from tests.node.runtimes.engines import Containerd

from mooring.runtimes.cri_pods import POD_UID_LABEL
from mooring.stubs import cri_pb2 as cri
from mooring.stubs import cri_pb2_grpc as services

__all__ = ["places"]

pytestmark = pytest.mark.cluster

AUDIT = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules: [{level: Metadata, userGroups: ["system:nodes"]}, {level: None}]
"""


CLAIMED_DISK = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: ""
  csi: {driver: disk.csi.test, volumeHandle: NAME}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: disk}
spec: {resources: {requests: {storage: 1Gi}}, accessModes: [ReadWriteOnce], storageClassName: "", volumeName: NAME}
"""


@pytest.fixture(scope="module")
def audited(strangers: Strangers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ControlPlane, Path]]:
    """A control plane that writes down whatever nodes ask for, and its log."""
    for name in (*control_plane.PROGRAMS, "kubectl"):
        strangers(name)
    place = tmp_path_factory.mktemp("audit")
    (place / "policy.yaml").write_text(AUDIT)
    flags = [f"--audit-policy-file={place}/policy.yaml", f"--audit-log-path={place}/log"]
    flags += ["--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true"]
    flags += ["--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true"]
    with asyncio.Runner() as runner:
        running = control_plane.running(more={SERVER: flags})
        plane = runner.run(running.__aenter__())
        yield plane, place / "log"
        runner.run(running.__aexit__(None, None, None))


@pytest.fixture
def cluster(audited: tuple[ControlPlane, Path], node_root: str) -> Iterator[Cluster]:
    """A cluster in which no agent may ask for what it must not."""
    plane, log = audited
    made = Cluster(plane, Path(node_root))
    yield made
    made.close()
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    names = {f"system:node:{agent.name}" for agent in made.agents}
    own = [each for each in entries if each["user"]["username"] in names]
    granted = {asked_for(each) for each in own if each["responseStatus"]["code"] < 400}
    refused = {asked_for(each) for each in own if each["responseStatus"]["code"] in (401, 403)}
    assert granted
    # Of a pod that was bound just now the authorizer may hear a moment after its node, as with a kubelet.
    assert refused - granted == set()


def asked_for(entry: dict[str, Any]) -> tuple[str, ...]:
    """What a request was for, and by whom; reading one object is the same whether it is listed, watched or got."""
    about = entry.get("objectRef", {})
    verb = "read" if entry["verb"] in ("get", "list", "watch") else entry["verb"]
    place = (about.get(part, "") for part in ("resource", "subresource", "namespace", "name"))
    return (entry["user"]["username"], verb, *place)


def conditions(cluster: Cluster, node: str) -> dict[str, str]:
    written = kubectl(cluster.plane, "get", "node", node, "-o", "json", "--ignore-not-found")
    status = json.loads(written)["status"] if written else {}
    return {each["type"]: each["status"] for each in status.get("conditions", [])}


def test_a_node_registers_itself_serves_pods_and_finishes_their_deletion(cluster: Cluster) -> None:
    agent = cluster.agent(makes_node=False)
    agent.start("--register-node", "--node-label", "disk=fast")
    cluster.until(lambda: conditions(cluster, agent.name).get("Ready") == "True")
    node = json.loads(kubectl(cluster.plane, "get", "node", agent.name, "-o", "json"))
    assert node["metadata"]["labels"]["disk"] == "fast"
    assert node["metadata"]["annotations"]["volumes.kubernetes.io/controller-managed-attach-detach"] == "true"
    (owner,) = json.loads(kubectl(cluster.plane, "get", "csinode", agent.name, "-o", "json"))["metadata"][
        "ownerReferences"
    ]
    assert owner["uid"] == node["metadata"]["uid"]
    cluster.apply(config_map("settings", key="1") + secret("password", "1"))
    content = {
        "config": "configMap: {name: settings}",
        "password": "secret: {secretName: password}",
        "token": "projected: {sources: [{serviceAccountToken: {path: token}}]}",
    }
    cluster.apply(pod("web", agent.name, content))
    agent.ready(cluster.key("web"))
    cluster.kubectl("delete", "pod", "web", "--grace-period=1", "--wait=false")
    cluster.until(lambda: not cluster.kubectl("get", "pods", "-o", "name"))
    assert not agent.mounts()


def test_events_stand_under_the_pod_for_kubectl_and_for_mooring(cluster: Cluster) -> None:
    agent = cluster.agent()
    agent.start()
    cluster.apply(pod("web", agent.name, {"config": "configMap: {name: nowhere}"}))

    def described() -> str:
        return cluster.kubectl("describe", "pod", "web")

    cluster.until(lambda: "FailedMount" in described(), shown=described)
    cluster.until(lambda: 'configmap "nowhere" not found' in described(), shown=described)
    sources = cluster.kubectl("get", "events", "-o", "jsonpath={.items[*].source}")
    assert f'{{"component":"mooring","host":"{agent.name}"}}' in sources
    cluster.until(lambda: any(row["reason"] == "FailedMount" for row in agent.json("get", "events")))


def test_what_is_read_is_what_pods_of_the_node_need(cluster: Cluster, audited: tuple[ControlPlane, Path]) -> None:
    agent, other = cluster.agent("one"), cluster.agent("other")
    agent.start()
    cluster.apply(config_map("mine", key="1") + config_map("foreign", key="1") + secret("foreign", "1"))
    cluster.apply(pod("web", agent.name, {"config": "configMap: {name: mine}"}))
    cluster.apply(pod("elsewhere", other.name, {"config": "configMap: {name: foreign}"}))
    agent.ready(cluster.key("web"))
    agent.end(signal.SIGTERM)
    other.start()
    other.ready(cluster.key("elsewhere"))
    entries = [json.loads(line) for line in audited[1].read_text().splitlines()]
    asked = {
        (each["user"]["username"], each["objectRef"]["name"])
        for each in entries
        if each.get("objectRef", {}).get("resource") in ("configmaps", "secrets")
        and each["objectRef"]["namespace"] == cluster.namespace
    }
    assert asked == {(f"system:node:{agent.name}", "mine"), (f"system:node:{other.name}", "foreign")}


def test_a_trust_bundle_reaches_volumes_and_so_does_its_change(
    cluster: Cluster, audited: tuple[ControlPlane, Path]
) -> None:
    agent, (plane, _) = cluster.agent(), audited
    agent.start()
    one, other = (Authority(name).pair.certificate.decode() for name in ("one", "other"))
    cluster.apply(trust_bundle(cluster.namespace, one))
    source = f"projected: {{sources: [{{clusterTrustBundle: {{name: {cluster.namespace}, path: ca.pem}}}}]}}"
    cluster.apply(pod("web", agent.name, {"trust": source}))
    agent.ready(cluster.key("web"))
    file = agent.path_of(cluster.key("web"), "trust") / "ca.pem"
    assert certificates(file.read_text()) == certificates(one)
    cluster.apply(trust_bundle(cluster.namespace, one + other))
    cluster.until(lambda: certificates(file.read_text()) == certificates(one + other))
    kubectl(plane, "delete", "clustertrustbundle", cluster.namespace)


def trust_bundle(name: str, pem: str) -> str:
    written = {
        "apiVersion": "certificates.k8s.io/v1beta1",
        "kind": "ClusterTrustBundle",
        "metadata": {"name": name},
        "spec": {"trustBundle": pem},
    }
    return json.dumps(written)


def certificates(pem: str) -> set[bytes]:
    return {each.public_bytes(Encoding.DER) for each in x509.load_pem_x509_certificates(pem.encode())}


def test_why_a_volume_is_not_attached_is_told_on_its_node(cluster: Cluster) -> None:
    agent, name = cluster.agent(), cluster.namespace
    agent.start()
    cluster.apply(CLAIMED_DISK.replace("NAME", name))
    cluster.apply(pod("web", agent.name, {"data": "persistentVolumeClaim: {claimName: disk}"}))
    orders = "jsonpath={.items[*].metadata.name}"
    cluster.until(lambda: bool(cluster.kubectl("get", "volumeattachments", "-o", orders)))
    order = cluster.kubectl("get", "volumeattachments", "-o", orders)
    error = {"time": "2026-01-01T00:00:00Z", "message": "no such disk", "errorCode": 5}
    change = json.dumps({"status": {"attached": False, "attachError": error}})
    cluster.kubectl("patch", "volumeattachment", order, "--subresource=status", "--type=merge", "-p", change)
    cluster.until(lambda: "no such disk" in agent.run("explain", cluster.key("web")).out)
    cluster.delete_pod("web")
    cluster.kubectl("delete", "pv", name, "--wait=false")


def test_volumes_stay_until_the_runtime_says_that_the_containers_have_gone(cluster: Cluster, places: Path) -> None:
    engine = make_engine("cri", places)
    assert isinstance(engine, Containerd)
    agent = cluster.agent(makes_node=False)
    try:
        agent.start("--register-node", "--cri", engine.socket)
        cluster.until(lambda: conditions(cluster, agent.name).get("Ready") == "True")
        cluster.apply(pod("web", agent.name, {"cache": "emptyDir: {medium: Memory}"}))
        agent.ready(cluster.key("web"))
        uid = cluster.kubectl("get", "pod", "web", "-o", "jsonpath={.metadata.uid}")
        sandbox = start_sandbox(engine, uid)
        cluster.kubectl("delete", "pod", "web", "--grace-period=1", "--wait=false")
        cluster.until(
            lambda: "the pod's sandbox" in json.dumps(agent.json("get", "pods")), lambda: agent.json("get", "pods")
        )
        assert agent.mounts()
        assert cluster.kubectl("get", "pods", "-o", "name")
        agent.end(signal.SIGKILL)
        agent.start("--register-node", "--cri", engine.socket)
        agent.run("wait", cluster.key("web"), "--for", "unmounted", "--timeout", "1s")
        assert agent.mounts(), "what runs is known again after a restart"
        stop_sandbox(engine, sandbox)
        cluster.until(lambda: not cluster.kubectl("get", "pods", "-o", "name"))
        assert not agent.mounts()
    finally:
        agent.kill_all()
        engine.close()


def start_sandbox(engine: Containerd, uid: str) -> str:
    """A sandbox as somebody starts it who runs the pod's containers."""
    metadata = cri.PodSandboxMetadata(name="web", namespace="default", uid=uid)
    host = cri.NamespaceOption(network=cri.NODE)
    linux = cri.LinuxPodSandboxConfig(security_context=cri.LinuxSandboxSecurityContext(namespace_options=host))
    config = cri.PodSandboxConfig(metadata=metadata, labels={POD_UID_LABEL: uid}, linux=linux)
    return str(_call(engine, "RunPodSandbox", cri.RunPodSandboxRequest(config=config)).pod_sandbox_id)


def stop_sandbox(engine: Containerd, sandbox: str) -> None:
    _call(engine, "StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=sandbox))
    _call(engine, "RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox))


def _call(engine: Containerd, method: str, request: object) -> Any:
    with grpc.insecure_channel(f"unix://{engine.socket}") as channel:
        return getattr(services.RuntimeServiceStub(channel), method)(request, timeout=60)
