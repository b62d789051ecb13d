"""Claims and volumes find each other in the store, and are held while they are used."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from msgspec import structs

from mooring.controllers.claims_controller import ClaimsController
from mooring.engine.pending import Backoff
from mooring.kube.api import NotFound
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CLAIM, PERSISTENT_VOLUME, POD, STORAGE_CLASS
from mooring.kube.objects.meta import ObjectMeta, ObjectReference
from mooring.kube.objects.pod import Pod, PodSpec, ResourceRequirements
from mooring.kube.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    StorageClass,
)
from mooring.kube.objects.volumes import (
    HostPathVolumeSource,
    PersistentVolumeClaimVolumeSource,
    Volume,
)
from mooring.testing.virtual_time import in_virtual_time

SETTLED = 1.0


@dataclass
class Bench:
    """A store with the controller at work on it."""

    store: LocalStore
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

    async def put_pod(self, claim: str) -> None:
        volume = Volume(name="v", persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim))
        await self.store.create(Pod(metadata=ObjectMeta(name="web", namespace="shop"), spec=PodSpec(volumes=(volume,))))
        await asyncio.sleep(SETTLED)

    async def claim(self, name: str = "data") -> PersistentVolumeClaim:
        return await self.store.get(CLAIM, "shop", name)

    async def volume(self, name: str) -> PersistentVolume:
        return await self.store.get(PERSISTENT_VOLUME, "", name)


@asynccontextmanager
async def at_work() -> AsyncIterator[Bench]:
    async with LocalStore(clock=lambda: "2026-01-01T00:00:00Z") as store:
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
