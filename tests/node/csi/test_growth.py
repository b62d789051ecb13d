"""Claims that ask for more: online, as devices, before they are used, and refused."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from grpc import StatusCode
from tests.node.csi.conftest import Node
from tests.node.csi.manifests import block_pod, claimed, csi_driver, volume
from tests.node.daemon.conftest import pod

pytestmark = pytest.mark.node

MEBIBYTE = 1 << 20


def claim(node: Node) -> dict[str, Any]:
    (row,) = node.daemon.json("get", "claims")
    found: dict[str, Any] = row
    return found


def until_claimed(node: Node, capacity: str) -> None:
    node.until(lambda: claim(node)["capacity"] == capacity, lambda: claim(node))


def ask_for(file: Path, before: str, after: str) -> None:
    """Edit the claim of a manifest, and leave its PersistentVolume as it was."""
    text = file.read_text()
    asked = f"requests: {{storage: {before}}}"
    assert asked in text
    file.write_text(text.replace(asked, asked.replace(before, after)))


def size_of(path: Path) -> int:
    found = os.statvfs(path)
    return found.f_blocks * found.f_frsize


@contextmanager
def opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def device_size(path: Path) -> int:
    with opened(path) as descriptor:
        return os.lseek(descriptor, 0, os.SEEK_END)


def test_a_file_system_grows_while_it_is_used_and_only_once(node: Node) -> None:
    node.start_behind_proxy()
    node.make("data", size="320Mi")
    objects = csi_driver() + volume("data", fs_type="xfs", size="320Mi") + pod("web", claimed("data"))
    file = node.daemon.write("a.yaml", objects)
    node.daemon.up("web")
    path, mounts = node.daemon.path("web/data"), node.daemon.mounts()
    before = size_of(path)
    with (path / "file").open("w") as busy:
        ask_for(file, "320Mi", "400Mi")
        until_claimed(node, "400Mi")
        busy.write("still here")
    assert size_of(path) - before > 60 * MEBIBYTE
    assert node.daemon.mounts() == mounts
    (asked,) = node.beside.calls("NodeExpandVolume")
    assert asked.request["volume_path"] == str(path)
    assert asked.request["staging_target_path"] == node.stages()[0]
    assert int(asked.request["capacity_range"]["required_bytes"]) == 400 * MEBIBYTE
    file.write_text(f"{file.read_text()}\n# read again, with the smaller PersistentVolume in it\n")
    node.daemon.write("b.yaml", pod("other", "v: emptyDir: {}"))
    node.mounted("other")
    pid = node.daemon.pid
    node.daemon.done("down", "--timeout", "10s")
    node.daemon.ended(pid)
    node.daemon.up("web")
    assert claim(node)["capacity"] == "400Mi"
    assert size_of(node.daemon.path("web/data")) - before > 60 * MEBIBYTE
    assert len(node.beside.calls("ControllerExpandVolume")) == 1


def test_a_raw_device_grows_while_it_is_used(node: Node) -> None:
    node.start_behind_proxy()
    node.make("disk")
    file = node.daemon.write("a.yaml", csi_driver() + volume("disk", block=True) + block_pod("web", "disk"))
    node.daemon.up("web")
    path = node.daemon.path("web/disk")
    assert device_size(path) == 16 * MEBIBYTE
    ask_for(file, "16Mi", "24Mi")
    until_claimed(node, "24Mi")
    node.until(lambda: device_size(path) == 24 * MEBIBYTE)


def test_a_volume_that_grew_while_no_pod_used_it_is_brought_to_its_size_before_one_does(node: Node) -> None:
    node.start_behind_proxy()
    node.make("data", size="320Mi")
    file = node.daemon.write("a.yaml", csi_driver() + volume("data", fs_type="xfs", size="320Mi"))
    node.daemon.up()
    node.until(lambda: claim(node)["phase"] == "Bound")
    ask_for(file, "320Mi", "400Mi")
    node.until(lambda: bool(node.beside.calls("ControllerExpandVolume")))
    node.daemon.write("b.yaml", pod("web", claimed("data")))
    node.mounted("web")
    assert size_of(node.daemon.path("web/data")) > 300 * MEBIBYTE
    until_claimed(node, "400Mi")


def test_a_volume_that_cannot_grow_while_it_is_used_stays_as_it_is_and_its_claim_tells(node: Node) -> None:
    node.start_behind_proxy()
    node.make("data")
    file = node.daemon.write("a.yaml", csi_driver() + volume("data") + pod("web", claimed("data")))
    node.daemon.up("web")
    path, mounts, before = node.daemon.path("web/data"), node.daemon.mounts(), size_of(node.daemon.path("web/data"))
    node.beside.fail("NodeExpandVolume", StatusCode.FAILED_PRECONDITION, "not while it is mounted")
    ask_for(file, "16Mi", "24Mi")
    node.until(lambda: "not while it is mounted" in (claim(node)["reason"] or ""), lambda: claim(node))
    assert claim(node)["capacity"] == "16Mi"
    assert (node.row("web/data")["state"], size_of(path)) == ("mounted", before)
    assert node.daemon.mounts() == mounts
    node.beside.forward("NodeExpandVolume")
    without_pod = file.read_text().replace(pod("web", claimed("data")), "")
    file.write_text(without_pod)
    node.gone("web")
    node.until(lambda: node.stages() == [])
    file.write_text(without_pod + pod("next", claimed("data")))
    node.mounted("next")
    until_claimed(node, "24Mi")
    assert claim(node)["reason"] is None
    assert size_of(node.daemon.path("next/data")) > before


@pytest.mark.parametrize("method", ["ControllerExpandVolume", "NodeExpandVolume"])
def test_a_size_that_cannot_be_had_is_told_and_another_one_tried(node: Node, method: str) -> None:
    node.start_behind_proxy()
    node.make("disk")
    file = node.daemon.write("a.yaml", csi_driver() + volume("disk", block=True) + block_pod("web", "disk"))
    node.daemon.up("web")
    node.beside.fail(method, StatusCode.OUT_OF_RANGE, "the shelf is full")
    ask_for(file, "16Mi", "64Mi")
    node.until(lambda: "the shelf is full" in (claim(node)["reason"] or ""), lambda: claim(node))
    assert node.row("web/disk")["state"] == "mounted"
    node.beside.forward(method)
    ask_for(file, "64Mi", "24Mi")
    node.until(lambda: claim(node)["reason"] is None and claim(node)["capacity"] != "16Mi", lambda: claim(node))
