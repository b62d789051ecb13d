"""The manifests of `bench/compare/corpus` on a node of a cluster: applied with kubectl, served by `mooring agent`."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.compare.corpus import NODE, Manifest, write_manifests
from bench.compare.daemon import Daemon
from bench.compare.seen import Run, Seen, Stage
from bench.compare.trees import entries, settled
from rig.control_plane import BINARIES, ControlPlane
from tests.cluster.conftest import kubectl

_PATIENCE = 60.0
_PAUSE = 0.2
_ASKING = 5.0
"""Seconds in which the agent asks again, at least twice, for every claim and volume that it waits for."""
_BINDING = 2.5
"""Seconds in which the binder looks at every claim again at least once."""
_POD = re.compile(r"^kind: Pod$", re.MULTILINE)
_SPEC = re.compile(r"^spec:$", re.MULTILINE)
_NAMESPACE = re.compile(r"^  namespace: (\S+)$", re.MULTILINE)
_DIVIDER = re.compile(r"^---\n", re.MULTILINE)
_ENDED = ("Succeeded", "Failed")
_RUNTIME_CLASS = """\
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: sandboxed}
handler: sandboxed
overhead: {podFixed: {memory: 8Mi}}
"""


def run(plane: ControlPlane, sockets: Mapping[str, Path], manifests: Sequence[Manifest], directory: Path) -> Run:
    """What an agent makes of the manifests at each stage, as `bench.compare.daemon` tells it of one machine."""
    daemon = Daemon(sockets)
    kubectl(plane, "apply", "-f", "-", given=_RUNTIME_CLASS)
    with ExitStack() as undo:
        _write(manifests, directory, edited=False)
        _make_namespaces(plane, directory)
        _apply(plane, directory)
        daemon.call("agent", "--kubeconfig", plane.node_kubeconfig(NODE), "--node", NODE, "--detach")
        undo.callback(daemon.down)
        yield _seen(daemon, plane, Stage.FIRST)
        _write(manifests, directory, edited=True)
        _apply(plane, directory)
        yield _seen(daemon, plane, Stage.EDITED)
        kubectl(plane, "delete", "pods", "--all-namespaces", "--all", "--force", "--grace-period=0", "--wait=false")
        _until(lambda: not daemon.get("pods"))
    yield settled(lambda: Seen(stage=Stage.LEFT, entries=entries()))


def _write(manifests: Sequence[Manifest], directory: Path, *, edited: bool) -> None:
    """Write the manifests with their pods bound to the node: nobody schedules here."""
    write_manifests(manifests, directory, edited=edited)
    for file in directory.glob("*.yaml"):
        file.write_text("---\n".join(map(_bound, _DIVIDER.split(file.read_text(encoding="utf-8")))), encoding="utf-8")


def _bound(document: str) -> str:
    if not _POD.search(document):
        return document
    return _SPEC.sub(f"spec:\n  nodeName: {NODE}\n  tolerations: [{{operator: Exists}}]", document, count=1)


def _make_namespaces(plane: ControlPlane, directory: Path) -> None:
    """Each with an account that mounts no token by itself, as pods on one machine have none."""
    names = {name for file in directory.glob("*.yaml") for name in _NAMESPACE.findall(file.read_text(encoding="utf-8"))}
    texts = (f"{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}" for name in sorted(names))
    kubectl(plane, "apply", "-f", "-", given="\n---\n".join(texts))
    accounts = (
        "{apiVersion: v1, kind: ServiceAccount, automountServiceAccountToken: false,"
        f" metadata: {{name: default, namespace: {name}}}}}"
        for name in sorted(names)
    )
    kubectl(plane, "apply", "--server-side", "--force-conflicts", "-f", "-", given="\n---\n".join(accounts))


def _apply(plane: ControlPlane, directory: Path) -> None:
    """Apply all that the server takes. On the server's side, so that no annotation is added."""
    command = [str(BINARIES / "kubectl"), "--kubeconfig", str(plane.kubeconfig), "apply", "--server-side"]
    subprocess.run([*command, "--force-conflicts", "-f", str(directory)], capture_output=True, check=False)


def _seen(daemon: Daemon, plane: ControlPlane, stage: Stage) -> Seen:
    """What there is when the agent knows all pods of its node, and nothing changes any more."""
    _until(lambda: {row["pod"] for row in daemon.get("pods")} == set(_pods(plane)))
    _until(lambda: _phases(plane) == _after(_BINDING, lambda: _phases(plane)))
    time.sleep(_ASKING)
    return settled(lambda: daemon.look(stage))


def _phases(plane: ControlPlane) -> str:
    """What the binder has made of all claims."""
    shown = "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name} {.status.phase}{'\\n'}{end}"
    return kubectl(plane, "get", "persistentvolumeclaims", "--all-namespaces", "-o", shown)


def _after(seconds: float, look: Callable[[], str]) -> str:
    time.sleep(seconds)
    return look()


def _pods(plane: ControlPlane) -> Iterator[str]:
    for pod in json.loads(kubectl(plane, "get", "pods", "--all-namespaces", "-o", "json"))["items"]:
        if pod["spec"].get("nodeName") == NODE and pod["status"].get("phase") not in _ENDED:
            yield f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("the agent did not come to rest")
        time.sleep(_PAUSE)
