"""A node that registers itself, on virtual time: what is written when, and what an outage leaves."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from tests.controllers.test_node_object import FACTS

from mooring.controllers.node_object import Taint
from mooring.controllers.node_registration import NodeRegistration
from mooring.kube.api import ConnectionRefused
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.coordination import Lease
from mooring.kube.objects.kinds import LEASE, NODE, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import Node, NodeStatus
from mooring.testing.virtual_time import in_virtual_time


class Server(LocalStore):
    """A store that counts writes, can be away, and can take its time."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.hangs = False
        self.status_writes = 0

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        await self._check()
        return await super().get(kind, namespace, name)

    async def create(self, obj: ObjectT) -> ObjectT:
        await self._check()
        return await super().create(obj)

    async def patch_strategically(
        self, kind: Kind[ObjectT], namespace: str, name: str, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        await self._check()
        self.status_writes += subresource == "status"
        return await super().patch_strategically(kind, namespace, name, patch, subresource=subresource)

    async def _check(self) -> None:
        if self.hangs:
            await asyncio.get_running_loop().create_future()
        if self.is_away:
            raise ConnectionRefused("cannot write", why="nobody is there")


class Bench:
    def __init__(self, server: Server | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.server = server or Server()
        self.not_ready = ""
        self.facts = FACTS
        self.registration = NodeRegistration(
            self.server,
            lambda: self.facts,
            ready=lambda: self.not_ready,
            labels={"zone": "a"},
            taints=[Taint(key="new", effect="NoSchedule")],
            random_source=random.Random(1),
            now=lambda: f"at {loop.time():.0f}",
        )

    async def node(self) -> Node:
        return await LocalStore.get(self.server, NODE, "", "here")

    async def lease(self) -> Lease:
        return await LocalStore.get(self.server, LEASE, "kube-node-lease", "here")

    async def ready(self) -> str:
        node = await self.node()
        return next(str(each["status"]) for each in node.status.conditions if each["type"] == "Ready")


@asynccontextmanager
async def registered(prepare: Callable[[Bench], None] = lambda bench: None) -> AsyncIterator[Bench]:
    bench = Bench()
    prepare(bench)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(bench.registration.run())
        await asyncio.sleep(1)
        yield bench
        running.cancel()


@in_virtual_time
async def test_a_missing_node_is_created_with_a_lease_that_it_owns() -> None:
    async with registered() as bench:
        node, lease = await bench.node(), await bench.lease()
        assert (node.metadata.labels["zone"], node.spec.taints[0]["key"]) == ("a", "new")
        assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("here", 40)
        (owner,) = lease.metadata.owner_references
        assert (owner.kind, owner.name, owner.uid) == ("Node", "here", node.metadata.uid)


@in_virtual_time
async def test_a_node_that_is_there_gets_its_own_labels_and_status_and_keeps_the_rest() -> None:
    bench = Bench()
    meta = ObjectMeta(name="here", labels={"theirs": "1"}, annotations={"note": "1"})
    await LocalStore.create(bench.server, Node(metadata=meta, status=NodeStatus(volumes_in_use=("disk",))))
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(bench.registration.run())
        await asyncio.sleep(1)
        node = await bench.node()
        running.cancel()
    assert node.metadata.labels["kubernetes.io/hostname"] == "here"
    assert (node.metadata.labels["theirs"], node.metadata.annotations["note"]) == ("1", "1")
    assert "zone" not in node.metadata.labels
    assert node.spec.taints == ()
    assert node.status.volumes_in_use == ("disk",)
    assert node.status.node_info["bootID"] == "boot-1"
    assert (await bench.lease()).metadata.owner_references[0].uid == node.metadata.uid


@in_virtual_time
async def test_a_status_is_written_when_something_changed_and_else_every_five_minutes() -> None:
    async with registered() as bench:
        await asyncio.sleep(295)
        assert bench.server.status_writes == 0
        await asyncio.sleep(15)
        assert bench.server.status_writes == 1
        bench.facts = replace(FACTS, address="192.0.2.8")
        await asyncio.sleep(10)
        assert bench.server.status_writes == 2
        assert (await bench.node()).status.addresses[0]["address"] == "192.0.2.8"


@in_virtual_time
async def test_it_becomes_ready_at_once_when_that_is_told() -> None:
    def prepare(bench: Bench) -> None:
        bench.not_ready = "looks at the disk"

    async with registered(prepare) as bench:
        assert await bench.ready() == "False"
        bench.not_ready = ""
        bench.registration.changed()
        await asyncio.sleep(0.1)
        assert await bench.ready() == "True"


@in_virtual_time
async def test_the_lease_is_renewed_every_ten_seconds_and_made_again() -> None:
    async with registered() as bench:
        before = await bench.lease()
        await asyncio.sleep(10)
        after = await bench.lease()
        assert after.metadata.uid == before.metadata.uid
        assert after.spec.renew_time != before.spec.renew_time
        await bench.server.delete(LEASE, "kube-node-lease", "here")
        await asyncio.sleep(10)
        assert (await bench.lease()).metadata.owner_references == before.metadata.owner_references


@in_virtual_time
async def test_a_node_that_was_deleted_registers_again_and_owns_its_lease() -> None:
    async with registered() as bench:
        before = await bench.node()
        await bench.server.delete(NODE, "", "here")
        await asyncio.sleep(25)
        after = await bench.node()
        assert after.metadata.uid != before.metadata.uid
        assert [each.uid for each in (await bench.lease()).metadata.owner_references] == [after.metadata.uid]


@in_virtual_time
async def test_a_server_that_is_away_for_an_hour_is_caught_up_with() -> None:
    def prepare(bench: Bench) -> None:
        bench.server.is_away = True

    async with registered(prepare) as bench:
        await asyncio.sleep(3600)
        bench.server.is_away = False
        await asyncio.sleep(15)
        assert await bench.ready() == "True"
        renewed = (await bench.lease()).spec.renew_time
        bench.server.is_away = True
        await asyncio.sleep(3600)
        bench.not_ready = "the disk is gone"
        bench.server.is_away = False
        await asyncio.sleep(15)
        assert await bench.ready() == "False"
        assert (await bench.lease()).spec.renew_time != renewed


@in_virtual_time
async def test_a_renewal_without_an_answer_is_tried_again() -> None:
    async with registered() as bench:
        before = (await bench.lease()).spec.renew_time
        bench.server.hangs = True
        await asyncio.sleep(15)
        bench.server.hangs = False
        await asyncio.sleep(15)
        assert (await bench.lease()).spec.renew_time != before
