"""Runs of pods through the HTTP API and its control: the plan, the record, and who may ask for them."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession
from tests.observe.conftest import CONFIG, SECRET, Observed, observed

from mooring.daemon.control import InstanceControl
from mooring.errors import InvalidInput, MooringError, Refused
from mooring.observe.http_server import serving
from mooring.observe.shapes import SHAPES
from mooring.runtimes.interface import RunPlan
from mooring.runtimes.records import RunRecords
from mooring.world.names import PodUid

POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, uid: uid-web}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 7
  securityContext: {fsGroup: 77}
  containers:
  - name: main
    image: busybox
    env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: s, key: key}}}]
    volumeMounts: [{name: v, mountPath: /v}]
  volumes: [{name: v, configMap: {name: c}}]
---
"""
ASKED = b'{"runtime": "podman", "options": {"ulimits": ["nofile=1:2"]}}'
WEB = PodUid("uid-web")


def control_of(node: Observed) -> InstanceControl:
    return InstanceControl(node.instance, lambda: None)


async def begin(node: Observed, body: bytes = ASKED, client: int | None = None) -> dict[str, Any]:
    return await control_of(node).begin_run("web", body, os.getpid() if client is None else client)


async def test_a_plan_has_what_is_documented_and_a_record_is_written(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(CONFIG + SECRET + POD)
    async with observed(manifests) as node:
        await node.mounted("web")
        answer = await begin(node)
        assert set(answer) == set(SHAPES["run (`POST /v1/run`)"])
        plan = msgspec.convert(answer, RunPlan)
        assert (plan.pod, plan.restart_policy, plan.grace_seconds) == ("default/web", "Never", 7)
        [main] = plan.containers
        assert (main.env, main.groups) == ({"PASSWORD": "hunter2"}, (77,))
        assert [mount.container_path for mount in main.mounts] == ["/v"]
        record = RunRecords(node.instance.paths).read(WEB)
        assert record is not None
        assert (record.run, record.client.pid, record.options.ulimits) == (plan.run, os.getpid(), ("nofile=1:2",))
        assert "hunter2" not in Path(node.instance.paths.run_record(WEB)).read_text()


async def test_a_run_is_seen_and_a_second_one_is_refused(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(CONFIG + SECRET + POD)
    async with observed(manifests) as node:
        await node.mounted("web")
        await begin(node)
        [row] = await node.get("/v1/pods")
        assert row["containers"] == "they were started with podman"
        assert not node.instance.states.runtime_removed(WEB)
        with pytest.raises(Refused, match="cannot run pod 'default/web': they were started with podman"):
            await begin(node)


@pytest.mark.parametrize(
    ("body", "client", "kind", "words"),
    [
        (b"{", None, InvalidInput, "cannot read the request"),
        (b"{}", None, InvalidInput, "missing required field `runtime`"),
        (b'{"runtime": "docker"}', None, InvalidInput, "cannot use runtime 'docker'"),
        (ASKED, 0, Refused, "the daemon does not see its process"),
        (ASKED, 2**22 + 1, Refused, "the daemon does not see its process"),
    ],
)
async def test_what_cannot_be_asked_for_is_refused_and_leaves_no_record(
    manifests: Path, body: bytes, client: int | None, kind: type[MooringError], words: str
) -> None:
    (manifests / "a.yaml").write_text(CONFIG + SECRET + POD)
    async with observed(manifests) as node:
        await node.mounted("web")
        with pytest.raises(kind, match=words):
            await begin(node, body, client)
        assert not RunRecords(node.instance.paths).exists(WEB)


async def test_an_error_of_a_variable_is_told_without_its_value(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(CONFIG + SECRET + POD.replace("key: key", "key: other"))
    async with observed(manifests) as node:
        await node.mounted("web")
        with pytest.raises(Refused, match="Secret 's' has no key 'other'") as caught:
            await begin(node)
        assert "hunter2" not in str(caught.value)
        assert not RunRecords(node.instance.paths).exists(WEB)


async def test_a_pod_that_is_not_ready_is_not_run(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(SECRET + POD)
    async with observed(manifests) as node:
        with pytest.raises(Refused, match="pod 'default/web' is not ready"):
            await begin(node)


async def test_over_a_network_nobody_may_run_pods(manifests: Path) -> None:
    """Over TCP the process at the other end cannot be seen."""
    (manifests / "a.yaml").write_text(CONFIG + SECRET + POD)
    bound = socket.create_server(("127.0.0.1", 0))
    async with observed(manifests) as node, serving(node.api.answer, bound), ClientSession() as client:
        await node.mounted("web")
        at = f"http://127.0.0.1:{bound.getsockname()[1]}/v1/run"
        response = await client.post(at, params={"pod": "web"}, data=ASKED)
        assert response.status == 409
        assert (await response.json())["why"] == "the daemon does not see its process"
        ended = await client.post(f"{at}/end", params={"uid": "none", "run": "none"})
        assert await ended.json() == {"done": True, "cause": None}
