"""Secrets reach the driver, and nobody else."""

from __future__ import annotations

import base64
import socket
from pathlib import Path

import pytest
from grpc import StatusCode
from tests.node.csi.conftest import Node
from tests.node.csi.manifests import claimed, csi_driver, volume
from tests.node.daemon.conftest import pod, secret

from mooring.testing.scripted_csi_driver import Answer

pytestmark = pytest.mark.node

SECRETS = {name: f"opensesame-{name}" for name in ("stage", "publish", "expand")}
REFS = (
    ", nodeStageSecretRef: {name: stage, namespace: default}"
    ", nodePublishSecretRef: {name: publish, namespace: default}"
    ", nodeExpandSecretRef: {name: expand, namespace: default}"
)
TABLES = ("pods", "volumes", "claims", "drivers", "operations", "events", "findings")


def everything_said(node: Node) -> str:
    """What all commands that look say, and all files but the store, which is where Secrets are kept."""
    daemon = node.daemon
    said = [daemon.done("get", table, "-o", form) for table in TABLES for form in ("json", "table")]
    said += [daemon.done(command, "web", "-o", "json") for command in ("explain", "timeline", "mounts")]
    said += [daemon.done("describe", what) for what in ("pod/web", "volume/web/data")]
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(f"{daemon.root}/mooring.sock")
        caller.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        said.append(caller.makefile().read())
    for path in Path(daemon.root).rglob("*"):
        if path.is_file() and not path.is_symlink() and path.parent.name != "store":
            said.append(path.read_bytes().decode(errors="replace"))
    return "\n".join(said)


def test_secrets_are_in_no_log_event_history_answer_or_file(node: Node) -> None:
    node.set(log_level="debug")
    node.start_behind_proxy()
    node.make("data")
    for method, each in (("NodeStageVolume", "stage"), ("NodePublishVolume", "publish")):
        words = f"wrong password {SECRETS[each]!r}"
        node.beside.answer(method, *(Answer(code=code, words=words, happens=False) for code in _CODES))
    objects = "".join(secret(name, value) for name, value in SECRETS.items())
    node.daemon.write("a.yaml", objects + csi_driver() + volume("data", more=REFS) + pod("web", claimed("data")))
    node.daemon.up("web")
    for method in ("NodeStageVolume", "NodePublishVolume"):
        assert [call.code for call in node.beside.calls(method)] == [*_CODES, StatusCode.OK]
        assert all("key" in call.request["secrets"] for call in node.beside.calls(method))
    said = everything_said(node)
    assert "wrong password" in said  # what drivers say is told, only not that
    for value in SECRETS.values():
        assert value not in said
        assert base64.b64encode(value.encode()).decode() not in said


_CODES = [StatusCode.INTERNAL, StatusCode.UNAVAILABLE]


def test_a_volume_waits_for_its_secret_and_goes_on_when_it_is_there(node: Node) -> None:
    node.waits_for_events_only()
    node.start_behind_proxy()
    node.make("data")
    node.daemon.write("a.yaml", csi_driver() + volume("data", more=REFS) + pod("web", claimed("data")))
    node.daemon.up()
    row = node.until_reason("web/data", "Secret")  # until it has registered, the driver is waited for
    assert "stage" in row["reason"]
    assert node.beside.changes(failed=True) == []
    node.daemon.write("b.yaml", secret("stage"))
    node.until_reason("web/data", "publish")
    node.daemon.write("c.yaml", secret("publish"))
    node.mounted("web")
