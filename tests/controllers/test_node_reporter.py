"""What a node writes of its volumes into its Node, when the server does not take it at first."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import pytest

from mooring.controllers.node_reporter import MANAGED, NodeReporter
from mooring.kube.api import ApiError, ConnectionRefused, Forbidden, InternalError, TooManyRequests
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore
from mooring.kube.objects import ObjectMeta
from mooring.kube.objects.kinds import NODE, Kind, ObjectT
from mooring.kube.objects.node import AttachedVolume, Node, NodeStatus
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import VolumeName

DATA = VolumeName("kubernetes.io/csi/d^data")


class Server(LocalStore):
    """A store that may be away."""

    away = False
    ails: ApiError | None = None

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        if self.away:
            raise ConnectionRefused("cannot read", why="it is away")
        if self.ails is not None:
            raise self.ails
        return await super().get(kind, namespace, name)


class Volumes:
    """Volumes in use, and of which the server knows it."""

    def __init__(self) -> None:
        self.used: list[VolumeName] = []
        self.reported: list[VolumeName] = []
        self.is_heard = False

    def get_volumes_in_use(self) -> list[VolumeName]:
        return self.used

    def mark_volumes_as_reported_in_use(self, names: Iterable[VolumeName]) -> None:
        self.reported = list(names)

    def attachments_told(self, attached: Mapping[VolumeName, str]) -> None:
        return None

    def status_heard(self) -> None:
        self.is_heard = True


@in_virtual_time
async def test_a_server_that_is_back_is_told_at_once_what_is_in_use() -> None:
    server, volumes = Server(), Volumes()
    await server.create(Node(metadata=ObjectMeta(name="here")))
    reporter = NodeReporter(
        server, SharedInformerFactory(server), "here", volumes, managed=True, attached=lambda attached: None
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(reporter.run())
        await asyncio.sleep(1)
        server.away, volumes.used = True, [DATA]
        reporter.use_changed()
        await asyncio.sleep(300)
        server.away = False
        reporter.hurry()
        await asyncio.sleep(0.01)
        assert volumes.reported == [DATA]
        assert list((await server.get(NODE, "", "here")).status.volumes_in_use) == [DATA]
        running.cancel()


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (ConnectionRefused("cannot read", why="nobody listens"), True),
        (InternalError("cannot read", why="the server is not well"), True),
        (TooManyRequests("cannot read", why="later"), True),
        (Forbidden("cannot read", why="you are not that node"), False),
    ],
)
def test_what_a_server_said_before_the_start_counts_only_while_none_tells(error: ApiError, counts: bool) -> None:
    @in_virtual_time
    async def run() -> None:
        server, volumes = Server(), Volumes()
        volumes.used, server.ails = [DATA], error
        factory = SharedInformerFactory(server)
        reporter = NodeReporter(server, factory, "here", volumes, managed=True, attached=lambda attached: None)
        factory.seed([Node(metadata=ObjectMeta(name="here"), status=NodeStatus(volumes_in_use=(DATA,)))])
        async with asyncio.TaskGroup() as tasks:
            factory.start(tasks)
            running = tasks.create_task(reporter.run())
            await asyncio.sleep(60)
            assert (volumes.reported == [DATA], volumes.is_heard) == (counts, False)
            server.ails = None
            await server.create(Node(metadata=ObjectMeta(name="here")))
            await asyncio.sleep(60)
            assert (volumes.reported, volumes.is_heard) == ([DATA], True)
            running.cancel()
            factory.stop()

    run()


@in_virtual_time
async def test_a_node_that_comes_late_is_told_at_once_who_attaches_its_volumes() -> None:
    server, volumes = Server(), Volumes()
    factory = SharedInformerFactory(server)
    reporter = NodeReporter(server, factory, "here", volumes, managed=True, attached=lambda attached: None)
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        running = tasks.create_task(reporter.run())
        await asyncio.sleep(100)
        assert not reporter.begun.is_set()
        await server.create(Node(metadata=ObjectMeta(name="here")))
        await asyncio.sleep(0.1)
        assert reporter.begun.is_set()
        assert (await server.get(NODE, "", "here")).metadata.annotations[MANAGED] == "true"
        running.cancel()
        factory.stop()


@in_virtual_time
async def test_a_node_that_is_made_anew_says_nothing_until_it_is_written_to() -> None:
    server, volumes = Server(), Volumes()
    factory, volumes.used = SharedInformerFactory(server), [DATA]
    reporter = NodeReporter(server, factory, "here", volumes, managed=True, attached=lambda attached: None)
    changes: list[bool] = []
    reporter.begun_changed = lambda: changes.append(reporter.begun.is_set())
    await server.create(Node(metadata=ObjectMeta(name="here")))
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        running = tasks.create_task(reporter.run())
        await asyncio.sleep(1)
        assert (volumes.reported, changes) == ([DATA], [True])
        await server.delete(NODE, "", "here")
        await asyncio.sleep(1)
        assert (volumes.reported, changes) == ([], [True, False])
        await server.create(Node(metadata=ObjectMeta(name="here")))
        await asyncio.sleep(1)
        assert (volumes.reported, changes) == ([DATA], [True, False, True])
        running.cancel()
        factory.stop()


@in_virtual_time
async def test_a_server_that_was_restored_from_a_backup_is_believed() -> None:
    told: list[list[VolumeName]] = []
    before, restored, volumes = Server(), Server(), Volumes()
    factory = SharedInformerFactory(before)
    reporter = NodeReporter(
        restored, factory, "here", volumes, managed=True, attached=lambda each: told.append([*each])
    )
    attached = NodeStatus(volumes_attached=(AttachedVolume(name=DATA),))
    for number in range(20):
        await before.create(Node(metadata=ObjectMeta(name=f"other-{number}")))
    await before.create(Node(metadata=ObjectMeta(name="here", uid="uid-1"), status=attached))
    await restored.create(Node(metadata=ObjectMeta(name="here", uid="uid-1")))
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        await factory.wait_for_cache_sync()
        await asyncio.sleep(1)
        assert told == [[DATA]]
        running = tasks.create_task(reporter.run())
        await asyncio.sleep(1)
        assert told[-1] == []
        running.cancel()
        factory.stop()
