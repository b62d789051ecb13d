"""What drivers say about a node of a cluster whose API server is away at times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.csi.test_node_info import DRIVER, NAME, registered

from mooring.csi.node_info import NODE_ID_ANNOTATION
from mooring.csi.patient_node_info import PatientNodeInfo
from mooring.kube.api import ConnectionRefused
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import CSI_NODE, NODE, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import Node
from mooring.testing.virtual_time import in_virtual_time

LONG = 100.0
"""Seconds after which whoever waits between tries waits long."""


class Server(LocalStore):
    """A store that may be away, or take its time."""

    away = False
    slow = 0.0

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        if self.away:
            raise ConnectionRefused("cannot read", why="it is away")
        await asyncio.sleep(self.slow)
        return await super().get(kind, namespace, name)

    async def drivers(self) -> list[str]:
        return [each.name for each in (await self.get(CSI_NODE, "", NAME)).spec.drivers]

    async def owners(self) -> list[str]:
        return [each.uid for each in (await self.get(CSI_NODE, "", NAME)).metadata.owner_references]

    async def says_ids(self) -> str | None:
        return (await self.get(NODE, "", NAME)).metadata.annotations.get(NODE_ID_ANNOTATION)

    async def make_node(self) -> Node:
        return await self.create(Node(metadata=ObjectMeta(name=NAME)))


@asynccontextmanager
async def written(server: Server, *, has_node: bool = True) -> AsyncIterator[PatientNodeInfo]:
    if has_node:
        await server.make_node()
    info = PatientNodeInfo(server, NAME)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(info.run())
        yield info
        running.cancel()


@in_virtual_time
async def test_a_driver_registers_while_the_server_is_away_and_is_written_when_it_is_back() -> None:
    server = Server()
    async with written(server) as info:
        await info.begun.wait()
        server.away = True
        await info.install(registered())
        await asyncio.sleep(LONG)
        server.away = False
        assert await server.drivers() == []
        await asyncio.sleep(LONG)
        assert await server.drivers() == [DRIVER]


@in_virtual_time
async def test_a_driver_that_has_gone_while_the_server_was_away_is_not_written() -> None:
    server = Server()
    async with written(server) as info:
        await info.begun.wait()
        server.away = True
        await info.install(registered())
        await info.uninstall(DRIVER)
        await asyncio.sleep(LONG)
        server.away = False
        await asyncio.sleep(LONG)
        assert await server.drivers() == []


@in_virtual_time
async def test_a_server_that_is_back_is_told_at_once() -> None:
    server = Server()
    async with written(server) as info:
        server.away = True
        await asyncio.sleep(LONG)
        server.away = False
        info.hurry()
        await asyncio.sleep(0)
        await asyncio.wait_for(info.begun.wait(), 0.1)
        server.away = True
        await info.install(registered())
        await asyncio.sleep(LONG)
        server.away = False
        info.hurry()
        await asyncio.sleep(0.1)
        assert await server.drivers() == [DRIVER]


@in_virtual_time
async def test_a_driver_that_registers_before_there_is_a_node_is_written_when_there_is() -> None:
    server = Server()
    async with written(server, has_node=False) as info:
        await info.install(registered())
        await asyncio.sleep(LONG)
        assert not (await server.list(CSI_NODE)).items
        node = await server.make_node()
        info.node_seen(node)
        await asyncio.sleep(2)
        assert (await server.drivers(), await server.says_ids()) == ([DRIVER], '{"disk.example":"id-1"}')
        assert await server.owners() == [node.metadata.uid]


@in_virtual_time
async def test_a_node_that_is_made_anew_is_told_all_that_drivers_said() -> None:
    server = Server()
    async with written(server) as info:
        await info.begun.wait()
        await info.install(registered())
        await info.install(registered("other.example"))
        await info.uninstall("other.example")
        await server.delete(NODE, "", NAME)
        await asyncio.sleep(LONG)
        node = await server.make_node()  # and its CSINode still belongs to the one that was there before
        info.node_seen(node)
        await asyncio.sleep(2)
        assert (await server.drivers(), await server.says_ids()) == ([DRIVER], '{"disk.example":"id-1"}')
        assert await server.owners() == [node.metadata.uid]


@in_virtual_time
async def test_a_driver_that_goes_while_there_is_no_node_is_not_written_for_the_next() -> None:
    server = Server()
    async with written(server) as info:
        await info.begun.wait()
        await info.install(registered())
        await server.delete(NODE, "", NAME)
        await info.uninstall(DRIVER)
        info.node_seen(await server.make_node())
        await asyncio.sleep(2)
        assert (await server.drivers(), await server.says_ids()) == ([], None)


@in_virtual_time
async def test_news_of_a_node_that_is_known_changes_nothing() -> None:
    server = Server()
    async with written(server) as info:
        await info.begun.wait()
        await info.install(registered())
        await asyncio.sleep(LONG)
        before = server.resource_version
        info.node_seen(await server.get(NODE, "", NAME))
        await asyncio.sleep(LONG)
        assert server.resource_version == before


@in_virtual_time
async def test_a_driver_that_is_back_is_not_forgotten_because_it_was_away() -> None:
    server = Server()
    async with written(server) as info:
        await info.begun.wait()
        for name in (DRIVER, "other.example"):
            await info.install(registered(name))
        server.away = True
        for name in (DRIVER, "other.example"):
            await info.uninstall(name)
        await asyncio.sleep(LONG)
        server.away, server.slow = False, 0.5
        info.hurry()
        await asyncio.sleep(0.1)  # the first of them is being forgotten
        await info.install(registered("other.example"))
        await asyncio.sleep(LONG)
        assert await server.drivers() == ["other.example"]
