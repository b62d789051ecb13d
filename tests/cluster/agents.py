"""Agents on a real control plane: `mooring agent` as a process, each with a root directory and a Node of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from rig.control_plane import ControlPlane
from tests.cluster.conftest import kubectl
from tests.node.daemon.conftest import Daemon

PATIENCE = 60.0
_REPOSITORY = Path(__file__).parents[2]
_TREE = _REPOSITORY / "bench" / "kubelet-peer" / "tree"


class Agent(Daemon):
    """One node: `mooring agent` with a kubelet's identity, and the commands of `mooring` on its root."""

    def __init__(self, plane: ControlPlane, root: str, name: str) -> None:
        os.makedirs(root, exist_ok=True)
        super().__init__(root, Path(root).parent / f"{name}-manifests")
        self.name = name
        self.kubeconfig = plane.node_kubeconfig(name)
        self.environment: dict[str, str] = {}

    def start(self, *flags: object, kubeconfig: Path | None = None) -> None:
        with _environment(self.environment):
            file = kubeconfig or self.kubeconfig
            self.done("agent", "--kubeconfig", file, "--node", self.name, "--detach", *flags)

    def ready(self, *pods: str) -> None:
        for pod in pods:
            self.done("wait", pod, "--timeout", f"{PATIENCE:.0f}s")

    def gone(self, *pods: str) -> None:
        for pod in pods:
            self.done("wait", pod, "--for", "unmounted", "--timeout", f"{PATIENCE:.0f}s")

    def path_of(self, pod: str, volume: str) -> Path:
        """Where a volume of a pod lies."""
        rows = {(row["pod"], row["volume"]): row for row in self.json("get", "volumes")}
        return Path(rows[pod, volume]["path"])

    def tree(self) -> list[str]:
        """All below `pods`, a line each, with the names of pods in place of their UIDs."""
        command = [sys.executable, str(_TREE), self.root, "--pods-only"]
        listing = subprocess.run(command, capture_output=True, text=True, check=True)
        text = listing.stdout
        for pod in self.json("get", "pods"):
            text = text.replace(pod["uid"], pod["pod"].rpartition("/")[2])
        return sorted(line.rstrip(",") for line in text.splitlines())


class Cluster:
    """A namespace of a control plane, and agents in it. Nodes have names of their own for each test."""

    def __init__(self, plane: ControlPlane, above: Path) -> None:
        self.plane = plane
        self.namespace = f"agents-{uuid.uuid4().hex[:8]}"
        self.agents: list[Agent] = []
        self._above = above
        kubectl(plane, "create", "namespace", self.namespace)
        self.until(self._has_account)

    def _has_account(self) -> bool:
        """Pods can be made once a controller has made the default account."""
        return bool(self.kubectl("get", "serviceaccounts", "default", "--ignore-not-found", "-o", "name"))

    def agent(self, name: str = "node", *, makes_node: bool = True) -> Agent:
        """An agent that does not run yet; its Node is there."""
        made = Agent(self.plane, str(self._above / name), f"{name}-{self.namespace}")
        self.agents.append(made)
        if makes_node:
            kubectl(
                self.plane,
                "create",
                "-f",
                "-",
                given=f"{{apiVersion: v1, kind: Node, metadata: {{name: {made.name}}}}}",
            )
        return made

    def kubectl(self, *arguments: str, given: str = "") -> str:
        return kubectl(self.plane, "-n", self.namespace, *arguments, given=given)

    def apply(self, text: str) -> None:
        self.kubectl("apply", "-f", "-", given=text)

    def delete_pod(self, name: str) -> None:
        """Delete a pod at once, as when no kubelet is there to wait for."""
        self.kubectl("delete", "pod", name, "--force", "--grace-period=0")

    def key(self, pod: str) -> str:
        return f"{self.namespace}/{pod}"

    def until(self, condition: Callable[[], bool], shown: Callable[[], object] = lambda: "") -> None:
        """Return when something holds that nobody tells of."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            logs = "\n".join(agent.log() for agent in self.agents if os.path.exists(f"{agent.root}/mooring.log"))
            assert time.monotonic() < deadline, f"it did not come to pass: {shown()}\n{logs}"
            time.sleep(0.02)

    def close(self) -> None:
        for agent in self.agents:
            agent.kill_all()
        objects = ("pods", "persistentvolumeclaims", "configmaps", "secrets")
        kubectl(self.plane, "-n", self.namespace, "delete", ",".join(objects), "--all", "--force", "--wait=false")
        for agent in self.agents:
            kubectl(self.plane, "delete", "node", agent.name, "--ignore-not-found", "--wait=false")


@pytest.fixture
def cluster(plane: ControlPlane, node_root: str) -> Iterator[Cluster]:
    made = Cluster(plane, Path(node_root))
    yield made
    made.close()


def pod(name: str, node: str, volumes: Mapping[str, str], *, spec: str = "", metadata: str = "") -> str:
    """A pod that is bound to a node, whose one container uses all volumes; no token is added to it."""
    mounts = ", ".join(f"{{name: {each}, mountPath: /{each}}}" for each in volumes)
    sources = "".join(f"  - {{name: {each}, {source}}}\n" for each, source in volumes.items())
    return f"""\
apiVersion: v1
kind: Pod
metadata: {{name: {name}{metadata}}}
spec:
  nodeName: {node}
  terminationGracePeriodSeconds: 0
  automountServiceAccountToken: false
  tolerations: [{{operator: Exists}}]
{spec}
  containers: [{{name: main, image: none, volumeMounts: [{mounts}]}}]
  volumes:
{sources}---
"""


def config_map(name: str, **data: Any) -> str:
    written = ", ".join(f"{key}: '{value}'" for key, value in data.items())
    return f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: {name}}}, data: {{{written}}}}}\n---\n"


def secret(name: str, value: str) -> str:
    return f"{{apiVersion: v1, kind: Secret, metadata: {{name: {name}}}, stringData: {{key: '{value}'}}}}\n---\n"


@contextlib.contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in more}
    os.environ.update(more)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
