"""The local store's rules for writes and owners, beyond the conformance suite."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from mooring.kube.api import (
    Invalid,
    NotFound,
)
from mooring.kube.local_store import LocalStore
from mooring.kube.objects import (
    ConfigMap,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    Secret,
)
from mooring.kube.objects.kinds import CONFIG_MAP, POD, SECRET
from mooring.kube.objects.node import NodeStatus
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
async def test_identity_and_time_come_from_the_functions_handed_in() -> None:
    created = await memory_store().create(config_map("a"))
    meta = created.metadata
    assert (meta.uid, meta.creation_timestamp, meta.generation) == ("uid-1", "2030-01-01T00:00:00Z", 1)


@in_virtual_time
async def test_a_uid_that_the_object_carries_is_kept() -> None:
    created = await memory_store().create(config_map("a", uid="mine"))
    assert created.metadata.uid == "mine"


@in_virtual_time
async def test_every_write_has_a_version_of_its_own() -> None:
    store = memory_store()
    before = int(store.resource_version)
    await store.create(config_map("a"))
    await store.patch(CONFIG_MAP, "ns", "a", {"data": {"k": "v"}})
    await store.delete(CONFIG_MAP, "ns", "a")
    assert int(store.resource_version) == before + 3


@in_virtual_time
async def test_the_generation_counts_changes_outside_metadata_and_status() -> None:
    store = memory_store()
    await store.create(Pod(metadata=ObjectMeta(name="a", namespace="ns")))
    labelled = await store.patch(POD, "ns", "a", {"metadata": {"labels": {"l": "v"}}})
    reported = await store.patch(POD, "ns", "a", {"status": {"phase": "Running"}}, subresource="status")
    scheduled = await store.patch(POD, "ns", "a", {"spec": {"nodeName": "n1"}})
    generations = [version.metadata.generation for version in (labelled, reported, scheduled)]
    assert generations == [1, 1, 2]


@in_virtual_time
async def test_a_new_pod_is_pending_whatever_its_creator_says_but_a_node_may_report_itself() -> None:
    store = memory_store()
    pod = Pod(metadata=ObjectMeta(name="a", namespace="ns"), status=PodStatus(phase="Running"))
    assert (await store.create(pod)).status.phase == "Pending"
    node = Node(metadata=ObjectMeta(name="n"), status=NodeStatus(volumes_in_use=("v",)))
    assert (await store.create(node)).status.volumes_in_use == ("v",)


@in_virtual_time
async def test_a_secrets_string_data_becomes_data() -> None:
    store = memory_store()
    await store.create(Secret(metadata=ObjectMeta(name="s", namespace="ns"), string_data={"user": "me"}))
    patched = await store.patch(SECRET, "ns", "s", {"stringData": {"password": "x"}})
    assert (patched.data, patched.string_data) == ({"user": b"me", "password": b"x"}, {})


@pytest.mark.parametrize(
    ("obj", "why"),
    [
        (ConfigMap(metadata=ObjectMeta(name="a")), "none is given"),
        (ConfigMap(metadata=ObjectMeta(namespace="ns")), "needs a name"),
        (ConfigMap(metadata=ObjectMeta(name="a/b", namespace="ns")), "without '/'"),
        (ConfigMap(metadata=ObjectMeta(name="a", namespace="ns", resource_version="5")), "must not be set"),
    ],
)
def test_an_object_without_a_proper_address_is_refused(obj: ConfigMap, why: str) -> None:
    @in_virtual_time
    async def run() -> None:
        with pytest.raises(Invalid, match=why):
            await memory_store().create(obj)

    run()


@pytest.mark.parametrize(
    "patch",
    [
        {"metadata": {"name": "b"}},
        {"metadata": {"namespace": "other"}},
        {"metadata": {"uid": None}},
        {"metadata": {"creationTimestamp": "2000-01-01T00:00:00Z"}},
        {"metadata": {"deletionTimestamp": "2000-01-01T00:00:00Z"}},
        {"kind": "Secret"},
        {"data": {"k": 5}},
        {"data": ["k"]},
    ],
)
def test_a_patch_of_what_cannot_change_is_refused_and_changes_nothing(patch: dict[str, Any]) -> None:
    @in_virtual_time
    async def run() -> None:
        store = memory_store()
        before = await store.create(config_map("a"))
        with pytest.raises(Invalid, match="cannot patch ConfigMap 'ns/a'"):
            await store.patch(CONFIG_MAP, "ns", "a", patch)
        assert await store.get(CONFIG_MAP, "ns", "a") == before

    run()


@in_virtual_time
async def test_a_kind_without_status_has_no_status_subresource() -> None:
    store = memory_store()
    await store.create(config_map("a"))
    with pytest.raises(NotFound, match="has no subresource 'status'"):
        await store.patch(CONFIG_MAP, "ns", "a", {"status": {}}, subresource="status")


@in_virtual_time
async def test_an_object_being_deleted_takes_no_new_finalizer() -> None:
    store = memory_store()
    await store.create(config_map("a", finalizers=("x/hold",)))
    await store.delete(CONFIG_MAP, "ns", "a")
    with pytest.raises(Invalid, match="no finalizer can be added"):
        await store.patch(CONFIG_MAP, "ns", "a", {"metadata": {"finalizers": ["x/hold", "y/hold"]}})


@in_virtual_time
async def test_the_last_finalizer_of_a_living_object_can_be_removed_without_deleting_it() -> None:
    store = memory_store()
    await store.create(config_map("a", finalizers=("x/hold",)))
    await store.patch(CONFIG_MAP, "ns", "a", {"metadata": {"finalizers": None}})
    assert await names_in(store) == ["a"]


@in_virtual_time
async def test_dependents_go_with_their_last_owner_down_all_generations() -> None:
    store = memory_store()
    parent = await store.create(config_map("parent"))
    child = await store.create(owned_by(parent, name="child"))
    await store.create(owned_by(child, name="grandchild"))
    await store.delete(CONFIG_MAP, "ns", "parent")
    assert await names_in(store) == []


@in_virtual_time
async def test_a_dependent_with_another_living_owner_stays() -> None:
    store = memory_store()
    one, two = [await store.create(config_map(name)) for name in ("one", "two")]
    await store.create(owned_by(one, two, name="shared"))
    await store.delete(CONFIG_MAP, "ns", "one")
    assert await names_in(store) == ["shared", "two"]
    await store.delete(CONFIG_MAP, "ns", "two")
    assert await names_in(store) == []


@in_virtual_time
async def test_an_owner_of_a_kind_unknown_here_does_not_cost_its_dependents() -> None:
    store = memory_store()
    replica_set = ConfigMap(metadata=ObjectMeta(name="elsewhere", uid="not-here"))
    await store.create(owned_by(replica_set, name="pod-like"))
    await store.create(config_map("other"))
    await store.delete(CONFIG_MAP, "ns", "other")
    assert await names_in(store) == ["pod-like"]


@in_virtual_time
async def test_a_finalizer_holds_a_dependent_and_an_owner_held_by_one_keeps_its_dependents() -> None:
    store = memory_store()
    owner = await store.create(config_map("owner", finalizers=("x/hold",)))
    await store.create(owned_by(owner, name="held", finalizers=("x/hold",)))
    await store.delete(CONFIG_MAP, "ns", "owner")
    assert (await store.get(CONFIG_MAP, "ns", "held")).metadata.deletion_timestamp is None
    await store.patch(CONFIG_MAP, "ns", "owner", {"metadata": {"finalizers": None}})
    assert (await store.get(CONFIG_MAP, "ns", "held")).metadata.deletion_timestamp
