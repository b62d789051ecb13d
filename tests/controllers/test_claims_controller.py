"""Claims and volumes find each other in the store, and are held while they are used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from msgspec import structs

from mooring.controllers.claims_controller import ClaimsController
from mooring.controllers.protection import keeps_claim
from mooring.engine.pending import Backoff
from mooring.kube.api import ListOptions, NotFound, ObjectList
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CLAIM, PERSISTENT_VOLUME, POD, STORAGE_CLASS, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta, ObjectReference, OwnerReference
from mooring.kube.objects.pod import Pod, PodSpec, ResourceRequirements
from mooring.kube.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
)
from mooring.kube.objects.volumes import (
    EphemeralVolumeSource,
    HostPathVolumeSource,
    PersistentVolumeClaimVolumeSource,
    Volume,
)
from mooring.testing.virtual_time import in_virtual_time

SETTLED = 1.0
ANY = ListOptions()


def pod(claim: str, *, on: str = "") -> Pod:
    volume = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))
    return Pod(metadata=ObjectMeta(name="web", namespace="shop"), spec=PodSpec(node_name=on, volumes=(volume,)))


class Ahead(LocalStore):
    """A store that lists pods of which its watchers have not heard yet."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: "2026-01-01T00:00:00Z")
        self.unheard: list[Pod] = []

    async def list(self, kind: Kind[ObjectT], options: ListOptions = ANY) -> ObjectList[ObjectT]:
        found = await super().list(kind, options)
        unheard = [each for each in self.unheard if isinstance(each, kind.type)]
        return replace(found, items=(*found.items, *unheard))


@dataclass
class Bench:
    """A store with the controller at work on it."""

    store: Ahead
    controller: ClaimsController
    held: set[str] = field(default_factory=set)
    told: list[tuple[str, str]] = field(default_factory=list)

    async def put_volume(self, name: str, size: str = "10Gi", **spec: object) -> None:
        made = PersistentVolumeSpec(
            capacity={"storage": size}, access_modes=("ReadWriteOnce",), host_path=HostPathVolumeSource(path="/x")
        )
        meta = ObjectMeta(name=name)
        await self.store.create(PersistentVolume(metadata=meta, spec=structs.replace(made, **spec)))
        await asyncio.sleep(SETTLED)

    async def put_claim(self, name: str = "data", size: str = "1Gi", **spec: object) -> None:
        made = PersistentVolumeClaimSpec(
            access_modes=("ReadWriteOnce",),
            resources=ResourceRequirements(requests={"storage": size}),
            storage_class_name="",
        )
        meta = ObjectMeta(name=name, namespace="shop")
        await self.store.create(PersistentVolumeClaim(metadata=meta, spec=structs.replace(made, **spec)))
        await asyncio.sleep(SETTLED)

    async def put_pod(self, claim: str, *, on: str = "") -> None:
        await self.store.create(pod(claim, on=on))
        await asyncio.sleep(SETTLED)

    async def delete_claim(self, name: str = "data") -> bool:
        """Whether it is gone then."""
        await self.store.delete(CLAIM, "shop", name)
        await asyncio.sleep(SETTLED)
        return await self.is_gone(name)

    async def is_gone(self, name: str = "data") -> bool:
        return all(each.metadata.name != name for each in (await self.store.list(CLAIM)).items)

    async def claim(self, name: str = "data") -> PersistentVolumeClaim:
        return await self.store.get(CLAIM, "shop", name)

    async def volume(self, name: str) -> PersistentVolume:
        return await self.store.get(PERSISTENT_VOLUME, "", name)


@asynccontextmanager
async def at_work(*, scheduled: bool = False) -> AsyncIterator[Bench]:
    store = Ahead()
    async with store:
        factory = SharedInformerFactory(store)
        bench: Bench
        controller = ClaimsController(
            store,
            factory,
            is_held=lambda claim: claim.key in bench.held,
            fits_node=lambda volume: True,
            now=lambda: "2026-01-01T00:00:00Z",
            tell=lambda claim, reason, message: bench.told.append((claim.key, reason)),
            backoff=Backoff(),
            resync_interval=3600.0,
            scheduled=scheduled,
        )
        bench = Bench(store, controller)
        async with asyncio.TaskGroup() as tasks:
            factory.start(tasks)
            running = tasks.create_task(controller.run())
            await asyncio.sleep(SETTLED)
            yield bench
            running.cancel()
            factory.stop()


@in_virtual_time
async def test_a_claim_and_a_volume_that_fit_are_bound_to_each_other() -> None:
    """B1."""
    async with at_work() as bench:
        await bench.put_volume("disk")
        assert (await bench.volume("disk")).status.phase == "Available"
        await bench.put_claim()
        claim, volume = await bench.claim(), await bench.volume("disk")
        assert (claim.status.phase, claim.spec.volume_name, claim.status.capacity) == (
            "Bound",
            "disk",
            {"storage": "10Gi"},
        )
        assert (volume.status.phase, volume.spec.claim_ref and volume.spec.claim_ref.uid) == (
            "Bound",
            claim.metadata.uid,
        )
        assert claim.status.conditions == ()


@pytest.mark.parametrize(("noted", "has"), [("1Gi", "1Gi"), ("much", "10Gi")])
def test_a_claim_has_of_a_volume_that_nodes_have_yet_to_grow_what_was_there_before(noted: str, has: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with at_work() as bench:
            await bench.put_volume("disk")
            annotations = {"volume.alpha.kubernetes.io/pre-resize-capacity": noted}
            await bench.store.patch(PERSISTENT_VOLUME, "", "disk", {"metadata": {"annotations": annotations}})
            await bench.put_claim()
            assert (await bench.claim()).status.capacity == {"storage": has}

    run()


@in_virtual_time
async def test_a_claim_without_a_volume_waits_with_a_reason_and_is_bound_when_one_appears() -> None:
    async with at_work() as bench:
        await bench.put_claim()
        waiting = await bench.claim()
        assert waiting.status.phase == "Pending"
        assert "no persistent volumes available" in waiting.status.conditions[0].message
        assert bench.told == [("shop/data", "FailedBinding")]
        await bench.put_volume("disk")
        assert (await bench.claim()).status.phase == "Bound"


@in_virtual_time
async def test_a_named_volume_that_does_not_fit_is_a_mismatch() -> None:
    """B6."""
    async with at_work() as bench:
        await bench.put_volume("disk", "1Mi")
        await bench.put_claim(volume_name="disk")
        claim = await bench.claim()
        assert (claim.status.phase, claim.status.conditions[0].reason) == ("Pending", "VolumeMismatch")


@in_virtual_time
async def test_a_bound_claim_whose_volume_vanished_is_lost_for_good() -> None:
    """B8."""
    async with at_work() as bench:
        await bench.put_volume("disk")
        await bench.put_claim()
        await bench.store.delete(PERSISTENT_VOLUME, "", "disk")
        await bench.store.patch(PERSISTENT_VOLUME, "", "disk", {"metadata": {"finalizers": None}})
        await asyncio.sleep(SETTLED)
        assert (await bench.claim()).status.phase == "Lost"
        await bench.put_volume("disk")
        assert (await bench.claim()).status.phase == "Lost"
        assert bench.told.count(("shop/data", "ClaimLost")) == 1


@in_virtual_time
async def test_a_volume_whose_claim_is_gone_is_released_and_not_given_away_again() -> None:
    """B11, B12."""
    async with at_work() as bench:
        await bench.put_volume("disk")
        await bench.put_claim()
        await bench.store.delete(CLAIM, "shop", "data")
        await asyncio.sleep(SETTLED)
        assert (await bench.volume("disk")).status.phase == "Released"
        await bench.put_claim()
        assert (await bench.claim()).status.phase == "Pending"


@in_virtual_time
async def test_an_interrupted_binding_is_completed() -> None:
    """B10: the crash came after the volume's spec was written."""
    async with at_work() as bench:
        await bench.put_claim()
        uid = (await bench.claim()).metadata.uid
        await bench.put_volume("disk", claim_ref=ObjectReference(namespace="shop", name="data", uid=uid))
        claim = await bench.claim()
        assert (claim.status.phase, claim.spec.volume_name) == ("Bound", "disk")
        assert (await bench.volume("disk")).status.phase == "Bound"


@in_virtual_time
async def test_a_claim_without_a_class_gets_the_default_one_when_nothing_fits() -> None:
    """B14."""
    async with at_work() as bench:
        await bench.put_claim(storage_class_name=None)
        marks = {"storageclass.kubernetes.io/is-default-class": "true"}
        await bench.store.create(
            StorageClass(
                metadata=ObjectMeta(name="usual", annotations=marks), provisioner="kubernetes.io/no-provisioner"
            )
        )
        await asyncio.sleep(SETTLED)
        assert (await bench.claim()).spec.storage_class_name == "usual"


@in_virtual_time
async def test_binding_waits_for_the_first_pod_where_the_class_says_so() -> None:
    """B16, B17."""
    async with at_work() as bench:
        await bench.store.create(
            StorageClass(
                metadata=ObjectMeta(name="late"),
                provisioner="kubernetes.io/no-provisioner",
                volume_binding_mode="WaitForFirstConsumer",
            )
        )
        await bench.put_volume("disk", storage_class_name="late")
        await bench.put_claim(storage_class_name="late")
        assert (await bench.claim()).status.conditions[0].reason == "WaitForFirstConsumer"
        await bench.put_pod("data")
        assert (await bench.claim()).status.phase == "Bound"


async def put_class(bench: Bench, mode: str, provisioner: str = "disk.csi.test") -> None:
    meta = ObjectMeta(name="made")
    await bench.store.create(StorageClass(metadata=meta, provisioner=provisioner, volume_binding_mode=mode))


def asked(claim: PersistentVolumeClaim) -> set[str]:
    """Who is to make a volume for a claim."""
    return {value for key, value in claim.metadata.annotations.items() if key.endswith("/storage-provisioner")}


@in_virtual_time
async def test_who_makes_volumes_in_a_cluster_is_asked_for_one_and_the_claim_bound_to_it() -> None:
    async with at_work(scheduled=True) as bench:
        await put_class(bench, "Immediate")
        await bench.put_claim(storage_class_name="made")
        claim = await bench.claim()
        assert asked(claim) == {"disk.csi.test"}
        assert (claim.status.phase, bench.told) == ("Pending", [("shop/data", "ExternalProvisioning")])
        owner = ObjectReference(namespace="shop", name="data", uid=claim.metadata.uid)
        await bench.put_volume("pvc-1", storage_class_name="made", claim_ref=owner)
        assert (await bench.claim()).status.phase == "Bound"


@in_virtual_time
async def test_a_volume_in_a_cluster_is_asked_for_when_the_scheduler_has_chosen_a_node() -> None:
    async with at_work(scheduled=True) as bench:
        await put_class(bench, "WaitForFirstConsumer")
        await bench.put_claim(storage_class_name="made")
        assert (asked(await bench.claim()), bench.told) == (set(), [("shop/data", "WaitForFirstConsumer")])
        chosen = {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n1"}}}
        await bench.store.patch(CLAIM, "shop", "data", chosen)
        await asyncio.sleep(SETTLED)
        assert asked(await bench.claim()) == {"disk.csi.test"}


@in_virtual_time
async def test_nobody_is_asked_for_a_volume_that_exists_or_that_nobody_makes() -> None:
    async with at_work(scheduled=True) as bench:
        await put_class(bench, "Immediate")
        await bench.put_volume("disk", storage_class_name="made")
        await bench.put_claim(storage_class_name="made")
        assert asked(await bench.claim()) == set()
        meta = ObjectMeta(name="unmade")
        await bench.store.create(StorageClass(metadata=meta, provisioner="kubernetes.io/no-provisioner"))
        await bench.put_claim("other", storage_class_name="unmade")
        assert asked(await bench.claim("other")) == set()


@in_virtual_time
async def test_nobody_is_asked_for_a_volume_on_one_machine() -> None:
    async with at_work() as bench:
        await put_class(bench, "Immediate")
        await bench.put_claim(storage_class_name="made")
        assert (asked(await bench.claim()), bench.told) == (set(), [("shop/data", "ProvisioningFailed")])


@in_virtual_time
async def test_a_deleted_claim_stays_while_a_pod_uses_it_and_while_its_volume_is_on_the_node() -> None:
    """B20."""
    async with at_work() as bench:
        await bench.put_volume("disk")
        await bench.put_claim()
        await bench.put_pod("data")
        bench.held.add("shop/data")
        await bench.store.delete(CLAIM, "shop", "data")
        await asyncio.sleep(SETTLED)
        assert (await bench.claim()).metadata.deletion_timestamp is not None
        await bench.store.delete(POD, "shop", "web")
        await asyncio.sleep(SETTLED)
        assert (await bench.claim()).metadata.name == "data"
        bench.held.clear()
        bench.controller.volume_left("shop/data")
        await asyncio.sleep(SETTLED)
        try:
            await bench.claim()
        except NotFound:
            return
        raise AssertionError("the claim should be gone")


@in_virtual_time
async def test_a_deleted_claim_is_gone_in_a_cluster_where_only_a_pod_without_a_node_wants_it() -> None:
    """B21."""
    async with at_work(scheduled=True) as bench:
        await bench.put_volume("disk")
        await bench.put_claim()
        await bench.put_pod("data")
        assert await bench.delete_claim()


@in_virtual_time
async def test_a_deleted_claim_stays_in_a_cluster_while_a_pod_on_a_node_uses_it() -> None:
    async with at_work(scheduled=True) as bench:
        await bench.put_volume("disk")
        await bench.put_claim()
        await bench.put_pod("data", on="n1")
        assert not await bench.delete_claim()
        await bench.store.patch(POD, "shop", "web", {"status": {"phase": "Succeeded"}}, subresource="status")
        await asyncio.sleep(SETTLED)
        assert not await bench.is_gone()
        await bench.store.delete(POD, "shop", "web")
        await asyncio.sleep(SETTLED)
        assert await bench.is_gone()


@in_virtual_time
async def test_a_deleted_claim_stays_for_a_pod_that_was_not_heard_of_yet() -> None:
    async with at_work(scheduled=True) as bench:
        await bench.put_volume("disk")
        await bench.put_claim()
        bench.store.unheard.append(pod("data", on="n1"))
        assert not await bench.delete_claim()
        bench.store.unheard.clear()
        await asyncio.sleep(SETTLED)
        assert await bench.is_gone()


def own_claim(of: str) -> PersistentVolumeClaim:
    owner = OwnerReference(api_version="v1", kind="Pod", name="web", uid=of, controller=True)
    meta = ObjectMeta(name="web-v", namespace="shop", owner_references=(owner,))
    return PersistentVolumeClaim(metadata=meta)


@pytest.mark.parametrize(
    ("fields", "keeps"),
    [
        ({}, True),
        ({"deletion_timestamp": "now", "deletion_grace_period_seconds": 30}, True),
        ({"deletion_timestamp": "now", "deletion_grace_period_seconds": 0}, False),
        ({"uid": "another"}, False),
        ({"namespace": "elsewhere"}, False),
    ],
    ids=["lives", "is being deleted", "is shut down", "is another", "is elsewhere"],
)
def test_a_claim_of_a_pods_own_is_kept_by_that_pod_until_it_is_shut_down(fields: dict[str, Any], keeps: bool) -> None:
    volume = Volume(name="v", ephemeral=EphemeralVolumeSource())
    meta = structs.replace(ObjectMeta(name="web", namespace="shop", uid="uid-web"), **fields)
    assert (
        keeps_claim(Pod(metadata=meta, spec=PodSpec(node_name="n1", volumes=(volume,))), own_claim("uid-web")) is keeps
    )


@in_virtual_time
async def test_a_bound_volume_stays_when_it_is_deleted() -> None:
    """B22."""
    async with at_work() as bench:
        await bench.put_volume("disk")
        await bench.put_claim()
        await bench.store.delete(PERSISTENT_VOLUME, "", "disk")
        await asyncio.sleep(SETTLED)
        assert (await bench.volume("disk")).status.phase == "Bound"


@in_virtual_time
async def test_the_default_class_is_the_newest_one() -> None:
    """B15."""
    async with at_work() as bench:
        marks = {"storageclass.kubernetes.io/is-default-class": "true"}
        for name, created in (("b", "2026-01-01T00:00:00Z"), ("a", "2026-01-01T00:00:00Z")):
            meta = ObjectMeta(name=name, annotations=marks, creation_timestamp=created)
            await bench.store.create(StorageClass(metadata=meta, provisioner="kubernetes.io/no-provisioner"))
        await bench.put_claim(storage_class_name=None)
        assert (await bench.claim()).spec.storage_class_name == "a"
        assert (await bench.store.list(STORAGE_CLASS)).items[0].metadata.name == "a"
