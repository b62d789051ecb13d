"""Volumes of a CSI driver from the first pod to the last: every way to use one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from tests.node.csi.conftest import Node
from tests.node.csi.manifests import DRIVER, block_pod, claimed, csi_driver, volume
from tests.node.daemon.conftest import pod

pytestmark = pytest.mark.node

ONE_LIFE = ["NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume", "NodeUnstageVolume"]
INLINE = f"scratch: csi: {{driver: {DRIVER}, volumeAttributes: {{size: 8Mi}}}}"
BOTH_MODES = "attachRequired: false, volumeLifecycleModes: [Persistent, Ephemeral]"
POD_INFO = "csi.storage.k8s.io/"


@pytest.mark.parametrize(("fs_type", "size"), [("ext4", "16Mi"), ("xfs", "320Mi")])
def test_a_file_system_is_staged_published_and_taken_away(node: Node, fs_type: str, size: str) -> None:
    node.start_behind_proxy()
    node.make("data", size=size)
    node.daemon.write("a.yaml", csi_driver() + volume("data", fs_type=fs_type, size=size) + pod("web", claimed("data")))
    node.daemon.up("web")
    path = node.daemon.path("web/data")
    assert f" {path} " in Path("/proc/self/mountinfo").read_text()
    assert len(node.stages()) == 1
    (path / "file").write_text("fits")
    node.down()
    assert node.beside.changes() == ONE_LIFE


def test_a_raw_device_is_mapped_for_a_pod_and_written_to(node: Node) -> None:
    node.start_behind_proxy()
    node.make("disk")
    node.daemon.write("a.yaml", csi_driver() + volume("disk", block=True) + block_pod("web", "disk"))
    node.daemon.up("web")
    path = node.daemon.path("web/disk")
    assert stat.S_ISBLK(path.stat().st_mode)
    descriptor = os.open(path, os.O_WRONLY | os.O_SYNC)
    os.write(descriptor, b"raw")
    os.close(descriptor)
    (seen,) = node.daemon.json("mounts", "web")
    assert seen["container_path"] == "/dev/disk"
    assert seen["device"]["minor"] == os.minor(path.stat().st_rdev)
    (staged,) = node.beside.calls("NodeStageVolume")
    assert "block" in staged.request["volume_capability"]
    node.down()
    assert node.beside.changes() == ONE_LIFE
    (disk,) = Path(node.driver.state, "disks").iterdir()
    assert disk.read_bytes()[:3] == b"raw"


def test_an_inline_volume_lives_as_long_as_its_pod(node: Node) -> None:
    node.start_behind_proxy()
    file = node.daemon.write("a.yaml", csi_driver(f"{BOTH_MODES}, podInfoOnMount: true") + pod("web", INLINE))
    node.daemon.up("web")
    (node.daemon.path("web/scratch") / "file").write_text("gone soon")
    (published,) = node.beside.calls("NodePublishVolume")
    assert published.request["volume_id"].startswith("csi-")
    assert published.request["volume_context"][f"{POD_INFO}ephemeral"] == "true"
    assert "staging_target_path" not in published.request
    file.write_text(csi_driver(BOTH_MODES))
    node.gone("web")
    assert node.beside.changes() == ["NodePublishVolume", "NodeUnpublishVolume"]
    assert node.driver.disks() == []


def test_a_driver_that_does_not_serve_inline_volumes_is_never_asked_for_one(node: Node) -> None:
    node.start_behind_proxy()
    node.daemon.write("a.yaml", csi_driver() + pod("web", INLINE))
    node.daemon.up()
    row = node.until_reason("web/scratch", "does not serve volumes of mode 'Ephemeral'")
    assert row["next_step"] == f"List the mode in the CSIDriver object {DRIVER!r}"
    assert node.beside.changes(failed=True) == []
    node.daemon.write("a.yaml", csi_driver(f"{BOTH_MODES}, podInfoOnMount: true") + pod("web", INLINE))
    node.mounted("web")  # the object says so now, and that wakes it


def test_two_pods_share_a_volume_that_is_staged_once(node: Node) -> None:
    node.start_behind_proxy()
    node.make("data")
    node.daemon.write("a.yaml", csi_driver() + volume("data"))
    one, two = (node.daemon.write(f"{name}.yaml", pod(name, claimed("data"))) for name in ("one", "two"))
    node.daemon.up("one", "two")
    (node.daemon.path("one/data") / "file").write_text("shared")
    assert (node.daemon.path("two/data") / "file").read_text() == "shared"
    one.unlink()
    node.gone("one")
    node.until(lambda: "NodeUnpublishVolume" in node.beside.changes())
    assert len(node.stages()) == 1
    assert (node.daemon.path("two/data") / "file").read_text() == "shared"
    two.unlink()
    node.gone("two")
    node.until(lambda: node.left() == {})
    assert node.beside.changes() == [
        "NodeStageVolume",
        *["NodePublishVolume"] * 2,
        *["NodeUnpublishVolume"] * 2,
        "NodeUnstageVolume",
    ]


def test_a_claim_that_is_used_for_reading_cannot_be_written_to(node: Node) -> None:
    node.start_behind_proxy()
    node.make("data")
    objects = csi_driver() + volume("data") + pod("reader", claimed("data", read_only=True))
    node.daemon.write("a.yaml", objects + pod("writer", claimed("data")))
    node.daemon.up("reader", "writer")
    (node.daemon.path("writer/data") / "file").write_text("seen")
    assert (node.daemon.path("reader/data") / "file").read_text() == "seen"
    with pytest.raises(OSError, match="Read-only"):
        (node.daemon.path("reader/data") / "other").touch()
    asked = {call.request["target_path"]: call.request for call in node.beside.calls("NodePublishVolume")}
    assert asked[str(node.daemon.path("reader/data"))]["readonly"] is True
    assert "readonly" not in asked[str(node.daemon.path("writer/data"))]


def test_the_policy_of_a_driver_says_which_volumes_are_given_to_a_group(node: Node) -> None:
    node.start_driver()
    node.make("typed", "plain")
    node.daemon.write("a.yaml", volume("typed") + volume("plain", fs_type=""))
    node.daemon.up()
    steps: dict[str, set[str]] = {"None": set(), "ReadWriteOnceWithFSType": {"typed"}, "File": {"typed", "plain"}}
    for number, (policy, given) in enumerate(steps.items(), 1):
        node.daemon.done("apply", "-f", node.aside(csi_driver(f"attachRequired: false, fsGroupPolicy: {policy}")))
        name, group = f"web-{number}", 1233 + number
        web = pod(name, claimed("typed"), claimed("plain"), spec=f"  securityContext: {{fsGroup: {group}}}")
        file = node.daemon.write("pod.yaml", web)
        node.mounted(name)
        groups = {each: node.daemon.path(f"{name}/{each}").stat().st_gid for each in ("typed", "plain")}
        assert {each for each, found in groups.items() if found == group} == given
        file.unlink()
        node.gone(name)


def test_a_container_may_see_a_directory_of_a_volume_only(node: Node) -> None:
    node.start_driver()
    node.make("data")
    web = pod("web", claimed("data")).replace("mountPath: /data", "mountPath: /data, subPath: inner/deep")
    node.daemon.write("a.yaml", csi_driver() + volume("data") + web)
    node.daemon.up("web")
    (seen,) = node.daemon.json("mounts", "web")
    Path(seen["host_path"], "file").write_text("deep")
    assert (node.daemon.path("web/data") / "inner/deep/file").read_text() == "deep"


def test_a_driver_is_told_of_the_pod_if_it_asks(node: Node) -> None:
    node.start_behind_proxy()
    node.make("data")
    node.daemon.write("a.yaml", volume("data", more=", volumeAttributes: {colour: blue}"))
    node.daemon.up()
    plain, about_pod, told = {"colour": "blue"}, {}, []
    for name, asks in (("one", "true"), ("two", "false")):
        node.daemon.done("apply", "-f", node.aside(csi_driver(f"attachRequired: false, podInfoOnMount: {asks}")))
        file = node.daemon.write("pod.yaml", pod(name, claimed("data"), spec="  serviceAccountName: robot"))
        node.mounted(name)
        told.append(node.beside.calls("NodePublishVolume")[-1].request["volume_context"])
        about_pod[name] = {
            f"{POD_INFO}pod.name": name,
            f"{POD_INFO}pod.namespace": "default",
            f"{POD_INFO}pod.uid": node.row(f"{name}/data")["pod_uid"],
            f"{POD_INFO}serviceAccount.name": "robot",
            f"{POD_INFO}ephemeral": "false",
        }
        file.unlink()
        node.gone(name)
    assert told == [plain | about_pod["one"], plain]
    assert all(each.request["volume_context"] == plain for each in node.beside.calls("NodeStageVolume"))
