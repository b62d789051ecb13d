"""The same manifests in a cluster and on one machine: the same trees, mounts and causes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from bench.compare import daemon as one_machine
from bench.compare.corpus import Manifest, read_corpus
from bench.compare.differences import Allowed, differences, judged
from bench.compare.machine import fresh_machine, missing
from bench.compare.seen import Fact, Run, facts_of
from rig import control_plane
from rig.control_plane import MANAGER, SERVER, ControlPlane
from tests.cluster import corpus_in_cluster
from tests.cluster.conftest import Strangers

pytestmark = pytest.mark.cluster

# What the cluster makes otherwise, and not its node: in which manifest, of what, and why.
OTHERWISE = (
    ("claims/ephemeral", "*", "an API server gives UIDs itself, and refuses a pod that has one"),
    ("claims/volume-of-former-claim", "pod app cause", "the cluster's binder says of the claim that it is lost"),
    ("csi/attached", "*", "nobody attaches volumes of this driver here"),
    ("csi/not-attached", "pod app cause", "a node of a cluster waits for its status to list the volume"),
    ("csi/undescribed", "*", "without a CSIDriver object a cluster takes every driver for one that attaches"),
    ("csi/inline*", "node/pods/<app>/volumes/kubernetes.io~csi/data/*", "its handle comes from the pod's UID"),
    ("-", "*drivers/csi/plain.example/csi-*", "the handle of an inline volume comes from the pod's UID"),
    ("-", "*node/plugins/kubernetes.io/csi/attaching.example type", "nobody attaches volumes of this driver here"),
    ("-", "*node/plugins/kubernetes.io/csi/undescribed.example type", "it is taken for one that attaches"),
    ("-", "*claimed/*", "some of these claims are not bound in a cluster, and nothing is made for them"),
    ("downward-api/*", "*/uid sha256", "an API server gives UIDs itself"),
    ("downward-api/odd-annotations", "*", "an API server refuses such annotations"),
    ("elsewhere/cloud-disk", "pod app cause", "a node of a cluster waits for its status to list the volume"),
    ("*", "*kubernetes.io~projected/*token sha256", "tokens are signed by somebody else"),
    ("*", "*kubernetes.io~projected/*token size", "tokens are signed by somebody else"),
    ("updates/optional-vanishes", "*", "what an edit leaves out stays in a cluster until somebody deletes it"),
    ("updates/pod-removed", "*", "what an edit leaves out stays in a cluster until somebody deletes it"),
)


@pytest.fixture
def plane(strangers: Strangers) -> Iterator[ControlPlane]:
    """A control plane of its own: the corpus has the names of its nodes and volumes written down."""
    for name in (*control_plane.PROGRAMS, "kubectl"):
        strangers(name)
    flags = ["--feature-gates=ClusterTrustBundle=true,ClusterTrustBundleProjection=true"]
    flags += ["--runtime-config=certificates.k8s.io/v1beta1/clustertrustbundles=true"]
    with asyncio.Runner() as runner:
        running = control_plane.running(more={SERVER: flags, MANAGER: ["--pvclaimbinder-sync-period=1s"]})
        yield runner.run(running.__aenter__())
        runner.run(running.__aexit__(None, None, None))


@pytest.mark.usefixtures("node_root")
def test_a_node_of_a_cluster_makes_of_manifests_what_one_machine_makes_of_them(
    plane: ControlPlane, strangers: Strangers, tmp_path: Path
) -> None:
    if lacking := missing():
        pytest.skip(f"needs {lacking}")
    manifests, peer = read_corpus(), strangers("kubelet-peer")
    with fresh_machine(peer) as sockets:
        alone = _facts(one_machine.run(sockets, manifests, _made(tmp_path / "alone")), manifests)
    with fresh_machine(peer) as sockets:
        clustered = _facts(corpus_in_cluster.run(plane, sockets, manifests, _made(tmp_path / "cluster")), manifests)
    allowed = [
        Allowed(manifest=manifest, where=where, kubelet="*", mooring="*", reason=why)
        for manifest, where, why in OTHERWISE
    ]
    verdict = judged(differences(alone, clustered), allowed)
    shown = "\n".join(map(str, verdict.unexpected))
    assert not verdict.unexpected, f"one machine stands as the kubelet here, and the cluster as mooring:\n{shown}"
    assert not verdict.unused
    assert len(clustered) > 10_000


def _made(directory: Path) -> Path:
    directory.mkdir()
    return directory


def _facts(stages: Run, manifests: list[Manifest]) -> dict[Fact, str]:
    uids: dict[str, str] = {}
    found: dict[Fact, str] = {}
    with closing(stages):
        for seen in stages:
            uids |= {pod.uid: f"{pod.namespace}/{pod.name}" for pod in seen.pods}
            found |= facts_of(seen, manifests, uids)
    return {fact: value for fact, value in found.items() if fact.field != "refused"}  # kubectl is told, not the node
