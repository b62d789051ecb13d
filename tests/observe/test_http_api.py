"""The HTTP API: every route answers, errors are worded, and no secret leaves by any of them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.observe.conftest import CONFIG, SECRET, Observed, observed, pod

from mooring.observe.shapes import ROUTES, SEVERAL_FILES, SHAPES

POD_FIELDS = SHAPES["pod (`get pods`)"]


async def test_every_documented_route_answers_and_no_other_exists(manifests: Path) -> None:
    async with observed(manifests) as node:
        served = set(node.api.routes)
        assert served == {route.partition("?")[0].partition("[")[0] for route in ROUTES}


async def test_health_and_readiness(manifests: Path) -> None:
    async with observed(manifests) as node:
        assert await node.text("/healthz") == "ok\n"
        assert await node.text("/readyz") == "ok\n"
        assert "storage_operation_duration_seconds" in await node.text("/metrics")


async def test_apply_stores_and_tells_what_it_did(manifests: Path) -> None:
    async with observed(manifests) as node:
        text = CONFIG + pod("web", "configMap: {name: c}")
        created = await node.post("/v1/apply", text)
        assert created["created"] == ["configmap/default/c", "pod/default/web"]
        again = await node.post("/v1/apply", text.replace("value", "other"))
        assert (again["changed"], again["unchanged"]) == (["configmap/default/c"], ["pod/default/web"])


async def test_a_pod_that_was_applied_can_be_waited_for_at_once(manifests: Path) -> None:
    async with observed(manifests) as node:
        await node.post("/v1/apply", pod("web", "emptyDir: {}"))
        await node.mounted("web")


async def test_apply_of_several_files_is_all_or_nothing_and_tells_every_mistake(manifests: Path) -> None:
    async with observed(manifests) as node:
        files = [
            {"origin": "good.yaml", "text": CONFIG},
            {"origin": "bad.yaml", "text": CONFIG.replace("name: c", "name: C")},
            {"origin": "worse.yaml", "text": "kind: Pod\n"},
        ]
        headers = {"Content-Type": SEVERAL_FILES}
        async with node.client.post("/v1/apply", data=json.dumps({"files": files}), headers=headers) as response:
            answer = await response.json()
        assert response.status == 400
        assert answer["what"].startswith("bad.yaml:3: metadata.name: ")
        assert "\nworse.yaml:1: apiVersion: " in answer["error"]
        assert answer["error"].endswith("mooring: nothing was changed.")
        assert node.instance.store.origins() == {}


async def test_delete_tells_what_was_there_and_which_file_still_names_it(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(CONFIG)
    async with observed(manifests) as node:
        await node.post("/v1/apply", pod("web", "emptyDir: {}"))
        answer = await node.post("/v1/delete", CONFIG + pod("web", "emptyDir: {}") + pod("gone", "emptyDir: {}"))
        assert answer == {
            "deleted": ["configmap/default/c", "pod/default/web"],
            "missing": ["pod/default/gone"],
            "written_in": {"configmap/default/c": f"{manifests}/a.yaml"},
        }


async def test_an_immutable_object_is_not_changed_and_the_place_is_named(manifests: Path) -> None:
    frozen = CONFIG.replace("---", "immutable: true\n---")
    async with observed(manifests) as node:
        await node.post("/v1/apply", frozen)
        answer = await node.post("/v1/apply", frozen.replace("value", "other"), origin="c.yaml")
        assert answer["what"] == "c.yaml:4: data: cannot change ConfigMap default/c"
        assert "immutable" in answer["why"]


async def test_wait_answers_with_the_reasons_when_time_is_up(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "configMap: {name: c}"))
    async with observed(manifests) as node:
        answer = await node.post("/v1/wait", pod="web", **{"for": "mounted", "timeout": "0.01"})
        assert (answer["done"], answer["ready"]) == (False, False)
        assert 'configmap "c" not found' in answer["cause"]


async def test_wait_for_unmounted_says_that_the_pod_is_still_wanted(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "emptyDir: {}"))
    async with observed(manifests) as node:
        await node.mounted("web")
        answer = await node.post("/v1/wait", pod="web", **{"for": "unmounted", "timeout": "0.01"})
        assert (answer["done"], [row["volume"] for row in answer["volumes"]]) == (False, ["v"])
        assert answer["cause"] == "the pod is still wanted; delete it or its manifest first"


async def test_unmounted_is_true_of_a_pod_nobody_has_heard_of(manifests: Path) -> None:
    async with observed(manifests) as node:
        assert (await node.post("/v1/wait", pod="web", **{"for": "unmounted", "timeout": "1"}))["done"]


async def test_bad_requests_are_answered_in_words(manifests: Path) -> None:
    async with observed(manifests) as node:
        for path, query, status, text in (
            ("/v1/wait", {"pod": "x", "for": "rain"}, 400, "cannot wait for 'rain'"),
            ("/v1/wait", {"pod": "x", "for": "mounted"}, 404, "cannot find pod 'x'"),
            ("/v1/wait", {"pod": "x", "for": "mounted", "timeout": "soon"}, 400, "cannot read the request"),
        ):
            async with node.client.post(path, params=query) as response:
                answer = await response.json()
                assert (response.status, text in answer["error"]) == (status, True), answer


async def test_a_name_in_several_namespaces_must_be_told_apart(manifests: Path) -> None:
    text = pod("web", "emptyDir: {}")
    (manifests / "a.yaml").write_text(
        text.replace("{name: web}", "{name: web, namespace: one}")
        + text.replace("{name: web}", "{name: web, namespace: two}")
    )
    async with observed(manifests) as node:
        answer = await node.get("/v1/explain", pod="web")
        assert answer["error"] == "pod 'web' is not clear: there are one/web, two/web. Write one of them."
        assert (await node.get("/v1/explain", pod="two/web"))["pod"] == "two/web"
        await node.post("/v1/apply", text)
        assert (await node.get("/v1/explain", pod="web"))["pod"] == "default/web"


async def test_a_volume_the_pod_does_not_use_cannot_be_explained(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "emptyDir: {}"))
    async with observed(manifests) as node:
        answer = await node.get("/v1/explain", pod="web", volume="w")
        assert answer["error"].endswith("no container of the pod uses a volume of that name. Its volumes are: v.")


async def test_describe_tells_everything_of_a_pod_and_of_a_volume(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(CONFIG + pod("web", "configMap: {name: c}"))
    async with observed(manifests) as node:
        await node.mounted("web")
        answer = await node.get("/v1/describe", kind="pod", name="web")
        assert set(answer) == {*POD_FIELDS, "events", "timeline", "manifest"}
        assert answer["manifest"]["kind"] == "Pod"
        (row,) = await node.get("/v1/volumes")
        for name in ("web/v", "default/web/v", row["name"]):
            assert (await node.get("/v1/describe", kind="volume", name=name))["path"] == row["path"]
        missing = await node.get("/v1/describe", kind="volume", name="web/none")
        assert "no volume of this node has that name" in missing["error"]


async def test_the_timeline_of_a_pod_that_is_gone_is_kept(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "emptyDir: {}"))
    async with observed(manifests) as node:
        await node.mounted("web")
        (manifests / "a.yaml").unlink()
        assert (await node.post("/v1/wait", pod="web", **{"for": "unmounted", "timeout": "10"}))["done"]
        rows = await node.get("/v1/timeline", pod="web")
        assert [(row["what"], row["result"]) for row in rows if row["what"] != "refresh"] == [
            ("volume_mount", "done"),
            ("volume_unmount", "done"),
        ]


async def test_events_are_followed_as_they_happen(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(pod("web", "csi: {driver: d.example.com}"))
    async with observed(manifests) as node, node.client.get("/v1/events", params={"follow": "1"}) as stream:
        first = json.loads(await stream.content.readline())
        assert (first["object"], first["reason"]) == ("pod/web", "FailedMount")
        await node.post("/v1/apply", pod("other", "csi: {driver: d.example.com}"))
        assert json.loads(await stream.content.readline())["object"] == "pod/other"


async def test_down_takes_everything_away(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(SECRET + pod("web", "secret: {secretName: s}"))
    async with observed(manifests) as node:
        await node.mounted("web")
        assert await node.post("/v1/down", timeout="10") == {"done": True, "left": [], "containers": {}}
        assert (await node.get("/v1/volumes"), len(node.host.mounts())) == ([], 1)


async def test_down_that_cannot_finish_says_what_is_left(manifests: Path) -> None:
    (manifests / "a.yaml").write_text(SECRET + pod("web", "secret: {secretName: s}"))
    async with observed(manifests) as node:
        await node.mounted("web")
        (row,) = await node.get("/v1/volumes")
        node.host.hold(row["path"])
        answer = await node.post("/v1/down", timeout="0.1")
        assert (answer["done"], [left["path"] for left in answer["left"]]) == (False, [row["path"]])
        node.host.release(row["path"])


async def test_no_answer_and_no_file_of_ours_shows_a_secret(manifests: Path) -> None:
    text = (
        SECRET
        + pod("web", "secret: {secretName: s}")
        + pod("keyless", "secret: {secretName: s, items: [{key: k, path: p}]}")
    )
    (manifests / "a.yaml").write_text(
        text + pod("all", "projected: {sources: [{secret: {name: s}}, {secret: {name: t}}]}")
    )
    (manifests / "b.yaml").write_text(SECRET.replace("stringData", "data").replace("{name: s}", "{name: broken}"))
    async with observed(manifests) as node:
        await node.mounted("web")
        await node.until(lambda: events_of(node, 2))
        seen = [await node.text(route.partition(" ")[2].partition("?")[0]) for route in ROUTES if "GET /v1/" in route]
        for name in ("web", "keyless", "all"):
            for path in ("explain", "timeline"):
                seen.append(await node.text(f"/v1/{path}?pod={name}"))
            seen.append(await node.text(f"/v1/describe?kind=pod&name={name}"))
            seen.append(await node.text(f"/v1/describe?kind=volume&name={name}/v"))
        seen += [await node.text("/metrics"), repr(node.instance.store.origins())]
        seen.append(json.dumps(await node.post("/v1/apply", SECRET.replace("hunter2", "[hunter2]"))))
        seen.append(repr(node.instance.manager.desired.volumes) + repr(node.instance.manager.actual.volumes))
        node.instance.journal.flush()
        seen.append((manifests.parent / "root" / "history.jsonl").read_text())
        assert len(seen) > 20
        for answer in seen:
            assert "hunter2" not in answer
            assert "aHVudGVyMg" not in answer


async def events_of(node: Observed, least: int) -> bool:
    return len(await node.get("/v1/events")) >= least
