"""A hundred volumes of one driver at once."""

from __future__ import annotations

import pytest
from grpc import StatusCode
from tests.node.csi.conftest import Node
from tests.node.csi.manifests import claimed, csi_driver, volume
from tests.node.daemon.conftest import pod

pytestmark = pytest.mark.node

PODS, VOLUMES = 10, 10


def test_a_hundred_volumes_come_and_go_together(node: Node) -> None:
    names = {f"pod-{i}": [f"data-{i}-{j}" for j in range(VOLUMES)] for i in range(PODS)}
    every = [name for of_pod in names.values() for name in of_pod]
    node.start_behind_proxy()
    node.make(*every, size="4Mi")
    node.daemon.write("a.yaml", csi_driver() + "".join(volume(name, size="4Mi") for name in every))
    pods = "".join(pod(name, *map(claimed, of_pod)) for name, of_pod in names.items())
    file = node.daemon.write("pods.yaml", pods)
    node.daemon.done("up", node.daemon.manifests, "--detach")
    for name in names:
        node.daemon.done("wait", name, "--timeout", "60s")
    assert len(node.stages()) == len(node.driver.loops()) == PODS * VOLUMES
    file.unlink()
    for name in names:
        node.daemon.done("wait", name, "--for", "unmounted", "--timeout", "60s")
    pid = node.daemon.pid
    node.daemon.done("down", "--timeout", "60s")
    node.daemon.ended(pid)
    assert node.left() == {}
    done = [call.method for call in node.beside.calls() if call.code is StatusCode.OK]
    for method in ("NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"):
        assert done.count(method) == PODS * VOLUMES
