"""What a cluster is shown of pods that a node has from manifests (informers.md 8.5)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from msgspec.structs import replace

from mooring.controllers.mirror_pods import Create, MirrorPods, Remove, due, mirror_of
from mooring.daemon.agent_parts import of_this_node
from mooring.kube.api import Forbidden
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import NODE, POD, ObjectT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import Node
from mooring.kube.objects.pod import MIRROR, Container, Pod, PodSpec
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid

NODE_OBJECT = Node(metadata=ObjectMeta(name="edge", uid="uid-node"))
CONTAINER = Container(name="main", image="one")
META = ObjectMeta(name="web", namespace="shop", uid="uid-web", labels={"app": "web"}, annotations={"note": "1"})
WEB = Pod(metadata=META, spec=PodSpec(node_name="edge", containers=(CONTAINER,), service_account_name="default"))
KEY = "shop/web-edge"


def showing(*pods: Pod) -> dict[str, Pod]:
    return {mirror.key: mirror for mirror in (mirror_of(pod, NODE_OBJECT) for pod in pods)}


def in_api(pod: Pod, **metadata: object) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, **{"uid": "uid-mirror", **metadata}))


def test_a_mirror_belongs_to_its_node_and_has_a_name_of_its_own() -> None:
    mirror = mirror_of(WEB, NODE_OBJECT)
    meta, (owner,) = mirror.metadata, mirror.metadata.owner_references
    assert (mirror.key, meta.uid, meta.labels, meta.annotations["note"]) == (KEY, "", {"app": "web"}, "1")
    assert meta.annotations[MIRROR] == meta.annotations["kubernetes.io/config.hash"]
    assert (owner.kind, owner.name, owner.uid, owner.controller) == ("Node", "edge", "uid-node", True)
    assert (mirror.spec.containers, mirror.spec.service_account_name) == ((CONTAINER,), "")
    assert {"operator": "Exists", "effect": "NoExecute"} in mirror.spec.tolerations


def test_a_mirror_has_another_hash_when_its_pod_changes() -> None:
    changed = replace(WEB, spec=replace(WEB.spec, containers=(replace(CONTAINER, image="two"),)))
    hashes = {mirror_of(pod, NODE_OBJECT).metadata.annotations[MIRROR] for pod in (WEB, changed, WEB)}
    assert len(hashes) == 2


def test_a_mirror_is_made_once_and_stays_while_it_shows_its_pod() -> None:
    wanted = showing(WEB)
    assert due(wanted, [], NODE_OBJECT) == [Create(wanted[KEY])]
    assert due(wanted, [in_api(wanted[KEY])], NODE_OBJECT) == []


def test_a_mirror_that_shows_something_else_is_removed_first() -> None:
    """M2, M3."""
    wanted = showing(WEB)
    right = in_api(wanted[KEY])
    other = in_api(right, annotations={**right.metadata.annotations, MIRROR: "other"})
    of_former_node = in_api(right, owner_references=(replace(right.metadata.owner_references[0], uid="former"),))
    leaving = in_api(right, deletion_timestamp="2026-01-01T00:00:00Z")
    for wrong in (other, of_former_node, leaving):
        assert due(wanted, [wrong], NODE_OBJECT) == [Remove(wrong)]
    assert due({}, [right], NODE_OBJECT) == [Remove(right)]


def test_pods_that_are_no_mirrors_of_this_node_are_left_alone() -> None:
    mirror = in_api(showing(WEB)[KEY])
    plain = in_api(mirror, annotations={})
    by_hand = in_api(mirror, owner_references=())
    marks = {key: value for key, value in mirror.metadata.annotations.items() if not key.startswith("mooring.dev/")}
    of_a_kubelet = in_api(mirror, annotations=marks)
    for other in (plain, by_hand, of_a_kubelet):
        assert due(showing(WEB), [other], NODE_OBJECT) == []
        assert due({}, [other], NODE_OBJECT) == []


class Server(LocalStore):
    """A store that may refuse to take objects of some namespaces."""

    refuses: frozenset[str] = frozenset()

    async def create(self, obj: ObjectT) -> ObjectT:
        if obj.metadata.namespace in self.refuses:
            raise Forbidden("cannot create", why="namespace 'shop' does not exist")
        return await super().create(obj)

    async def mirrors(self) -> dict[str, Pod]:
        return {pod.key: pod for pod in (await self.list(POD)).items}


@asynccontextmanager
async def at_work(server: Server) -> AsyncIterator[MirrorPods]:
    factory = SharedInformerFactory(server, tweak=partial(of_this_node, "edge"))
    mirrors = MirrorPods(server, factory, "edge", random_source=random.Random(1))
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        await factory.wait_for_cache_sync()
        running = tasks.create_task(mirrors.run())
        yield mirrors
        running.cancel()
        factory.stop()


@in_virtual_time
async def test_mirrors_come_change_and_go_with_their_pods() -> None:
    server = Server()
    pause = partial(asyncio.sleep, 1)
    async with at_work(server) as mirrors:
        mirrors.pod_changed(WEB)
        await pause()
        assert await server.mirrors() == {}  # there is no Node yet
        await server.create(Node(metadata=ObjectMeta(name="edge")))
        await pause()
        first = (await server.mirrors())[KEY]
        mirrors.pod_changed(replace(WEB, spec=replace(WEB.spec, containers=(replace(CONTAINER, image="two"),))))
        await pause()
        second = (await server.mirrors())[KEY]
        assert (second.metadata.uid != first.metadata.uid, second.spec.containers[0].image) == (True, "two")
        await server.delete(POD, "shop", "web-edge")
        await pause()
        third = (await server.mirrors())[KEY]
        assert third.metadata.uid != second.metadata.uid
        await server.delete(NODE, "", "edge")
        await server.create(Node(metadata=ObjectMeta(name="edge")))
        await pause()
        node = await server.get(NODE, "", "edge")
        assert (await server.mirrors())[KEY].metadata.owner_references[0].uid == node.metadata.uid
        mirrors.pod_removed(PodUid("uid-web"))
        mirrors.pod_removed(PodUid("uid-unknown"))
        await pause()
        assert await server.mirrors() == {}


@in_virtual_time
async def test_a_mirror_that_is_refused_is_told_and_tried_again() -> None:
    server = Server()
    await server.create(Node(metadata=ObjectMeta(name="edge")))
    server.refuses = frozenset({"shop"})
    async with at_work(server) as mirrors:
        mirrors.pod_changed(WEB)
        await asyncio.sleep(300)
        (finding,) = mirrors.findings()
        assert (finding.where, "does not exist" in finding.what) == (KEY, True)
        server.refuses = frozenset()
        mirrors.hurry()
        await asyncio.sleep(1)
        assert (list(await server.mirrors()), mirrors.findings()) == ([KEY], [])


@in_virtual_time
async def test_a_mirror_does_not_wait_for_one_that_is_refused() -> None:
    server = Server()
    await server.create(Node(metadata=ObjectMeta(name="edge")))
    server.refuses = frozenset({"shop"})
    async with at_work(server) as mirrors:
        mirrors.pod_changed(WEB)
        await asyncio.sleep(300)
        mirrors.pod_changed(replace(WEB, metadata=replace(META, namespace="park", uid="uid-park")))
        await asyncio.sleep(0.1)
        assert list(await server.mirrors()) == ["park/web-edge"]


@in_virtual_time
async def test_a_pod_elsewhere_that_has_the_name_of_a_mirror_is_told_of() -> None:
    server = Server()
    await server.create(Node(metadata=ObjectMeta(name="edge")))
    other = Pod(metadata=ObjectMeta(name="web-edge", namespace="shop"), spec=PodSpec(containers=(CONTAINER,)))
    async with at_work(server) as mirrors:
        await server.create(other)
        mirrors.pod_changed(WEB)
        await asyncio.sleep(10)
        assert [finding.where for finding in mirrors.findings()] == [KEY]
