"""Volumes that must be attached before they are staged: by others, by mooring, to the limit, and detached last."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from grpc import StatusCode
from tests.node.csi.conftest import NODE_NAME, Node
from tests.node.csi.manifests import DRIVER, block_pod, claimed, csi_driver, volume
from tests.node.daemon.conftest import pod

from mooring.csi.names import Identity, attachment_name
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import VOLUME_ATTACHMENT
from mooring.loop_driver.volumes import volume_id

pytestmark = pytest.mark.node

NEEDS_IT = csi_driver("attachRequired: true")
WHOLE_LIFE = [
    "ControllerPublishVolume",
    "NodeStageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
    "ControllerUnpublishVolume",
]


def name_for(volume_name: str) -> str:
    return attachment_name(Identity(driver=DRIVER, handle=volume_id(volume_name)), NODE_NAME)


def apply_attachment(node: Node, volume_name: str, status: dict[str, Any]) -> None:
    """Tell, as an attacher does, how far a volume is."""
    told = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": name_for(volume_name)},
        "spec": {"attacher": DRIVER, "nodeName": NODE_NAME, "source": {"persistentVolumeName": volume_name}},
        "status": status,
    }
    node.daemon.done("apply", "-f", node.aside(json.dumps(told)))


def attachments(node: Node) -> list[str]:
    """Names of the VolumeAttachments that a daemon which has ended left."""

    async def look() -> list[str]:
        store = LocalStore(f"{node.daemon.root}/store/objects.db")
        found = await store.list(VOLUME_ATTACHMENT)
        return [each.metadata.name for each in found.items]

    return asyncio.run(look())


def test_a_volume_that_others_attach_is_awaited_and_staged_with_what_they_say(node: Node) -> None:
    node.waits_for_events_only()
    node.set(attach="external")
    node.start_behind_proxy()
    node.make("data")
    node.daemon.write("a.yaml", NEEDS_IT + volume("data") + pod("web", claimed("data")))
    node.daemon.up()
    row = node.until_reason("web/data", f"there is no VolumeAttachment {name_for('data')!r} yet")
    assert "set `attach` to `local`" in row["next_step"]
    apply_attachment(node, "data", {"attached": False})
    node.until_reason("web/data", "is not attached yet")
    apply_attachment(node, "data", {"attached": False, "attachError": {"message": "the cable is loose"}})
    node.until_reason("web/data", "the cable is loose")
    assert node.beside.changes(failed=True) == []
    apply_attachment(node, "data", {"attached": True, "attachmentMetadata": {"lun": "7"}})
    node.mounted("web")
    for method in ("NodeStageVolume", "NodePublishVolume"):
        (asked,) = node.beside.calls(method)
        assert asked.request["publish_context"] == {"lun": "7"}
    node.down()
    assert node.beside.changes() == WHOLE_LIFE[1:-1]
    assert attachments(node) == [name_for("data")]  # it is others' to take back


@pytest.mark.parametrize("block", [False, True], ids=["file system", "device"])
def test_mooring_attaches_first_and_detaches_last_if_it_is_told_to(node: Node, block: bool) -> None:
    node.set(attach="local")
    node.start_behind_proxy("--attach")
    node.make("data")
    web = block_pod("web", "data") if block else pod("web", claimed("data"))
    node.daemon.write("a.yaml", NEEDS_IT + volume("data", block=block) + web)
    node.daemon.up("web")
    (attached,) = node.beside.calls("ControllerPublishVolume")
    assert (attached.request["volume_id"], attached.request["node_id"]) == (volume_id("data"), "here")
    assert attached.response is not None
    for method in ("NodeStageVolume", "NodePublishVolume"):
        (asked,) = node.beside.calls(method)
        assert asked.request["publish_context"] == attached.response["publish_context"]
    node.down()
    assert node.beside.changes(failed=True) == WHOLE_LIFE
    assert attachments(node) == []


def test_a_volume_beyond_the_limit_says_so_and_is_attached_when_another_leaves(node: Node) -> None:
    node.set(attach="local")
    node.start_behind_proxy("--attach", "--max-volumes", "1")
    node.make("one", "two")
    node.daemon.write("a.yaml", NEEDS_IT + volume("one") + volume("two"))
    first = node.daemon.write("one.yaml", pod("one", claimed("one")))
    node.daemon.up("one")
    assert node.driver_row()["max_volumes"] == 1
    node.daemon.write("two.yaml", pod("two", claimed("two")))
    words = f"attach limit exceeded: this node cannot have more volumes of {DRIVER!r}"
    row = node.until_reason("two/two", words)
    assert "may have no more" in row["reason"]
    assert words in node.daemon.json("explain", "two")["cause"]
    first.unlink()
    node.mounted("two")


@pytest.mark.parametrize("attaches", [False, True], ids=["cannot attach", "can attach"])
def test_of_a_driver_without_an_object_it_is_asked_whether_it_attaches(node: Node, attaches: bool) -> None:
    node.start_behind_proxy(*(["--attach"] if attaches else []))
    node.make("data")
    node.daemon.write("a.yaml", volume("data") + pod("web", claimed("data")))
    node.daemon.up()
    if attaches:
        node.until_reason("web/data", f"there is no VolumeAttachment {name_for('data')!r} yet")
        assert node.beside.changes(failed=True) == []
    else:
        node.mounted("web")
        node.down()
        assert node.beside.changes() == WHOLE_LIFE[1:-1]
        assert attachments(node) == []


def test_a_driver_that_cannot_attach_has_its_volumes_attached_by_saying_so(node: Node) -> None:
    node.set(attach="local")
    node.start_behind_proxy()
    node.make("data")
    node.daemon.write("a.yaml", volume("data") + pod("web", claimed("data")))
    node.daemon.up("web")
    node.down()
    assert node.beside.changes() == WHOLE_LIFE[1:-1]
    assert attachments(node) == []


def test_a_volume_that_cannot_be_detached_is_kept_until_it_can(node: Node) -> None:
    node.set(attach="local")
    node.start_behind_proxy("--attach")
    node.make("data")
    node.daemon.write("a.yaml", NEEDS_IT + volume("data") + pod("web", claimed("data")))
    node.daemon.up("web")
    node.beside.fail("ControllerUnpublishVolume", StatusCode.INTERNAL, "the crane is broken")
    ended = node.daemon.run("down", "--timeout", "1s")
    assert ended.status == 1
    assert "the crane is broken" in ended.err
    node.beside.forward("ControllerUnpublishVolume")
    node.down()
    assert attachments(node) == []
