"""The daemon is killed before and after every call, and between its own effects: all is well in the end."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.node.csi.conftest import Node
from tests.node.csi.manifests import DRIVER, block_pod, csi_driver, volume
from tests.node.csi.scene import SETTING_UP, TAKING_AWAY, Scene
from tests.node.daemon.conftest import pod

pytestmark = pytest.mark.node


@pytest.mark.parametrize(
    ("block", "forwarded"), [(False, False), (True, True)], ids=["file system, before", "device, after"]
)
def test_a_daemon_killed_around_each_call_goes_on_with_a_pod_that_stays(
    node: Node, block: bool, forwarded: bool
) -> None:
    scene = Scene(node, block)
    scene.prepare()
    scene.want()
    for method in scene.setting_up:
        scene.kill_around(method, scene.start, forwarded=forwarded)
    scene.start()
    scene.until_there()
    for method in scene.taking_away:  # it leaves for a moment only
        scene.kill_around(method, scene.leave, forwarded=forwarded)
        scene.want()
        scene.start()
        scene.until_there()


@pytest.mark.parametrize(
    ("block", "forwarded"), [(False, True), (True, False)], ids=["file system, after", "device, before"]
)
def test_a_daemon_killed_around_each_call_takes_away_what_a_pod_that_left_had(
    node: Node, block: bool, forwarded: bool
) -> None:
    scene = Scene(node, block)
    scene.prepare()
    scene.start()
    for method in scene.setting_up:
        scene.kill_around(method, scene.want, forwarded=forwarded)
        scene.leave()
        scene.start()
        scene.until_gone()
    scene.want()
    scene.until_there()
    first, *others = scene.taking_away
    scene.kill_around(first, scene.leave, forwarded=forwarded)
    for method in others:
        scene.kill_around(method, scene.start, forwarded=forwarded)
    scene.start()
    scene.until_gone()


def test_a_daemon_killed_between_its_own_effects_goes_on(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene(node, block=True)
    scene.prepare()
    scene.want()
    deaths = 0
    for point in ("write_durably:after:3", "bind:after:1"):
        deaths += scene.start_until(node.is_mounted, monkeypatch, point)
    scene.start()
    scene.until_there()
    scene.kill()
    scene.leave()
    for point in ("detach_loop:after:1", "unmount:after:1"):
        deaths += scene.start_until(lambda: node.left() == {}, monkeypatch, point)
    assert deaths == 4
    scene.start()
    scene.until_gone()


def test_a_daemon_killed_while_a_volume_grows_lets_it_grow_to_the_end(node: Node) -> None:
    node.start_behind_proxy()
    node.make("disk")
    text = csi_driver() + volume("disk", block=True) + block_pod("web", "disk")
    file = node.daemon.write("a.yaml", text)
    node.daemon.up("web")
    calls = {"ControllerExpandVolume": True, "NodeExpandVolume": False}
    holds = [node.beside.hold(method, forwarded=forwarded) for method, forwarded in calls.items()]
    file.write_text(text.replace("requests: {storage: 16Mi}", "requests: {storage: 24Mi}"))
    for held in holds:
        held.until_reached()
        node.daemon.end(signal.SIGKILL)
        held.release()
        node.daemon.up()
    node.mounted("web")
    node.until(lambda: node.daemon.json("get", "claims")[0]["capacity"] == "24Mi")
    assert node.daemon.json("get", "claims")[0]["reason"] is None


def test_an_inline_volume_of_a_daemon_that_was_killed_is_taken_away(node: Node) -> None:
    node.start_behind_proxy()
    inline = csi_driver("attachRequired: false, podInfoOnMount: true, volumeLifecycleModes: [Ephemeral]")
    node.daemon.write("a.yaml", inline)
    node.daemon.up()
    for method, forwarded in (("NodePublishVolume", True), ("NodeUnpublishVolume", False)):
        held = node.beside.hold(method, forwarded=forwarded)
        source = f"scratch: csi: {{driver: {DRIVER}, volumeAttributes: {{size: 8Mi}}}}"
        file = node.daemon.write("pod.yaml", pod("web", source))
        if method == "NodeUnpublishVolume":
            node.mounted("web")
            file.unlink()
        held.until_reached()
        node.daemon.end(signal.SIGKILL)
        held.release()
        file.unlink(missing_ok=True)
        node.daemon.up()
        node.until(lambda: node.left() == {}, node.left)
        assert node.driver.disks() == []


def test_down_without_a_daemon_takes_away_what_a_killed_one_left(node: Node) -> None:
    scene = Scene(node)
    scene.prepare()
    scene.want()
    scene.start()
    scene.until_there()
    scene.kill()
    Path(node.daemon.root, "mooring.sock").unlink()
    node.daemon.done("down", "--timeout", "10s")
    assert node.left() == {}
    assert node.beside.changes() == [*SETTING_UP, *TAKING_AWAY]


@pytest.mark.parametrize("wanted", [True, False], ids=["pod stays", "pod leaves"])
def test_after_a_boot_volumes_are_set_up_anew_or_taken_away(node: Node, wanted: bool) -> None:
    scene = Scene(node)
    scene.prepare()
    scene.want()
    scene.start()
    scene.until_there()
    (node.daemon.path("web/data") / "file").write_text("kept")
    scene.kill()
    node.boot("--attach")
    if not wanted:
        scene.leave()
    scene.start()
    if wanted:
        scene.until_there()
        assert (node.daemon.path("web/data") / "file").read_text() == "kept"
    else:
        scene.until_gone()
