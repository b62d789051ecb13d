"""Pods and objects as informers tell of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CONFIG_MAP, POD, SECRET
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import Node
from mooring.kube.objects.pod import ConfigMap, Pod, PodSpec, Secret
from mooring.plugins.interface import ObjectRef
from mooring.sources.informed import InformedObjects, InformedPods
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid


class Sink:
    """Writes down what it is told, and which ConfigMaps could be looked up then."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.objects: InformedObjects | None = None
        self.config_maps_known: list[bool] = []

    def pod_changed(self, pod: Pod) -> None:
        self.told.append(f"changed {pod.metadata.uid}")
        assert self.objects is not None
        self.config_maps_known.append(self.objects.config_map("shop", "c") is not None)

    def pod_removed(self, uid: PodUid) -> None:
        self.told.append(f"removed {uid}")

    def object_changed(self, ref: ObjectRef) -> None:
        self.told.append(f"object {ref.kind} {ref.namespace}/{ref.name}")


def pod(name: str, *, uid: str = "", node: str = "here", labels: dict[str, str] | None = None) -> Pod:
    meta = ObjectMeta(name=name, namespace="shop", uid=uid or f"uid-{name}", labels=labels or {})
    return Pod(metadata=meta, spec=PodSpec(node_name=node))


def config_map(name: str, value: str = "1") -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="shop"), data={"k": value})


@asynccontextmanager
async def informed(store: LocalStore) -> AsyncIterator[tuple[InformedPods, InformedObjects, Sink]]:
    """Informers over a store that tell a sink, until the end of the block."""
    factory, sink = SharedInformerFactory(store), Sink()
    objects = InformedObjects(factory, "here")
    factory.informer(POD)
    pods = InformedPods(factory, objects, sink, "here")
    sink.objects = objects
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        await pods.run()
        yield pods, objects, sink
        factory.stop()


async def put(store: LocalStore, *objects: Pod | ConfigMap | Secret | Node) -> None:
    """Store objects in one transaction, and let everybody hear of it."""
    await store.apply_all(put=[(obj, "test") for obj in objects])
    await asyncio.sleep(1)


@in_virtual_time
async def test_objects_are_known_before_pods_are_told_of() -> None:
    store = LocalStore()
    await put(store, pod("web"), config_map("c"))
    async with informed(store) as (pods, _, sink):
        assert pods.heard.is_set()
        assert (sink.told, sink.config_maps_known) == (["changed uid-web"], [True])


@in_virtual_time
async def test_a_pod_stored_together_with_its_config_map_is_told_of_after_it() -> None:
    store = LocalStore()
    async with informed(store) as (_, _, sink):
        await put(store, pod("web"), config_map("c"))
        assert sink.config_maps_known == [True]


@in_virtual_time
async def test_a_pod_is_told_of_after_all_that_was_stored_with_it_however_much_that_is() -> None:
    store = LocalStore()
    async with informed(store) as (_, _, sink):
        await put(store, pod("web"), *(config_map(f"m{number}") for number in range(500)), config_map("c"))
        assert sink.config_maps_known == [True]


@in_virtual_time
async def test_pods_of_other_nodes_are_none_of_our_business() -> None:
    store = LocalStore()
    await put(store, pod("ours"), pod("theirs", node="there"))
    async with informed(store) as (pods, _, sink):
        assert sink.told == ["changed uid-ours"]
        await pods.until_told(await store.get(POD, "shop", "theirs"))


@in_virtual_time
async def test_a_pod_of_the_only_node_object_is_ours_whatever_it_is_called() -> None:
    store = LocalStore()
    await put(store, Node(metadata=ObjectMeta(name="other-name")), pod("web", node="other-name"))
    async with informed(store) as (_, objects, sink):
        node = objects.node()
        assert node is not None
        assert (node.metadata.name, sink.told) == ("other-name", ["changed uid-web"])


@in_virtual_time
async def test_a_changed_pod_is_told_of_again_and_a_deleted_one_as_removed() -> None:
    store = LocalStore()
    await put(store, pod("web"))
    async with informed(store) as (_, _, sink):
        await put(store, pod("web", labels={"a": "b"}))
        await store.delete(POD, "shop", "web")
        await asyncio.sleep(1)
        assert sink.told == ["changed uid-web", "changed uid-web", "removed uid-web"]


@in_virtual_time
async def test_a_pod_made_anew_under_its_name_is_removed_and_added() -> None:
    store = LocalStore()
    await put(store, pod("web", uid="old"))
    async with informed(store) as (_, _, sink):
        await put(store, pod("web", uid="new"))
        assert sink.told == ["changed old", "removed old", "changed new"]


@in_virtual_time
async def test_a_pod_that_moves_to_another_node_is_removed_here() -> None:
    store = LocalStore()
    await put(store, pod("web"))
    async with informed(store) as (_, _, sink):
        await store.patch(POD, "shop", "web", {"spec": {"nodeName": "there"}})
        await asyncio.sleep(1)
        assert sink.told == ["changed uid-web", "removed uid-web"]


@in_virtual_time
async def test_new_changed_and_deleted_objects_are_told_of_and_initial_ones_are_not() -> None:
    store = LocalStore()
    await put(store, config_map("early"))
    async with informed(store) as (_, _, sink):
        assert sink.told == []
        await put(store, config_map("late"))
        await put(store, config_map("late", "2"))
        await store.delete(CONFIG_MAP, "shop", "late")
        await put(store, Secret(metadata=ObjectMeta(name="s", namespace="shop")))
        await store.delete(SECRET, "shop", "s")
        await asyncio.sleep(1)
        assert sink.told == ["object ConfigMap shop/late"] * 3 + ["object Secret shop/s"] * 2


@in_virtual_time
async def test_until_told_returns_when_the_sink_knows_the_version_that_was_stored() -> None:
    store = LocalStore()
    async with informed(store) as (pods, _, sink):
        await store.apply_all(put=[(pod("web"), "test")])
        assert sink.told == []
        await pods.until_told(await store.get(POD, "shop", "web"))
        assert sink.told == ["changed uid-web"]


@in_virtual_time
async def test_until_told_does_not_wait_for_ever_for_a_pod_that_was_deleted_again() -> None:
    store = LocalStore()
    async with informed(store) as (pods, _, _):
        await put(store, pod("web"))
        stored = await store.get(POD, "shop", "web")
        await store.delete(POD, "shop", "web")
        await asyncio.sleep(1)
        await pods.until_told(stored)


@in_virtual_time
async def test_namespaces_that_have_an_object_of_a_name_are_listed() -> None:
    store = LocalStore()
    for namespace in ("b", "a"):
        await put(store, ConfigMap(metadata=ObjectMeta(name="c", namespace=namespace)))
    async with informed(store) as (_, objects, _):
        assert objects.namespaces_with("ConfigMap", "c") == ["a", "b"]
        assert objects.namespaces_with("Secret", "c") == []
