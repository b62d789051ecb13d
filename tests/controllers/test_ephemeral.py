"""Claims of ephemeral volumes: made for their pods, owned by them, and gone with them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from mooring.controllers.ephemeral import EphemeralClaims, claim_for
from mooring.engine.pending import Backoff
from mooring.errors import Refused
from mooring.kube.api import NotFound
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CLAIM, POD
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Pod, PodSpec
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.kube.objects.volumes import EphemeralClaimTemplate, EphemeralVolumeSource, Volume
from mooring.testing.virtual_time import in_virtual_time

SETTLED = 1.0
TEMPLATE = EphemeralClaimTemplate(
    metadata=ObjectMeta(labels={"tier": "fast"}, annotations={"note": "mine"}),
    spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"},
)


def web(template: EphemeralClaimTemplate | None = TEMPLATE) -> Pod:
    volume = Volume(name="scratch", ephemeral=EphemeralVolumeSource(volume_claim_template=template))
    return Pod(
        metadata=ObjectMeta(name="web", namespace="shop", uid="uid-web"),
        spec=PodSpec(volumes=(volume,)),
    )


@dataclass
class Bench:
    store: LocalStore
    told: list[tuple[str, str]] = field(default_factory=list)

    async def claim(self) -> PersistentVolumeClaim | None:
        await asyncio.sleep(SETTLED)
        try:
            return await self.store.get(CLAIM, "shop", "web-scratch")
        except NotFound:
            return None


@asynccontextmanager
async def controller() -> AsyncIterator[Bench]:
    async with LocalStore() as store:
        factory = SharedInformerFactory(store)
        bench = Bench(store)
        made = EphemeralClaims(
            store,
            factory,
            tell=lambda pod, reason, message: bench.told.append((reason, message)),
            backoff=Backoff(),
            resync_interval=3600.0,
        )
        async with asyncio.TaskGroup() as tasks:
            factory.start(tasks)
            running = tasks.create_task(made.run())
            await asyncio.sleep(SETTLED)
            yield bench
            running.cancel()
            factory.stop()


@in_virtual_time
async def test_a_claim_is_made_as_its_template_says_and_belongs_to_the_pod() -> None:
    async with controller() as bench:
        pod = await bench.store.create(web())
        claim = await bench.claim()
        assert claim is not None
        assert (claim.metadata.labels, claim.metadata.annotations) == ({"tier": "fast"}, {"note": "mine"})
        assert (claim.spec.storage_class_name, claim.spec.access_modes) == ("fast", ("ReadWriteOnce",))
        (owner,) = claim.metadata.owner_references
        assert (owner.kind, owner.uid, owner.controller) == ("Pod", pod.metadata.uid, True)


@in_virtual_time
async def test_a_claim_that_is_deleted_while_its_pod_lives_is_made_again() -> None:
    async with controller() as bench:
        await bench.store.create(web())
        first = await bench.claim()
        await bench.store.delete(CLAIM, "shop", "web-scratch")
        second = await bench.claim()
        assert first is not None
        assert second is not None
        assert first.metadata.uid != second.metadata.uid


@in_virtual_time
async def test_a_claim_goes_with_its_pod() -> None:
    async with controller() as bench:
        await bench.store.create(web())
        assert await bench.claim() is not None
        await bench.store.delete(POD, "shop", "web")
        assert await bench.claim() is None


@in_virtual_time
async def test_a_claim_of_somebody_else_is_left_as_it_is() -> None:
    async with controller() as bench:
        meta = ObjectMeta(name="web-scratch", namespace="shop")
        await bench.store.create(PersistentVolumeClaim(metadata=meta))
        await bench.store.create(web())
        claim = await bench.claim()
        assert claim is not None
        assert claim.metadata.owner_references == ()


@in_virtual_time
async def test_nothing_is_made_for_a_pod_that_has_ended() -> None:
    async with controller() as bench:
        await bench.store.create(web())
        assert await bench.claim() is not None
        await bench.store.patch(POD, "shop", "web", {"status": {"phase": "Succeeded"}}, subresource="status")
        await bench.store.delete(CLAIM, "shop", "web-scratch")
        assert await bench.claim() is None


@pytest.mark.parametrize("spec", [None, {"accessModes": "ReadWriteOnce"}])
@in_virtual_time
async def test_a_template_that_is_no_claim_is_told_under_the_pod(spec: dict[str, Any] | None) -> None:
    template = None if spec is None else EphemeralClaimTemplate(spec=spec)
    async with controller() as bench:
        await bench.store.create(web(template))
        assert await bench.claim() is None
        assert bench.told[0][0] == "FailedBinding"
        assert "volumeClaimTemplate" in bench.told[0][1]


def test_a_volume_without_a_template_has_no_claim() -> None:
    with pytest.raises(Refused, match="it has no volumeClaimTemplate"):
        claim_for(web(None), web(None).spec.volumes[0])
