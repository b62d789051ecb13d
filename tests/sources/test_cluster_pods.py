"""Pods of a cluster, told of once what they need is known, and single objects asked for by need."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import pytest
from msgspec import structs
from tests.sources.test_informed_pods import config_map, put

from mooring.daemon.agent_parts import attachment_names, of_this_node, run_when_listed
from mooring.errors import NotYet
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore
from mooring.kube.object_tracking import ObjectKey
from mooring.kube.objects import ObjectMeta, Pod, PodSpec
from mooring.kube.objects.kinds import CLAIM, CONFIG_MAP, PERSISTENT_VOLUME, POD, VOLUME_ATTACHMENT, Kind, ObjectT
from mooring.kube.objects.pod import MIRROR
from mooring.kube.objects.storage import (
    CSIDriver,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
)
from mooring.kube.objects.volumes import ConfigMapVolumeSource, PersistentVolumeClaimVolumeSource, Volume
from mooring.plugins.interface import ObjectRef
from mooring.sources.cluster_objects import ClusterObjects
from mooring.sources.cluster_pods import ClusterPods
from mooring.sources.trust_bundles import TrustBundles
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid, VolumeName


class Server(LocalStore):
    """A store that writes down which single objects it is asked for, and can keep its answers to itself."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.silent_about: set[str] = set()
        self.answers = asyncio.Event()
        self.answers.set()

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        self.asked.append(f"{kind.name} {name}")
        await self.answers.wait()
        if name in self.silent_about:
            await asyncio.Event().wait()
        return await super().get(kind, namespace, name)

    async def served(self, kind: Kind[ObjectT]) -> Kind[ObjectT] | None:
        return kind


class Scene:
    """A node's pods at work, what is told, and what was known at that moment."""

    def __init__(self, store: Server) -> None:
        factory = SharedInformerFactory(store, tweak=partial(of_this_node, "here"))
        self.factory, self.told, self.known_then = factory, list[str](), list[bool]()
        self.objects = ClusterObjects(store, factory, TrustBundles(store), "here", watches_content=False)
        self.pods = ClusterPods(factory, self.objects, self, self.references)

    def references(self, pod: Pod) -> set[ObjectRef]:
        found = set()
        for volume in pod.spec.volumes:
            if volume.config_map is not None:
                found.add(ObjectRef(CONFIG_MAP.name, pod.metadata.namespace, volume.config_map.name))
            if volume.persistent_volume_claim is not None:
                name = volume.persistent_volume_claim.claim_name
                found.add(ObjectRef(CLAIM.name, pod.metadata.namespace, name))
                with suppress(NotYet):
                    claim = self.objects.claim(pod.metadata.namespace, name)
                    if claim is not None and claim.spec.volume_name:
                        found.add(ObjectRef(PERSISTENT_VOLUME.name, "", claim.spec.volume_name))
                        found.add(ObjectRef(VOLUME_ATTACHMENT.name, "", f"attachment-of-{claim.spec.volume_name}"))
        return found

    def pod_changed(self, pod: Pod) -> None:
        self.told.append(f"changed {pod.metadata.uid}")
        self.known_then.append(self.objects.are_known(self.objects.keys_of(self.references(pod))))

    def pod_removed(self, uid: PodUid) -> None:
        self.told.append(f"removed {uid}")

    def object_changed(self, ref: ObjectRef) -> None:
        self.told.append(f"object {ref.kind} {ref.name}")


@asynccontextmanager
async def scene(store: Server, *before: Pod) -> AsyncIterator[Scene]:
    """With the pods that were there when the node last knew of any."""
    made = Scene(store)
    async with asyncio.TaskGroup() as tasks:
        made.factory.informer(POD)
        if before:
            made.factory.seed(before)
        made.factory.start(tasks)
        work = [
            tasks.create_task(run_when_listed(made.pods, made.objects.tracked)),
            tasks.create_task(made.pods.run()),
        ]
        await asyncio.sleep(0)
        yield made
        for task in work:
            task.cancel()
        made.factory.stop()


def pod(name: str, *volumes: Volume, node: str = "here", mirrors: bool = False) -> Pod:
    annotations = {MIRROR: "hash"} if mirrors else {}
    meta = ObjectMeta(name=name, namespace="shop", uid=f"uid-{name}", annotations=annotations)
    return Pod(metadata=meta, spec=PodSpec(node_name=node, volumes=volumes))


def shows(name: str) -> Volume:
    return Volume(name=name, config_map=ConfigMapVolumeSource(name=name))


USES_CLAIM = Volume(name="data", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name="data"))


def claim(volume: str) -> PersistentVolumeClaim:
    meta = ObjectMeta(name="data", namespace="shop", uid="uid-claim")
    return PersistentVolumeClaim(metadata=meta, spec=PersistentVolumeClaimSpec(volume_name=volume))


def bound(one: PersistentVolumeClaim) -> PersistentVolumeClaim:
    return structs.replace(one, status=PersistentVolumeClaimStatus(phase="Bound"))


@in_virtual_time
async def test_a_pod_is_told_of_once_the_server_has_answered_for_what_it_needs() -> None:
    store = Server()
    store.answers.clear()
    await put(store, pod("web", shows("c")), config_map("c"))
    async with scene(store) as made:
        await asyncio.sleep(1)
        assert (made.told, made.pods.heard.is_set()) == ([], False)
        store.answers.set()
        await made.pods.heard.wait()
        assert (made.told[-1], made.known_then) == ("changed uid-web", [True])


@in_virtual_time
async def test_a_pod_does_not_wait_for_ever_for_a_server_that_is_silent() -> None:
    store = Server()
    store.answers.clear()
    await put(store, pod("web", shows("c")), config_map("c"))
    async with scene(store) as made:
        before = asyncio.get_running_loop().time()
        await made.pods.heard.wait()
        assert asyncio.get_running_loop().time() - before == pytest.approx(2.0, abs=0.1)
        assert (made.told, made.known_then) == (["changed uid-web"], [False])
        with pytest.raises(NotYet, match="the API server has not answered yet"):
            made.objects.config_map("shop", "c")


@in_virtual_time
async def test_a_new_pod_waits_for_a_new_look_at_what_an_older_one_uses() -> None:
    store = Server()
    await store.create(bound(claim("first")))
    await put(store, pod("old", USES_CLAIM))
    async with scene(store) as made:
        await made.pods.heard.wait()
        await store.delete(CLAIM, "shop", "data")
        await store.create(bound(claim("second")))
        await put(store, pod("new", USES_CLAIM))
        await asyncio.sleep(10)
        assert made.told.index("changed uid-new") > made.told.index("object PersistentVolume second")


@in_virtual_time
async def test_an_object_that_is_missing_is_known_to_be_and_is_told_of_when_it_comes() -> None:
    store = Server()
    await put(store, pod("web", shows("c")))
    async with scene(store) as made:
        await made.pods.heard.wait()
        assert made.objects.config_map("shop", "c") is None
        await put(store, config_map("c"))
        await asyncio.sleep(60)  # what is read and not watched is looked at again once a minute
        assert made.told[-1] == "object ConfigMap c"
        assert made.objects.config_map("shop", "c") is not None


@in_virtual_time
async def test_only_pods_of_this_node_are_told_of_and_no_mirrors() -> None:
    store = Server()
    await put(store, pod("mine"), pod("other", shows("c"), node="elsewhere"), pod("shadow", mirrors=True))
    async with scene(store) as made:
        await made.pods.heard.wait()
        assert made.told == ["changed uid-mine"]
        assert store.asked == []


@in_virtual_time
async def test_what_a_claim_tells_of_is_asked_for_before_the_pod_is_told_of() -> None:
    store = Server()
    await put(store, pod("web", USES_CLAIM))
    await store.apply_all(put=[(claim("pv"), "test"), (PersistentVolume(metadata=ObjectMeta(name="pv")), "test")])
    async with scene(store) as made:
        await made.pods.heard.wait()
        assert made.known_then == [True]
        assert store.asked == ["PersistentVolumeClaim data", "PersistentVolume pv"]
        assert made.objects.persistent_volume("pv") is not None


@in_virtual_time
async def test_an_attachment_is_asked_for_once_the_node_is_said_to_have_it() -> None:
    store = Server()
    await put(store, pod("web", USES_CLAIM))
    await store.apply_all(put=[(claim("pv"), "test"), (PersistentVolume(metadata=ObjectMeta(name="pv")), "test")])
    async with scene(store) as made:
        await made.pods.heard.wait()
        made.pods.attachments_told(frozenset({"attachment-of-pv"}))
        await asyncio.sleep(1)
        assert store.asked.count("VolumeAttachment attachment-of-pv") >= 1
        assert made.objects.volume_attachment("attachment-of-pv") is None


@in_virtual_time
async def test_an_object_that_cannot_be_read_does_not_hold_up_the_content_that_its_pods_share() -> None:
    store = Server()
    store.silent_about = {"silent-0", "silent-1", "silent-2"}
    pods = [pod(f"web-{number}", shows("shared"), shows(f"silent-{number}")) for number in range(3)]
    await put(store, config_map("shared"), *pods)
    async with scene(store) as made:
        await made.pods.heard.wait()
        await asyncio.sleep(2)
        made.told.clear()
        await put(store, config_map("shared", "2"))
        made.objects.tracked.look_again(ObjectKey(CONFIG_MAP, "shop", "shared"))
        await asyncio.sleep(0.1)
        assert made.told == ["object ConfigMap shared"]


@in_virtual_time
async def test_a_claim_is_told_of_once_however_many_pods_wait_for_its_volume() -> None:
    store = Server()
    store.silent_about = {"pv"}
    await put(store, *(pod(f"web-{number}", USES_CLAIM) for number in range(3)))
    async with scene(store) as made:
        await made.pods.heard.wait()
        made.told.clear()
        await store.create(claim("pv"))
        made.objects.tracked.look_again(ObjectKey(CLAIM, "shop", "data"))
        await asyncio.sleep(1.9)
        assert made.told == []
        await asyncio.sleep(0.2)
        assert made.told == ["object PersistentVolumeClaim data"]


@in_virtual_time
async def test_a_pod_that_goes_is_told_of_and_what_it_needed_is_asked_for_no_more() -> None:
    store = Server()
    await put(store, pod("web", shows("c")), config_map("c"))
    async with scene(store) as made:
        await made.pods.heard.wait()
        await store.delete(POD, "shop", "web")
        await asyncio.sleep(1)
        assert made.told[-1] == "removed uid-web"
        asked = len(store.asked)
        await asyncio.sleep(600)
        assert len(store.asked) == asked


@in_virtual_time
async def test_a_pod_that_was_made_anew_while_nobody_looked_is_two_pods() -> None:
    store = Server()
    await put(store, pod("web"))
    async with scene(store) as made:
        await made.pods.heard.wait()
        old = pod("web")
        new = structs.replace(old, metadata=structs.replace(old.metadata, uid="uid-new"))
        made.pods._replaced(old, new)
        assert made.told == ["changed uid-web", "removed uid-web", "changed uid-new"]


@in_virtual_time
async def test_a_driver_that_was_made_while_nobody_looked_is_told_of() -> None:
    store = Server()
    await put(store, pod("web"))
    await store.create(CSIDriver(metadata=ObjectMeta(name="disk.csi.test")))
    async with scene(store, pod("web")) as made:
        await made.pods.heard.wait()
        assert "object CSIDriver disk.csi.test" in made.told


@in_virtual_time
async def test_nothing_is_asked_for_on_behalf_of_a_pod_that_went_while_nobody_looked() -> None:
    store = Server()
    await put(store, pod("stays", shows("c")), config_map("c"))
    async with scene(store, pod("stays", shows("c")), pod("went", shows("secret-of-others"))) as made:
        await made.pods.heard.wait()
        assert set(store.asked) == {"ConfigMap c"}
        assert "removed uid-went" in made.told or "changed uid-went" not in made.told
        assert "changed uid-stays" in made.told
        assert "removed uid-stays" not in made.told


def test_attachments_are_named_for_volumes_of_csi_drivers_and_for_no_others() -> None:
    attached = [VolumeName(name) for name in ("kubernetes.io/csi/d^v", "kubernetes.io/nfs/x", "kubernetes.io/csi/odd")]
    (name,) = attachment_names(attached, "node")
    assert name.startswith("csi-")
    assert attachment_names(attached, "other") != {name}
