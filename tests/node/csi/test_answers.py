"""Drivers that answer late, wrongly, or that they know nothing: volumes come and go all the same, with reasons."""

from __future__ import annotations

from typing import cast

import pytest
from grpc import StatusCode
from tests.node.csi.conftest import Node
from tests.node.csi.manifests import block_pod, claimed, csi_driver, volume
from tests.node.daemon.conftest import pod

from mooring.host.linux import LinuxHost
from mooring.testing.memory_host import MemoryHost
from mooring.testing.scripted_csi_driver import Answer, ScriptedCSIDriver

pytestmark = pytest.mark.node

SETTING_UP = ["ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume"]
TAKING_AWAY = ["NodeUnpublishVolume", "NodeUnstageVolume", "ControllerUnpublishVolume"]
WRONG = [StatusCode.INTERNAL, StatusCode.UNKNOWN, StatusCode.ABORTED, StatusCode.RESOURCE_EXHAUSTED]


def prepare(node: Node, *, block: bool = False) -> None:
    node.set(attach="local")
    node.start_behind_proxy("--attach")
    node.make("data")
    node.daemon.write("a.yaml", csi_driver("attachRequired: true") + volume("data", block=block))


@pytest.mark.parametrize("block", [False, True], ids=["file system", "device"])
def test_wrong_codes_are_outlived_whether_it_happened_or_not(node: Node, block: bool) -> None:
    prepare(node, block=block)
    for method in (*SETTING_UP, *TAKING_AWAY):
        for happens in (False, True):
            node.beside.answer(method, *(Answer(code=code, words="oh no", happens=happens) for code in WRONG))
    file = node.daemon.write("pod.yaml", block_pod("web", "data") if block else pod("web", claimed("data")))
    node.daemon.up("web")
    file.unlink()
    node.until(lambda: node.left() == {}, node.left)
    tried = node.beside.changes(failed=True)
    assert {method: tried.count(method) for method in TAKING_AWAY} == dict.fromkeys(TAKING_AWAY, 9)
    assert all(tried.count(method) >= 9 for method in SETTING_UP)
    assert node.attached() == []


def test_answers_that_come_too_late_are_asked_for_again(node: Node) -> None:
    node.set(csi_timeout="500ms")
    prepare(node)
    held = [node.beside.hold(method, forwarded=True) for method in (*SETTING_UP, *TAKING_AWAY)]
    file = node.daemon.write("pod.yaml", pod("web", claimed("data")))
    node.daemon.up("web")
    events = [row["message"] for row in node.daemon.json("get", "events")]
    assert any("DEADLINE_EXCEEDED" in message for message in events)
    file.unlink()
    node.until(lambda: node.left() == {}, node.left)
    assert node.attached() == []
    for each in held:
        each.release()


@pytest.mark.parametrize("method", ["NodeUnpublishVolume", "NodeUnstageVolume"])
def test_a_volume_that_its_driver_does_not_know_stays_with_a_reason_until_it_does(node: Node, method: str) -> None:
    node.start_behind_proxy()
    node.make("data")
    node.daemon.write("a.yaml", csi_driver() + volume("data"))
    file = node.daemon.write("pod.yaml", pod("web", claimed("data")))
    node.daemon.up("web")
    path, words = node.daemon.path("web/data"), "NOT_FOUND: which volume"
    node.beside.fail(method, StatusCode.NOT_FOUND, "which volume?")
    file.unlink()
    if method == "NodeUnpublishVolume":
        row = node.until_reason("web/data", words)
        assert (row["path"], row["state"]) == (str(path), "uncertain")
        assert str(path) in node.daemon.mounts()
    else:
        node.until(lambda: words in str(node.daemon.json("get", "findings")))
        (finding,) = node.daemon.json("get", "findings")
        assert finding["where"] == node.stages()[0]
        assert finding["what"].startswith("volume 'data' is still staged, although no pod uses it: ")
    ended = node.daemon.run("down", "--timeout", "1s")
    assert ended.status == 1
    assert words in ended.err
    node.beside.forward(method)
    node.until(lambda: node.left() == {}, node.left)
    assert node.daemon.json("get", "findings") == []


def test_a_driver_without_any_capability_is_asked_to_publish_only(node: Node) -> None:
    host = cast(MemoryHost, LinuxHost())  # it does to a machine what it is asked, and here is a real one
    driver = ScriptedCSIDriver(host, f"{node.driver.registry}/../bare", name="bare.csi.test", abilities=())
    node.beside.serve_scripted(driver)
    objects = volume("data", driver=driver.name) + pod("web", claimed("data")) + pod("other", claimed("data"))
    node.daemon.write("a.yaml", objects)
    node.daemon.up("web", "other")
    (row,) = node.daemon.json("get", "drivers")
    assert row["capabilities"] == []
    assert node.stages() == []
    node.down()
    assert driver.methods() == ["NodePublishVolume", "NodeUnpublishVolume"]


def test_a_driver_that_cannot_say_at_first_what_it_can_do_is_asked_again(node: Node) -> None:
    node.start_behind_proxy()
    node.make("data")
    questions = ("GetPluginCapabilities", "ControllerGetCapabilities", "NodeGetCapabilities")
    for method in questions:
        node.beside.fail(method, StatusCode.UNAVAILABLE, f"no {method} yet")
    node.daemon.write("a.yaml", volume("data") + pod("web", claimed("data")))
    node.daemon.up()
    for method in questions:
        node.until_reason("web/data", f"no {method} yet")
        assert node.beside.changes(failed=True) == []
        node.beside.forward(method)
    node.mounted("web")
