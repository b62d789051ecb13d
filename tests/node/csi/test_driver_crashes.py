"""Drivers die between effect and answer, and are gone when they are needed: they are asked again when they are back."""

from __future__ import annotations

import signal
from collections.abc import Callable

import pytest
from tests.node.csi.conftest import Node
from tests.node.csi.manifests import DRIVER, block_pod, claimed, csi_driver, volume
from tests.node.csi.scene import Scene
from tests.node.daemon.conftest import pod

from mooring.testing.scripted_csi_driver import Answer

pytestmark = pytest.mark.node

DIES = Answer(dies=True)


@pytest.mark.parametrize("block", [False, True], ids=["file system", "device"])
def test_a_connection_that_breaks_after_each_effect_is_made_again(node: Node, block: bool) -> None:
    scene = Scene(node, block)
    scene.prepare()
    for method in (*scene.setting_up, *scene.taking_away):
        node.beside.answer(method, DIES)
    scene.start()
    scene.want()
    scene.until_there()
    scene.leave()
    scene.until_gone()
    tried = node.beside.changes(failed=True)
    assert all(tried.count(method) >= 2 for method in (*scene.setting_up, *scene.taking_away))
    assert node.attached() == []


def test_a_driver_killed_after_each_effect_is_asked_again_when_it_is_back(node: Node) -> None:
    scene = Scene(node)
    scene.prepare()
    scene.start()

    def killed_after(method: str, change: Callable[[], None]) -> None:
        held = node.beside.hold(method, forwarded=True, dies=True)
        change()
        held.until_reached()
        node.driver.end(signal.SIGKILL)
        held.release()
        node.driver.start("--attach")

    for method in scene.setting_up:
        killed_after(method, scene.want)
        scene.until_there()
        scene.leave()
        scene.until_gone()
    for method in scene.taking_away:
        scene.want()
        scene.until_there()
        killed_after(method, scene.leave)
        scene.until_gone()


def test_growing_is_asked_for_again_when_the_answer_was_lost(node: Node) -> None:
    node.start_behind_proxy()
    node.make("disk")
    text = csi_driver() + volume("disk", block=True) + block_pod("web", "disk")
    file = node.daemon.write("a.yaml", text)
    node.daemon.up("web")
    for method in ("ControllerExpandVolume", "NodeExpandVolume"):
        node.beside.answer(method, DIES)
    file.write_text(text.replace("requests: {storage: 16Mi}", "requests: {storage: 24Mi}"))
    node.until(lambda: node.daemon.json("get", "claims")[0]["capacity"] == "24Mi")
    assert node.daemon.json("get", "claims")[0]["reason"] is None
    assert node.row("web/disk")["state"] == "mounted"


@pytest.mark.parametrize("step", ["published", "staged"])
def test_what_a_driver_that_is_gone_holds_waits_for_it_with_a_reason(node: Node, step: str) -> None:
    node.waits_for_events_only()
    node.start_behind_proxy()
    node.make("data")
    node.daemon.write("a.yaml", csi_driver() + volume("data"))
    file = node.daemon.write("pod.yaml", pod("web", claimed("data")))
    node.daemon.up("web")
    if step == "staged":
        held = node.beside.hold("NodeUnstageVolume", forwarded=False)
        file.unlink()
        held.until_reached()
    node.daemon.end(signal.SIGKILL)
    assert node.registrar is not None
    node.beside.unregister(node.registrar)
    file.unlink(missing_ok=True)
    node.daemon.up()
    words = f"it waits for driver {DRIVER!r} to register"
    if step == "published":
        row = node.until_reason("web/data", words)
        assert row["next_step"] == "Start the driver; registered are: none"
        assert row["path"] is not None
    else:
        node.until(lambda: words in str(node.daemon.json("get", "findings")))
        (finding,) = node.daemon.json("get", "findings")
        assert finding["what"].startswith("volume 'data' is still staged, although no pod uses it: ")
        held.release()
    ended = node.daemon.run("down", "--timeout", "1s")
    assert (ended.status, words in ended.err) == (1, True)
    pid = node.daemon.pid
    node.beside.register(DRIVER)
    node.until(lambda: node.left() == {}, node.left)
    node.daemon.done("down", "--timeout", "10s")
    node.daemon.ended(pid)
