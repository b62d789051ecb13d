"""`mooring agent` with a node's identity on a real API server: the volumes of the pods that are bound to it."""

from __future__ import annotations

import json
import signal
import uuid
from pathlib import Path

import pytest
from tests.cluster.agents import Cluster, cluster, config_map, pod, secret
from tests.cluster.conftest import kubectl
from tests.node.daemon.conftest import Daemon

__all__ = ["cluster"]

pytestmark = pytest.mark.cluster

EVERYTHING = {
    "config": "configMap: {name: settings, defaultMode: 0640, items: [{key: greeting, path: a/b}]}",
    "password": "secret: {secretName: password}",
    "labels": "downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}",
    "all": "projected: {sources: [{configMap: {name: settings}}, {secret: {name: password}}]}",
    "cache": "emptyDir: {medium: Memory, sizeLimit: 16Mi}",
    "scratch": "emptyDir: {}",
    "host": "hostPath: {path: /proc}",
    "absent": "configMap: {name: nowhere, optional: true}",
}


def test_a_node_of_a_cluster_has_the_same_trees_as_one_machine(cluster: Cluster, daemon: Daemon) -> None:
    agent = cluster.agent()
    objects = config_map("settings", greeting="hello", other="more") + secret("password", "hunter2")
    pods = pod("web", agent.name, EVERYTHING, spec="  securityContext: {fsGroup: 4711, runAsUser: 1000}")
    pods += pod("plain", agent.name, EVERYTHING)
    cluster.apply(objects + pods)
    agent.start()
    agent.ready(cluster.key("web"), cluster.key("plain"))
    daemon.write("all.yaml", objects + pods)
    daemon.done("up", daemon.manifests, "--detach", "--node-name", agent.name)
    daemon.mounted("web", "plain")
    alone = cluster.agent("alone", makes_node=False)
    alone.root = daemon.root
    assert agent.tree() == alone.tree()
    assert len(agent.tree()) > 60


def test_changes_reach_volumes_at_once_and_a_deleted_pod_leaves_nothing(cluster: Cluster) -> None:
    agent = cluster.agent()
    agent.start()
    cluster.apply(
        config_map("settings", greeting="hello")
        + secret("password", "first")
        + pod("web", agent.name, {name: EVERYTHING[name] for name in ("config", "password", "cache")})
    )
    agent.ready(cluster.key("web"))
    greeting = agent.path_of(cluster.key("web"), "config") / "a/b"
    password = agent.path_of(cluster.key("web"), "password") / "key"
    assert (greeting.read_text(), password.read_text()) == ("hello", "first")
    cluster.apply(config_map("settings", greeting="hello again") + secret("password", "second"))
    cluster.until(lambda: (greeting.read_text(), password.read_text()) == ("hello again", "second"))
    cluster.delete_pod("web")
    agent.gone(cluster.key("web"))
    cluster.until(lambda: not list(Path(agent.root, "pods").iterdir()))
    assert not agent.mounts()


def test_a_pod_may_be_waited_for_before_it_is_there(cluster: Cluster) -> None:
    agent = cluster.agent()
    agent.start()
    missing = agent.run("wait", cluster.key("late"), "--timeout", "10ms")
    assert missing.status == 1
    assert "none is bound to this node" in missing.err
    cluster.apply(pod("late", agent.name, {"cache": "emptyDir: {}"}))
    agent.ready(cluster.key("late"))


def test_a_pod_that_waits_for_an_object_goes_on_when_it_comes(cluster: Cluster) -> None:
    agent = cluster.agent()
    agent.start()
    cluster.apply(
        pod(
            "web",
            agent.name,
            {"config": "configMap: {name: late}", "claim": "persistentVolumeClaim: {claimName: late}"},
        )
    )
    key = cluster.key("web")

    def causes() -> dict[str, str]:
        """By volume; none before the agent has heard of the pod."""
        told = agent.run("explain", key, "-o", "json")
        return {row["volume"]: row["cause"] for row in json.loads(told.out)["volumes"]} if told.status == 0 else {}

    cluster.until(lambda: 'configmap "late" not found' in causes().get("config", ""), shown=causes)
    cluster.until(lambda: 'persistentvolumeclaims "late" not found' in causes().get("claim", ""), shown=causes)
    assert agent.run("wait", key, "--timeout", "10ms").status == 1
    local = Path(agent.root).parent / "disk"
    local.mkdir()
    name = f"late-{uuid.uuid4().hex[:8]}"
    cluster.apply(
        config_map("late", key="1")
        + f"""
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  capacity: {{storage: 1Gi}}
  accessModes: [ReadWriteOnce]
  storageClassName: {name}
  local: {{path: {local}}}
  nodeAffinity:
    required:
      nodeSelectorTerms:
      - matchExpressions: [{{key: kubernetes.io/hostname, operator: In, values: [{agent.name}]}}]
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: late}}
spec: {{accessModes: [ReadWriteOnce], storageClassName: {name}, resources: {{requests: {{storage: 1Gi}}}}}}
"""
    )
    agent.ready(key)
    (local / "proof").write_text("here")
    assert (agent.path_of(key, "claim") / "proof").read_text() == "here"
    assert [row["claim"] for row in agent.json("get", "claims")] == [cluster.key("late")]
    cluster.kubectl("delete", "pv", name, "--wait=false")


def test_tokens_come_from_the_api_server_and_are_bound_to_the_pod(cluster: Cluster) -> None:
    agent = cluster.agent()
    agent.start()
    token = "projected: {sources: [{serviceAccountToken: {path: token, expirationSeconds: 3600}}]}"
    cluster.apply(pod("web", agent.name, {"token": token}))
    agent.ready(cluster.key("web"))
    text = (agent.path_of(cluster.key("web"), "token") / "token").read_text()
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": text}}
    given = cluster.kubectl(
        "create", "--raw", "/apis/authentication.k8s.io/v1/tokenreviews", "-f", "-", given=json.dumps(review)
    )
    status = json.loads(given)["status"]
    assert status["authenticated"] is True
    assert status["user"]["username"] == f"system:serviceaccount:{cluster.namespace}:default"
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["web"]


def test_a_killed_agent_finds_everything_again_and_touches_nothing(cluster: Cluster) -> None:
    agent = cluster.agent()
    agent.start()
    cluster.apply(config_map("settings", greeting="hello") + secret("password", "1"))
    cluster.apply(pod("stays", agent.name, EVERYTHING) + pod("goes", agent.name, EVERYTHING))
    agent.ready(cluster.key("stays"), cluster.key("goes"))
    before = agent.mounts()
    agent.end(signal.SIGKILL)
    cluster.delete_pod("goes")
    cluster.apply(config_map("settings", greeting="meanwhile"))
    agent.start()
    agent.ready(cluster.key("stays"))
    agent.gone(cluster.key("goes"))
    after = agent.mounts()
    assert after.items() <= before.items(), "nothing was mounted again"
    assert len(after) == len(before) / 2
    assert (agent.path_of(cluster.key("stays"), "config") / "a/b").read_text() == "meanwhile"


def test_pods_of_its_own_manifests_have_volumes_beside_the_clusters(cluster: Cluster) -> None:
    agent = cluster.agent()
    agent.manifests.mkdir()
    agent.write("own.yaml", pod("own", agent.name, {"scratch": "emptyDir: {}"}))
    agent.write("needy.yaml", pod("needy", agent.name, {"config": "configMap: {name: settings}"}))
    mirror = ", annotations: {kubernetes.io/config.mirror: hash, kubernetes.io/config.hash: hash}"
    cluster.apply(pod("mirror", agent.name, {"scratch": "emptyDir: {}"}, metadata=mirror))
    cluster.apply(pod("web", agent.name, {"scratch": "emptyDir: {}"}))
    agent.start("--manifests", agent.manifests)
    agent.ready(cluster.key("web"), "default/own")
    assert sorted(row["pod"] for row in agent.json("get", "pods")) == sorted([cluster.key("web"), "default/own"])
    (finding,) = [row for row in agent.json("get", "findings") if row["kind"] == "manifest"]
    assert "ConfigMap" in finding["what"]
    shown = f"own-{agent.name}"
    cluster.until(lambda: shown in kubectl(cluster.plane, "get", "pods", "-n", "default", "-o", "name"))
    (agent.manifests / "own.yaml").unlink()
    agent.gone("default/own")
    cluster.until(lambda: shown not in kubectl(cluster.plane, "get", "pods", "-n", "default", "-o", "name"))


def test_objects_are_changed_in_the_cluster_and_not_here(cluster: Cluster) -> None:
    agent = cluster.agent()
    agent.start()
    file = Path(agent.root).parent / "pod.yaml"
    file.write_text(pod("web", agent.name, {"scratch": "emptyDir: {}"}))
    for verb in ("apply", "delete"):
        ended = agent.run(verb, "-f", file)
        assert ended.status == 1
        assert f"kubectl {verb}" in ended.err


def test_wrong_words_are_told_before_anything_starts(cluster: Cluster) -> None:
    agent = cluster.agent(makes_node=False)
    missing = agent.run("agent", "--kubeconfig", "/nowhere", "--node", "n")
    assert (missing.status, "/nowhere" in missing.err) == (2, True)
    nothing = agent.run("agent", "--kubeconfig", agent.kubeconfig, "--manifests", "/nowhere", "--node", "n")
    assert (nothing.status, "--manifests" in nothing.err) == (2, True)
