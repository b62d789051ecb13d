"""The rows that people and scripts read: each state is reached, and every field is documented."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

from tests.observe.conftest import CONFIG, SECRET, Observed, Pause, observed, pod

from mooring.observe.shapes import SHAPES
from mooring.observe.status import iso
from mooring.testing.memory_host import MemoryHost

CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""


def shape(prefix: str) -> set[str]:
    """The documented fields of an answer."""
    (fields,) = (fields for name, fields in SHAPES.items() if name.startswith(prefix))
    return set(fields)


def fields_of(rows: list[dict[str, Any]]) -> set[str]:
    assert rows, "an empty answer shows no fields"
    (fields,) = {frozenset(row) for row in rows}
    return set(fields)


# -- shapes --------------------------------------------------------------------------------------------------------
async def test_every_answer_has_exactly_the_documented_fields(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(CONFIG + pod("web", "configMap: {name: c}") + CLAIM)
    (manifests / "b.yaml").write_text(
        pod("stuck", "secret: {secretName: x}") + pod("odd", "csi: {driver: d.example.com}")
    )
    (manifests / "c.yaml").write_text("kind: [")
    async with observed(manifests) as node:
        await node.mounted("web")
        await node.until(lambda: has_rows(node, "/v1/events", 2))
        assert fields_of(await node.get("/v1/volumes")) == shape("volume")
        assert fields_of(await node.get("/v1/pods")) == shape("pod")
        assert fields_of(await node.get("/v1/claims")) == shape("claim")
        assert fields_of(await node.get("/v1/events")) == shape("event")
        assert fields_of(await node.get("/v1/findings")) == shape("finding")
        assert fields_of(await node.get("/v1/timeline", pod="stuck")) == shape("entry")
        for name in ("web", "stuck", "odd"):
            explanation = await node.get("/v1/explain", pod=name)
            assert set(explanation) == shape("explanation")
            assert fields_of(explanation["volumes"]) == {"volume", "state", "cause", "next_step", "attempts"}
        assert await node.get("/v1/drivers") == []


async def has_rows(node: Observed, path: str, least: int) -> bool:
    return len(await node.get(path)) >= least


async def test_an_operation_under_way_has_exactly_the_documented_fields(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(CONFIG + pod("web", "configMap: {name: c}"))
    host = MemoryHost()
    host.scheduler = pause = Pause()
    async with observed(manifests, host=host) as node:
        await node.until(lambda: has_rows(node, "/v1/operations", 1))
        (row,) = await node.get("/v1/operations")
        assert set(row) == shape("operation")
        assert (row["operation"], row["pod"]) == ("volume_mount", "default/web")
        pause.lifted.set()
        await node.mounted("web")
        assert await node.get("/v1/operations") == []


# -- states --------------------------------------------------------------------------------------------------------
async def test_mounting_and_then_mounted(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(CONFIG + pod("web", "configMap: {name: c}"))
    host = MemoryHost()
    host.scheduler = pause = Pause()
    async with observed(manifests, host=host) as node:
        await node.until(lambda: is_in(node, "default/web/v", "mounting"))
        (row,) = await node.get("/v1/volumes")
        assert (row["mounted_at"], row["path"], row["attempts"]) == (None, None, 0)
        pause.lifted.set()
        await node.mounted("web")
        (row,) = await node.get("/v1/volumes")
        assert (row["state"], row["reason"], row["next_step"], row["attempts"]) == ("mounted", None, None, 1)
        assert row["path"].endswith("/volumes/kubernetes.io~configmap/v")
        assert row["plugin"] == "kubernetes.io/configmap"
        assert row["name"] == f"kubernetes.io/configmap/{row['pod_uid']}-v"
        assert row["mounted_at"].endswith("Z")


async def is_in(node: Observed, volume: str, state: str) -> bool:
    return (await node.states()).get(volume) == state


async def test_waiting_for_an_object_and_mounted_as_soon_as_it_comes(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "configMap: {name: c}"))
    async with observed(manifests, backoff_initial=3600.0, backoff_maximum=3600.0) as node:
        await node.until(lambda: is_in(node, "default/web/v", "waiting"))
        (row,) = await node.get("/v1/volumes")
        assert 'configmap "c" not found' in row["reason"]
        (manifests / "b.yaml").write_text(CONFIG)
        await node.mounted("web")


async def test_waiting_because_nobody_serves_the_source(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "quobyte: {registry: r, volume: v}"))
    async with observed(manifests) as node:
        (row,) = await node.get("/v1/volumes")
        assert (row["state"], row["name"], row["plugin"], row["path"]) == ("waiting", None, None, None)
        assert "quobyte was removed from Kubernetes" in row["reason"]


async def test_waiting_for_a_driver_that_has_not_registered(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "csi: {driver: d.example.com}"))
    async with observed(manifests) as node:
        await node.until(lambda: is_in(node, "default/web/v", "waiting"))
        (row,) = await node.get("/v1/volumes")
        assert "waits for driver 'd.example.com' to register" in row["reason"]


async def test_failed_when_a_set_up_is_refused(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "hostPath: {path: /nowhere, type: Directory}"))
    async with observed(manifests) as node:
        await node.until(lambda: is_in(node, "default/web/v", "failed"))
        (row,) = await node.get("/v1/volumes")
        assert "/nowhere is not a directory" in row["reason"]
        assert row["attempts"] >= 1


async def test_uncertain_when_a_set_up_stopped_half_way(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "emptyDir: {}"))
    host = MemoryHost()

    def fail(method: str, path: str) -> None:
        if method == "change_mode":
            raise OSError(errno.EIO, "Input/output error", path)

    host.before_call = fail
    async with observed(manifests, host=host) as node:
        await node.until(lambda: is_in(node, "default/web/v", "uncertain"))
        (row,) = await node.get("/v1/volumes")
        assert "Input/output error" in row["reason"]
        host.before_call = None
        await node.mounted("web")


async def test_unmounting_while_a_pod_goes_and_then_nothing_of_it(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(CONFIG + pod("web", "configMap: {name: c}"))
    async with observed(manifests) as node:
        await node.mounted("web")
        node.host.scheduler = pause = Pause()
        (manifests / "a.yaml").unlink()
        await node.until(lambda: is_in(node, "default/web/v", "unmounting"))
        pause.lifted.set()
        answer = await node.post("/v1/wait", pod="web", **{"for": "unmounted", "timeout": "10"})
        assert (answer["done"], await node.states()) == (True, {})


async def test_a_volume_that_cannot_be_unmounted_keeps_its_row_with_the_reason(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(SECRET + pod("web", "secret: {secretName: s}"))
    async with observed(manifests) as node:
        await node.mounted("web")
        (row,) = await node.get("/v1/volumes")
        node.host.hold(row["path"])
        (manifests / "a.yaml").unlink()
        await node.until(lambda: is_in(node, "default/web/v", "uncertain"))
        (row,) = await node.get("/v1/volumes")
        assert (row["pod"], "busy" in row["reason"]) == ("default/web", True)
        node.host.release(row["path"])


async def test_mounted_at_and_attempts_survive_a_restart(manifests: Path) -> None:
    pods = pod("web", "configMap: {name: c}") + pod("safe", "secret: {secretName: s}")
    (manifests / "a.yaml").write_text(CONFIG + SECRET + pods)
    host = MemoryHost()
    async with observed(manifests, host=host) as node:
        for name in ("web", "safe"):
            await node.mounted(name)
        before = await node.get("/v1/volumes")
    async with observed(manifests, host=host) as node:
        for name in ("web", "safe"):
            await node.mounted(name)
        assert await node.get("/v1/volumes") == before


async def test_a_pod_and_its_config_map_that_come_together_are_mounted_at_the_first_try(manifests: Path) -> None:
    async with observed(manifests) as node:
        text = "".join(pod(f"web-{number}", "configMap: {name: c}") for number in range(50)) + CONFIG
        await node.post("/v1/apply", text)
        for number in range(50):
            await node.mounted(f"web-{number}")
        assert {row["attempts"] for row in await node.get("/v1/volumes")} == {1}
        assert await node.get("/v1/events") == []


def test_times_are_written_to_the_millisecond_in_utc() -> None:
    assert (iso(None), iso(0.0), iso(1.5)) == (None, "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:01.500Z")
