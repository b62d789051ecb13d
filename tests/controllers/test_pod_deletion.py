"""Deleting pods from the API: only when nothing of them is left, only once, and never another pod of the name."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from mooring.controllers.pod_deletion import PodDeletion
from mooring.errors import Refused
from mooring.kube.api import NO_PRECONDITIONS, ApiError, ConnectionRefused, ListOptions, Preconditions
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import POD, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ContainerState, ContainerStatus, Pod, PodStatus
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid
from mooring.world.pod_life import may_run_containers

AWAY = ConnectionRefused("cannot delete", why="nobody is there")


class Server(LocalStore):
    """A store that remembers deletions, and whose next ones can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[ApiError] = []
        self.deletions: list[tuple[str, str | None, int | None]] = []

    async def delete(
        self,
        kind: Kind[ObjectT],
        namespace: str,
        name: str,
        *,
        preconditions: Preconditions = NO_PRECONDITIONS,
        grace_period: int | None = None,
    ) -> ObjectT:
        self.deletions.append((name, preconditions.uid, grace_period))
        if self.failures:
            raise self.failures.pop(0)
        return await super().delete(kind, namespace, name, preconditions=preconditions, grace_period=grace_period)


class Bench:
    def __init__(self) -> None:
        self.server = Server()
        self.mounted: dict[str, asyncio.Event] = {}  # set when the pod's volumes are gone
        self.patience: float | None = None
        self.deletion = PodDeletion(
            self.server, may_run=may_run_containers, unmounted=self._unmounted, random_source=random.Random(1)
        )

    async def _unmounted(self, uid: PodUid) -> None:
        try:
            async with asyncio.timeout(self.patience):
                await self.mounted.setdefault(uid, asyncio.Event()).wait()
        except TimeoutError:
            raise Refused("volumes are there", why="it takes long") from None

    async def make(self, name: str = "web", *, phase: str = "Running", running: bool = False) -> Pod:
        """A pod that is being deleted. The store has none such without a finalizer: what is told differs in that."""
        pod = await self.server.create(Pod(metadata=ObjectMeta(name=name, namespace="shop")))
        meta = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        state = ContainerState(running={}) if running else ContainerState(terminated={})
        status = PodStatus(phase=phase, container_statuses=(ContainerStatus(name="main", state=state),))
        return msgspec.structs.replace(pod, metadata=meta, status=status)

    def unmount(self, pod: Pod) -> None:
        self.mounted.setdefault(pod.metadata.uid, asyncio.Event()).set()

    async def left(self) -> list[str]:
        await asyncio.sleep(1)
        return [pod.metadata.name for pod in (await self.server.list(POD, ListOptions())).items]


@asynccontextmanager
async def deleting() -> AsyncIterator[Bench]:
    bench = Bench()
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(bench.deletion.run())
        await asyncio.sleep(0)
        yield bench
        running.cancel()


@in_virtual_time
async def test_a_pod_goes_when_its_volumes_have_gone() -> None:
    async with deleting() as bench:
        pod = await bench.make()
        bench.deletion.pod_changed(pod)
        await asyncio.sleep(3600)
        assert await bench.left() == ["web"]
        bench.unmount(pod)
        assert await bench.left() == []
        assert bench.server.deletions == [("web", pod.metadata.uid, 0)]


@in_virtual_time
async def test_a_pod_whose_container_runs_stays_until_it_has_ended() -> None:
    async with deleting() as bench:
        pod = await bench.make(running=True)
        bench.unmount(pod)
        bench.deletion.pod_changed(pod)
        assert await bench.left() == ["web"]
        status = msgspec.structs.replace(pod.status, phase="Failed")
        bench.deletion.pod_changed(msgspec.structs.replace(pod, status=status))
        assert await bench.left() == []


@in_virtual_time
async def test_a_pod_that_runs_after_all_is_left_alone() -> None:
    async with deleting() as bench:
        pod = await bench.make()
        bench.deletion.pod_changed(pod)
        await asyncio.sleep(1)
        running = (ContainerStatus(name="main", state=ContainerState(running={})),)
        status = msgspec.structs.replace(pod.status, container_statuses=running)
        bench.deletion.pod_changed(msgspec.structs.replace(pod, status=status))
        bench.unmount(pod)
        assert await bench.left() == ["web"]
        bench.deletion.pod_changed(pod)
        assert await bench.left() == []


@in_virtual_time
async def test_a_pod_that_nobody_deletes_stays_also_when_it_has_ended() -> None:
    async with deleting() as bench:
        pod = await bench.make(phase="Succeeded")
        bench.unmount(pod)
        meta = msgspec.structs.replace(pod.metadata, deletion_timestamp=None)
        bench.deletion.pod_changed(msgspec.structs.replace(pod, metadata=meta))
        assert await bench.left() == ["web"]
        bench.deletion.pod_changed(pod)
        assert await bench.left() == []


@in_virtual_time
async def test_a_pod_is_deleted_once_although_it_stays_for_a_finalizer() -> None:
    async with deleting() as bench:
        pod = await bench.make()
        await bench.server.patch(POD, "shop", "web", {"metadata": {"finalizers": ["mooring.test/hold"]}})
        bench.unmount(pod)
        for _ in range(3):
            bench.deletion.pod_changed(pod)
            assert await bench.left() == ["web"]
        assert len(bench.server.deletions) == 1


@in_virtual_time
async def test_a_server_that_is_away_is_asked_again() -> None:
    async with deleting() as bench:
        pod = await bench.make()
        bench.unmount(pod)
        bench.server.failures = [AWAY] * 20
        bench.deletion.pod_changed(pod)
        await asyncio.sleep(3600)
        assert await bench.left() == []
        assert len(bench.server.deletions) == 21


@in_virtual_time
async def test_a_server_that_is_back_is_asked_at_once() -> None:
    async with deleting() as bench:
        pod = await bench.make()
        bench.unmount(pod)
        bench.server.failures = [AWAY] * 20
        bench.deletion.pod_changed(pod)
        await asyncio.sleep(120)
        bench.server.failures.clear()
        tries = len(bench.server.deletions)
        bench.deletion.hurry()
        assert await bench.left() == []
        assert len(bench.server.deletions) == tries + 1


@in_virtual_time
async def test_a_wait_for_volumes_that_ends_is_begun_again() -> None:
    async with deleting() as bench:
        bench.patience = 60.0
        pod = await bench.make()
        bench.deletion.pod_changed(pod)
        await asyncio.sleep(600)
        assert bench.server.deletions == []
        bench.unmount(pod)
        await asyncio.sleep(60)
        assert await bench.left() == []


@in_virtual_time
async def test_another_pod_of_the_same_name_stays() -> None:
    async with deleting() as bench:
        pod = await bench.make()
        await LocalStore.delete(bench.server, POD, "shop", "web")
        await bench.make()
        bench.unmount(pod)
        bench.deletion.pod_changed(pod)
        assert await bench.left() == ["web"]
        await asyncio.sleep(600)
        assert len(bench.server.deletions) == 1


@in_virtual_time
async def test_a_pod_that_is_gone_is_given_up() -> None:
    async with deleting() as bench:
        gone, waiting = await bench.make(), await bench.make("db")
        for pod in (gone, waiting):
            bench.deletion.pod_changed(pod)
        await asyncio.sleep(1)
        bench.deletion.pod_removed(PodUid(gone.metadata.uid))
        for pod in (gone, waiting):
            bench.unmount(pod)
        assert await bench.left() == ["web"], "only what still leaves is deleted"
        assert [name for name, _, _ in bench.server.deletions] == ["db"]


@in_virtual_time
async def test_pods_told_before_it_runs_are_deleted_too() -> None:
    bench = Bench()
    pod = await bench.make()
    bench.unmount(pod)
    bench.deletion.pod_changed(pod)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(bench.deletion.run())
        assert await bench.left() == []
        running.cancel()
