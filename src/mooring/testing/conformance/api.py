"""What every implementation of the API protocol must do. Derive a test class and give it an `api` fixture.

The suite keeps to what a real Kubernetes API server does too: it uses names of its own in the namespace
`default`, watches only what it labelled itself, and waits for events instead of assuming when they come.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from mooring.kube.api import (
    INITIAL_EVENTS_END,
    AlreadyExists,
    Api,
    Conflict,
    EventType,
    Invalid,
    ListOptions,
    NotFound,
    Preconditions,
    TooLargeResourceVersion,
    WatchEvent,
    WatchOptions,
)
from mooring.kube.objects.kinds import CONFIG_MAP, NODE, POD
from mooring.kube.objects.meta import ObjectMeta, OwnerReference
from mooring.kube.objects.node import Node, NodeStatus
from mooring.kube.objects.pod import ConfigMap, Container, Pod, PodSpec

NAMESPACE = "default"
FINALIZER = "mooring.test/hold"
PATIENCE = 30.0


class ApiConformance:
    """The suite. Each test makes its own objects and leaves none that matters to another."""

    @pytest.fixture
    def run(self) -> str:
        """A word that no other run of a test uses."""
        return f"conformance-{uuid.uuid4().hex[:12]}"

    async def test_a_created_object_has_an_identity_and_can_be_read(self, api: Api, run: str) -> None:
        created = await api.create(config_map(run, data={"key": "value"}))
        meta = created.metadata
        assert meta.uid
        assert meta.resource_version
        assert meta.creation_timestamp
        assert await api.get(CONFIG_MAP, NAMESPACE, run) == created

    async def test_a_second_object_of_the_same_name_is_refused(self, api: Api, run: str) -> None:
        await api.create(config_map(run))
        with pytest.raises(AlreadyExists):
            await api.create(config_map(run))

    async def test_a_missing_object_is_not_found(self, api: Api, run: str) -> None:
        with pytest.raises(NotFound):
            await api.get(CONFIG_MAP, NAMESPACE, run)
        with pytest.raises(NotFound):
            await api.patch(CONFIG_MAP, NAMESPACE, run, {"data": {"key": "value"}})
        with pytest.raises(NotFound):
            await api.delete(CONFIG_MAP, NAMESPACE, run)

    async def test_a_generated_name_starts_as_asked_for(self, api: Api, run: str) -> None:
        meta = ObjectMeta(generate_name=f"{run}-", namespace=NAMESPACE)
        names = {(await api.create(ConfigMap(metadata=meta))).metadata.name for _ in range(3)}
        assert len(names) == 3
        assert all(name.startswith(f"{run}-") and len(name) > len(run) + 1 for name in names)

    async def test_a_patch_sets_removes_and_keeps(self, api: Api, run: str) -> None:
        before = await api.create(config_map(run, data={"keep": "1", "change": "1", "remove": "1"}))
        after = await api.patch(CONFIG_MAP, NAMESPACE, run, {"data": {"change": "2", "remove": None, "new": "1"}})
        assert after.data == {"keep": "1", "change": "2", "new": "1"}
        assert int(after.metadata.resource_version) > int(before.metadata.resource_version)
        assert after.metadata.uid == before.metadata.uid

    async def test_a_patch_that_changes_nothing_writes_nothing(self, api: Api, run: str) -> None:
        before = await api.create(config_map(run, data={"key": "value"}))
        after = await api.patch(CONFIG_MAP, NAMESPACE, run, {"data": {"key": "value"}})
        assert after.metadata.resource_version == before.metadata.resource_version

    async def test_a_patch_of_an_outdated_version_is_a_conflict(self, api: Api, run: str) -> None:
        before = await api.create(config_map(run, data={"key": "1"}))
        version = {"metadata": {"resourceVersion": before.metadata.resource_version}}
        await api.patch(CONFIG_MAP, NAMESPACE, run, {**version, "data": {"key": "2"}})
        with pytest.raises(Conflict):
            await api.patch(CONFIG_MAP, NAMESPACE, run, {**version, "data": {"key": "3"}})
        assert (await api.get(CONFIG_MAP, NAMESPACE, run)).data == {"key": "2"}

    async def test_a_patch_for_another_uid_is_a_conflict(self, api: Api, run: str) -> None:
        await api.create(config_map(run))
        with pytest.raises(Conflict):
            await api.patch(CONFIG_MAP, NAMESPACE, run, {"metadata": {"uid": str(uuid.uuid4())}, "data": {"a": "b"}})

    async def test_a_patch_of_the_status_for_another_uid_is_a_conflict(self, api: Api, run: str) -> None:
        spec = PodSpec(containers=(Container(name="main", image="none"),))
        await api.create(Pod(metadata=ObjectMeta(name=run, namespace=NAMESPACE), spec=spec))
        patch = {"metadata": {"uid": str(uuid.uuid4())}, "status": {"phase": "Failed"}}
        with pytest.raises(Conflict):
            await api.patch(POD, NAMESPACE, run, patch, subresource="status")
        left = await api.delete(POD, NAMESPACE, run, grace_period=0)
        assert left is None or left.status.phase != "Failed"

    async def test_status_changes_only_through_its_subresource(self, api: Api, run: str) -> None:
        await api.create(Node(metadata=ObjectMeta(name=run), status=NodeStatus(volumes_in_use=("created",))))
        both = {"metadata": {"labels": {"set": "yes"}}, "status": {"volumesInUse": ["patched"]}}
        try:
            plain = await api.patch(NODE, "", run, both)
            assert plain.metadata.labels["set"] == "yes"
            assert plain.status.volumes_in_use == ("created",)
            status = await api.patch(NODE, "", run, {**both, "spec": {"providerID": "x"}}, subresource="status")
            assert status.status.volumes_in_use == ("patched",)
            assert status.spec.provider_id == ""
        finally:
            await api.delete(NODE, "", run)

    async def test_a_strategic_patch_merges_lists_by_what_tells_their_items_apart(self, api: Api, run: str) -> None:
        ready, disk = {"type": "Ready", "status": "True"}, {"type": "DiskPressure", "status": "False"}
        host, address = {"type": "Hostname", "address": run}, {"type": "InternalIP", "address": "192.0.2.7"}
        status = NodeStatus(conditions=(ready, disk), addresses=(host,), volumes_in_use=("one",))
        await api.create(Node(metadata=ObjectMeta(name=run), status=status))
        patch = {
            "metadata": {"labels": {"set": "no"}},
            "status": {
                "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "DiskPressure"}],
                "conditions": [{"type": "Ready", "status": "False", "reason": "Test"}],
                "addresses": [address, {"type": "Hostname", "$patch": "delete"}],
                "volumesInUse": ["two"],
            },
        }
        try:
            after = await api.patch_strategically(NODE, "", run, patch, subresource="status")
            told = {each["type"]: (each["status"], each.get("reason")) for each in after.status.conditions}
            assert told == {"Ready": ("False", "Test"), "DiskPressure": ("False", None)}
            assert [dict(each) for each in after.status.addresses] == [address]
            assert after.status.volumes_in_use == ("two",), "a list without keys is one value"
            replaced = {"status": {"conditions": [{"$patch": "replace"}, ready]}}
            again = await api.patch_strategically(NODE, "", run, replaced, subresource="status")
            assert [each["type"] for each in again.status.conditions] == ["Ready"]
            plain = await api.patch_strategically(NODE, "", run, {"status": {"conditions": [disk]}})
            assert plain.status == again.status, "status changes only through its subresource"
        finally:
            await api.delete(NODE, "", run)

    async def test_a_strategic_patch_adds_to_finalizers_and_takes_from_them(self, api: Api, run: str) -> None:
        await api.create(config_map(run, data={"keep": "1", "remove": "1"}, finalizers=(FINALIZER,)))
        more = {"metadata": {"finalizers": ["mooring.test/more"]}, "data": {"remove": None, "new": "1"}}
        after = await api.patch_strategically(CONFIG_MAP, NAMESPACE, run, more)
        assert set(after.metadata.finalizers) == {FINALIZER, "mooring.test/more"}
        assert after.data == {"keep": "1", "new": "1"}
        fewer = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER, "mooring.test/more"]}}
        after = await api.patch_strategically(CONFIG_MAP, NAMESPACE, run, fewer)
        assert after.metadata.finalizers == ()
        with_new_data = {"data": {"$patch": "replace", "only": "1"}}
        assert (await api.patch_strategically(CONFIG_MAP, NAMESPACE, run, with_new_data)).data == {"only": "1"}

    async def test_a_strategic_patch_of_an_outdated_version_is_a_conflict(self, api: Api, run: str) -> None:
        before = await api.create(config_map(run))
        version = {"metadata": {"resourceVersion": before.metadata.resource_version}}
        await api.patch_strategically(CONFIG_MAP, NAMESPACE, run, {**version, "data": {"key": "1"}})
        with pytest.raises(Conflict):
            await api.patch_strategically(CONFIG_MAP, NAMESPACE, run, {**version, "data": {"key": "2"}})

    async def test_a_deleted_object_is_gone(self, api: Api, run: str) -> None:
        await api.create(config_map(run))
        await api.delete(CONFIG_MAP, NAMESPACE, run)
        with pytest.raises(NotFound):
            await api.get(CONFIG_MAP, NAMESPACE, run)

    async def test_a_deletion_whose_preconditions_fail_deletes_nothing(self, api: Api, run: str) -> None:
        created = await api.create(config_map(run))
        for wrong in (Preconditions(uid=str(uuid.uuid4())), Preconditions(resource_version="1")):
            with pytest.raises(Conflict):
                await api.delete(CONFIG_MAP, NAMESPACE, run, preconditions=wrong)
        right = Preconditions(uid=created.metadata.uid, resource_version=created.metadata.resource_version)
        await api.delete(CONFIG_MAP, NAMESPACE, run, preconditions=right)
        with pytest.raises(NotFound):
            await api.get(CONFIG_MAP, NAMESPACE, run)

    async def test_a_pod_on_a_node_is_gone_at_once_without_a_grace_period(self, api: Api, run: str) -> None:
        spec = PodSpec(node_name="nowhere", containers=(Container(name="main", image="none"),))
        pod = await api.create(Pod(metadata=ObjectMeta(name=run, namespace=NAMESPACE), spec=spec))
        wrong = Preconditions(uid=str(uuid.uuid4()))
        with pytest.raises(Conflict):
            await api.delete(POD, NAMESPACE, run, preconditions=wrong, grace_period=0)
        await api.delete(POD, NAMESPACE, run, preconditions=Preconditions(uid=pod.metadata.uid), grace_period=0)
        with pytest.raises(NotFound):
            await api.get(POD, NAMESPACE, run)

    async def test_a_finalizer_holds_a_deleted_object_until_it_is_removed(self, api: Api, run: str) -> None:
        await api.create(config_map(run, finalizers=(FINALIZER,)))
        left = await api.delete(CONFIG_MAP, NAMESPACE, run)
        assert left is not None
        assert left.metadata.deletion_timestamp
        held = await api.get(CONFIG_MAP, NAMESPACE, run)
        assert held.metadata.deletion_timestamp
        again = await api.delete(CONFIG_MAP, NAMESPACE, run)
        assert again is not None
        assert again.metadata.deletion_timestamp == held.metadata.deletion_timestamp
        await api.patch(CONFIG_MAP, NAMESPACE, run, {"metadata": {"finalizers": None}})
        with pytest.raises(NotFound):
            await api.get(CONFIG_MAP, NAMESPACE, run)

    async def test_what_an_object_owned_goes_after_it(self, api: Api, run: str) -> None:
        owner = await api.create(config_map(run))
        reference = OwnerReference(api_version="v1", kind="ConfigMap", name=run, uid=owner.metadata.uid)
        await api.create(config_map(f"{run}-owned", owners=(reference,), labels={"run": run}))
        async with watching(api, run, owner.metadata.resource_version) as events:
            await api.delete(CONFIG_MAP, NAMESPACE, run)
            types = [(await next_event(events)).type for _ in range(2)]
        assert types == [EventType.ADDED, EventType.DELETED]

    async def test_a_list_selects_by_labels_and_fields(self, api: Api, run: str) -> None:
        for color in ("red", "green", "blue"):
            await api.create(config_map(f"{run}-{color}", labels={"run": run, "color": color}))
        chosen = await api.list(
            CONFIG_MAP, ListOptions(namespace=NAMESPACE, label_selector=f"run={run},color in (red,blue)")
        )
        assert {item.metadata.labels["color"] for item in chosen.items} == {"red", "blue"}
        named = await api.list(CONFIG_MAP, ListOptions(field_selector=f"metadata.name={run}-green"))
        assert [item.metadata.name for item in named.items] == [f"{run}-green"]

    async def test_a_malformed_selector_is_invalid(self, api: Api) -> None:
        for options in (ListOptions(label_selector="a in"), ListOptions(field_selector="no such field")):
            with pytest.raises(Invalid):
                await api.list(CONFIG_MAP, options)

    async def test_pages_show_each_object_once_at_one_version(self, api: Api, run: str) -> None:
        for number in range(7):
            await api.create(config_map(f"{run}-{number}", labels={"run": run}))
        options = ListOptions(namespace=NAMESPACE, label_selector=f"run={run}", limit=3)
        page = await api.list(CONFIG_MAP, options)
        pages = [page]
        await api.create(config_map(f"{run}-5b", labels={"run": run}))
        await api.delete(CONFIG_MAP, NAMESPACE, f"{run}-6")
        while page.continue_token:
            page = await api.list(CONFIG_MAP, replace(options, continue_token=page.continue_token))
            pages.append(page)
        names = [item.metadata.name for page in pages for item in page.items]
        assert names == [f"{run}-{number}" for number in range(7)], "the pages are those of the first page's time"
        assert {page.resource_version for page in pages} == {pages[0].resource_version}

    async def test_a_version_from_the_future_is_too_large(self, api: Api) -> None:
        newest = (await api.list(CONFIG_MAP)).resource_version
        with pytest.raises(TooLargeResourceVersion):
            await api.list(CONFIG_MAP, ListOptions(resource_version=str(int(newest) + 1_000_000_000)))

    async def test_a_watch_tells_all_changes_after_its_version_in_order(self, api: Api, run: str) -> None:
        version = (await api.list(CONFIG_MAP)).resource_version
        await api.create(config_map(run, labels={"run": run}))
        async with watching(api, run, version) as events:
            await api.patch(CONFIG_MAP, NAMESPACE, run, {"data": {"key": "value"}})
            await api.delete(CONFIG_MAP, NAMESPACE, run)
            seen = [await next_event(events) for _ in range(3)]
        assert [event.type for event in seen] == [EventType.ADDED, EventType.MODIFIED, EventType.DELETED]
        versions = [int(event.resource_version) for event in seen]
        assert versions == sorted(versions)
        assert len(set(versions)) == 3

    async def test_a_watch_can_be_taken_up_again_where_it_was_left(self, api: Api, run: str) -> None:
        version = (await api.list(CONFIG_MAP)).resource_version
        names = [f"{run}-{number}" for number in range(3)]
        for name in names:
            await api.create(config_map(name, labels={"run": run}))
        seen: list[str] = []
        for _ in names:
            async with watching(api, run, version) as events:
                event = await next_event(events)
            assert event.object is not None
            seen.append(event.object.metadata.name)
            version = event.resource_version
        assert seen == names

    async def test_an_object_that_leaves_the_selection_is_deleted_for_the_watcher(self, api: Api, run: str) -> None:
        created = await api.create(config_map(run))
        async with watching(api, run, created.metadata.resource_version) as events:
            for label in (run, "other", run):
                await api.patch(CONFIG_MAP, NAMESPACE, run, {"metadata": {"labels": {"run": label}}})
            seen = [await next_event(events) for _ in range(3)]
        assert [event.type for event in seen] == [EventType.ADDED, EventType.DELETED, EventType.ADDED]

    async def test_a_streaming_list_tells_what_exists_and_where_that_ends(self, api: Api, run: str) -> None:
        names = {f"{run}-{number}" for number in range(3)}
        for name in names:
            await api.create(config_map(name, labels={"run": run}))
        options = WatchOptions(namespace=NAMESPACE, label_selector=f"run={run}", send_initial_events=True)
        initial: set[str] = set()
        async with api.watch(CONFIG_MAP, options) as events:
            while (event := await next_event(events, bookmarks=True)).type is not EventType.BOOKMARK:
                assert event.object is not None
                initial.add(event.object.metadata.name)
            assert event.annotations[INITIAL_EVENTS_END] == "true"
            await api.create(config_map(f"{run}-later", labels={"run": run}))
            later = await next_event(events)
        assert initial == names
        assert later.type is EventType.ADDED
        assert int(later.resource_version) > int(event.resource_version)


def config_map(
    name: str,
    *,
    data: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    finalizers: tuple[str, ...] = (),
    owners: tuple[OwnerReference, ...] = (),
) -> ConfigMap:
    meta = ObjectMeta(
        name=name, namespace=NAMESPACE, labels=labels or {}, finalizers=finalizers, owner_references=owners
    )
    return ConfigMap(metadata=meta, data=data or {})


@contextlib.asynccontextmanager
async def watching(api: Api, run: str, version: str) -> AsyncIterator[AsyncIterator[WatchEvent[ConfigMap]]]:
    """A watch of the config maps that a test labelled, from a version on."""
    options = WatchOptions(namespace=NAMESPACE, label_selector=f"run={run}", resource_version=version)
    async with api.watch(CONFIG_MAP, options) as events:
        yield events


async def next_event(events: AsyncIterator[WatchEvent[ConfigMap]], *, bookmarks: bool = False) -> WatchEvent[ConfigMap]:
    """The next event, leaving out bookmarks unless they are asked for."""
    async with asyncio.timeout(PATIENCE):
        async for event in events:
            if bookmarks or event.type is not EventType.BOOKMARK:
                return event
    raise AssertionError("the watch ended before the event came")
