"""Manifests applied to the local store in one transaction."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mooring.kube.api import (
    Invalid,
    WatchOptions,
)
from mooring.kube.local_store import LocalStore
from mooring.kube.objects import (
    ConfigMap,
    Node,
    ObjectMeta,
    OwnerReference,
    PersistentVolumeClaim,
    Pod,
)
from mooring.kube.objects.kinds import CLAIM, CONFIG_MAP, NODE, POD
from mooring.kube.objects.pod import PodStatus
from mooring.testing.virtual_time import in_virtual_time


def memory_store(**options: Any) -> LocalStore:
    numbers = itertools.count(1)
    return LocalStore(clock=lambda: "2030-01-01T00:00:00Z", new_uid=lambda: f"uid-{next(numbers)}", **options)


def config_map(name: str, *, finalizers: tuple[str, ...] = (), uid: str = "", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="ns", finalizers=finalizers, uid=uid), data=data)


def owned_by(*owners: ConfigMap, name: str, finalizers: tuple[str, ...] = ()) -> ConfigMap:
    references = tuple(
        OwnerReference(api_version="v1", kind="ConfigMap", name=owner.metadata.name, uid=owner.metadata.uid)
        for owner in owners
    )
    meta = ObjectMeta(name=name, namespace="ns", owner_references=references, finalizers=finalizers)
    return ConfigMap(metadata=meta)


async def names_in(store: LocalStore) -> list[str]:
    return [item.metadata.name for item in (await store.list(CONFIG_MAP)).items]


@in_virtual_time
async def test_apply_all_creates_changes_removes_and_leaves_equal_objects_alone() -> None:
    store = memory_store()
    await store.apply_all(put=[(config_map(name, k="1"), "f.yaml") for name in ("same", "changes", "goes")])
    same = await store.get(CONFIG_MAP, "ns", "same")
    report = await store.apply_all(
        put=[(config_map("same", k="1"), "f.yaml"), (config_map("changes", k="2"), "f.yaml"), (config_map("new"), "g")],
        remove=[(CONFIG_MAP, "ns", "goes"), (CONFIG_MAP, "ns", "never there")],
    )
    assert report.created == [("ConfigMap", "ns", "new")]
    assert report.changed == [("ConfigMap", "ns", "changes")]
    assert report.removed == [("ConfigMap", "ns", "goes")]
    assert report.unchanged == [("ConfigMap", "ns", "same")]
    assert await store.get(CONFIG_MAP, "ns", "same") is same
    changed = await store.get(CONFIG_MAP, "ns", "changes")
    assert (changed.data, changed.metadata.generation) == ({"k": "2"}, 2)


@in_virtual_time
async def test_apply_all_writes_everything_or_nothing() -> None:
    store = memory_store()
    await store.create(config_map("old"))
    version = store.resource_version
    nameless = ConfigMap(metadata=ObjectMeta(namespace="ns"))
    with pytest.raises(Invalid):
        await store.apply_all(put=[(config_map("new"), "f"), (nameless, "f")], remove=[(CONFIG_MAP, "ns", "old")])
    assert await names_in(store) == ["old"]
    assert (store.resource_version, dict(store.origins())) == (version, {})
    created = await store.create(config_map("next"))
    assert int(created.metadata.resource_version) == int(version) + 1


@in_virtual_time
async def test_applying_again_keeps_what_others_wrote() -> None:
    store = memory_store()
    claim = PersistentVolumeClaim(metadata=ObjectMeta(name="c", namespace="ns", labels={"mine": "1"}))
    await store.apply_all(put=[(claim, "f")])
    others = {"annotations": {"bound": "yes"}, "finalizers": ["kubernetes.io/pvc-protection"]}
    await store.patch(CLAIM, "ns", "c", {"metadata": others, "spec": {"volumeName": "pv1"}})
    bound = await store.patch(CLAIM, "ns", "c", {"status": {"phase": "Bound"}}, subresource="status")
    assert (await store.apply_all(put=[(claim, "f")])).unchanged
    assert await store.get(CLAIM, "ns", "c") is bound
    relabelled = PersistentVolumeClaim(metadata=ObjectMeta(name="c", namespace="ns", labels={"mine": "2"}))
    await store.apply_all(put=[(relabelled, "f")])
    after = await store.get(CLAIM, "ns", "c")
    assert after.metadata.labels == {"mine": "2"}
    assert (after.metadata.annotations, after.metadata.finalizers) == ({"bound": "yes"}, bound.metadata.finalizers)
    assert (after.spec.volume_name, after.status.phase, after.metadata.uid) == ("pv1", "Bound", bound.metadata.uid)


@in_virtual_time
async def test_applying_again_restores_what_the_manifest_says_and_drops_what_it_says_no_more() -> None:
    store = memory_store()
    await store.apply_all(put=[(config_map("a", said="1", dropped="1"), "f")])
    await store.patch(CONFIG_MAP, "ns", "a", {"data": {"said": "changed", "added": "by another"}})
    report = await store.apply_all(put=[(config_map("a", said="1"), "f")])
    assert report.changed == [("ConfigMap", "ns", "a")]
    assert (await store.get(CONFIG_MAP, "ns", "a")).data == {"said": "1", "added": "by another"}


@in_virtual_time
async def test_a_manifest_may_bring_a_status() -> None:
    store = memory_store()
    meta = ObjectMeta(name="a", namespace="ns")
    await store.apply_all(put=[(Pod(metadata=meta), "f")])
    assert (await store.get(POD, "ns", "a")).status.phase == "Pending"
    await store.apply_all(put=[(Pod(metadata=meta, status=PodStatus(phase="Failed")), "f")])
    assert (await store.get(POD, "ns", "a")).status.phase == "Failed"
    await store.apply_all(put=[(Pod(metadata=meta), "f")])
    assert (await store.get(POD, "ns", "a")).status.phase == "Failed"


@in_virtual_time
async def test_another_uid_is_another_object_deleted_and_created_in_one_transaction() -> None:
    store = memory_store()
    await store.apply_all(put=[(config_map("a", uid="u1"), "f")])
    version = store.resource_version
    assert (await store.apply_all(put=[(config_map("a", uid="u2"), "f")])).changed
    async with store.watch(CONFIG_MAP, WatchOptions(resource_version=version)) as events:
        seen = [await anext(events) for _ in range(2)]
    assert [(event.type.value, event.object.metadata.uid if event.object else "") for event in seen] == [
        ("DELETED", "u1"),
        ("ADDED", "u2"),
    ]


@in_virtual_time
async def test_an_object_held_by_finalizers_is_replaced_only_after_it_has_gone() -> None:
    store = memory_store()
    await store.apply_all(put=[(config_map("a", uid="u1", finalizers=("x/hold",)), "f")])
    report = await store.apply_all(put=[(config_map("a", uid="u2"), "f")])
    assert report.waiting == [("ConfigMap", "ns", "a")]
    held = await store.get(CONFIG_MAP, "ns", "a")
    assert held.metadata.uid == "u1"
    assert held.metadata.deletion_timestamp
    await store.patch(CONFIG_MAP, "ns", "a", {"metadata": {"finalizers": None}})
    assert (await store.apply_all(put=[(config_map("a", uid="u2"), "f")])).created


@in_virtual_time
async def test_a_removed_manifest_that_comes_back_before_its_object_has_gone_is_waiting() -> None:
    store = memory_store()
    await store.apply_all(put=[(config_map("a", finalizers=("x/hold",)), "f")])
    await store.apply_all(remove=[(CONFIG_MAP, "ns", "a")])
    report = await store.apply_all(put=[(config_map("a", finalizers=("x/hold",), k="new"), "f")])
    assert report.waiting == [("ConfigMap", "ns", "a")]
    assert (await store.get(CONFIG_MAP, "ns", "a")).metadata.deletion_timestamp


@in_virtual_time
async def test_dependents_that_are_applied_together_with_a_new_owner_stay() -> None:
    store = memory_store()
    old, new = config_map("owner", uid="u1"), config_map("owner", uid="u2")
    await store.apply_all(put=[(old, "f"), (owned_by(old, name="child"), "f")])
    child = await store.get(CONFIG_MAP, "ns", "child")
    await store.apply_all(put=[(new, "f"), (owned_by(new, name="child"), "f")])
    assert (await store.get(CONFIG_MAP, "ns", "child")).metadata.uid == child.metadata.uid


@in_virtual_time
async def test_origins_name_the_manifest_of_each_applied_object() -> None:
    store = memory_store()
    await store.create(config_map("made"))
    await store.apply_all(put=[(config_map("a"), "one.yaml"), (Node(metadata=ObjectMeta(name="n")), "two.yaml")])
    assert store.origins() == {("ConfigMap", "ns", "a"): "one.yaml", ("Node", "", "n"): "two.yaml"}
    version = store.resource_version
    assert (await store.apply_all(put=[(config_map("a"), "moved.yaml")])).unchanged
    assert store.origins()["ConfigMap", "ns", "a"] == "moved.yaml"
    assert store.resource_version == version
    await store.delete(NODE, "", "n")
    assert list(store.origins()) == [("ConfigMap", "ns", "a")]


@in_virtual_time
async def test_a_namespace_on_a_cluster_scoped_object_is_dropped() -> None:
    store = memory_store()
    node = Node(metadata=ObjectMeta(name="n", namespace="ns"))
    assert (await store.apply_all(put=[(node, "f")])).created == [("Node", "", "n")]
    assert (await store.apply_all(put=[(node, "f")])).unchanged == [("Node", "", "n")]
    assert (await store.get(NODE, "ns", "n")).metadata.namespace == ""


@in_virtual_time
async def test_text_that_is_not_unicode_is_refused() -> None:
    with pytest.raises(Invalid, match="not Unicode"):
        await memory_store().apply_all(put=[(config_map("a", half="\ud800"), "f")])


@in_virtual_time
async def test_finalizers_of_a_manifest_come_and_go_with_it_and_leave_those_of_others() -> None:
    store = memory_store()
    await store.apply_all(put=[(config_map("a", finalizers=("mine/1",)), "f")])
    await store.patch(CONFIG_MAP, "ns", "a", {"metadata": {"finalizers": ["mine/1", "other/1"]}})
    await store.apply_all(put=[(config_map("a", finalizers=("mine/2",)), "f")])
    assert (await store.get(CONFIG_MAP, "ns", "a")).metadata.finalizers == ("other/1", "mine/2")


@in_virtual_time
async def test_the_same_manifest_again_restores_what_others_changed_of_it() -> None:
    store = memory_store()
    await store.apply_all(put=[(config_map("a", said="1"), "f")])
    await store.patch(CONFIG_MAP, "ns", "a", {"data": {"said": "changed"}})
    assert (await store.apply_all(put=[(config_map("a", said="1"), "f")])).changed
    assert (await store.get(CONFIG_MAP, "ns", "a")).data == {"said": "1"}


@in_virtual_time
async def test_an_owner_that_a_failed_transaction_wanted_to_remove_still_counts_as_owner() -> None:
    store = memory_store()
    one, two = [await store.create(config_map(name)) for name in ("one", "two")]
    await store.create(owned_by(one, two, name="shared"))
    nameless = ConfigMap(metadata=ObjectMeta(namespace="ns"))
    with pytest.raises(Invalid):
        await store.apply_all(remove=[(CONFIG_MAP, "ns", "two")], put=[(nameless, "f")])
    await store.delete(CONFIG_MAP, "ns", "one")
    assert await names_in(store) == ["shared", "two"]
