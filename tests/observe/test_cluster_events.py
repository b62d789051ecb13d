"""Events on an API server: never read, and written in spite of a server that is away for a while."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from mooring.kube.api import LIST_ALL, ApiError, ConnectionRefused, Forbidden, ListOptions, ObjectList, TooManyRequests
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import EVENT, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import Event
from mooring.kube.objects.pod import Pod
from mooring.observe.cluster_events import ClusterEvents, Patience
from mooring.observe.events import EventRecorder
from mooring.testing.virtual_time import in_virtual_time

AWAY = ConnectionRefused("cannot write", why="nobody is there")


class Server(LocalStore):
    """A store that lets nobody read, and whose next writes can fail."""

    def __init__(self) -> None:
        super().__init__()
        self.failures: list[ApiError] = []
        self.loses: list[str] = []  # answers: these words are written, and nobody hears of it
        self.writes = 0

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        raise AssertionError("a node may not read events")

    async def list(self, kind: Kind[ObjectT], options: ListOptions = LIST_ALL) -> ObjectList[ObjectT]:
        raise AssertionError("a node may not list events")

    async def create(self, obj: ObjectT) -> ObjectT:
        self._fail()
        made = await super().create(obj)
        if isinstance(obj, Event) and obj.message in self.loses:
            self.loses.remove(obj.message)
            raise AWAY
        return made

    async def patch(
        self, kind: Kind[ObjectT], namespace: str, name: str, merge: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        self._fail()
        return await super().patch(kind, namespace, name, merge, subresource=subresource)

    def _fail(self) -> None:
        self.writes += 1
        if self.failures:
            raise self.failures.pop(0)

    async def told(self) -> dict[str, int]:
        """Messages with their counts."""
        return {event.message: event.count for event in (await super().list(EVENT)).items}


class Bench:
    def __init__(self, patience: Patience) -> None:
        self.server = Server()
        stamps = itertools.count(1_700_000_000_000_000_000, 1_000_000_000)
        self.writer = ClusterEvents(
            self.server,
            node_name="here",
            component="attachdetach-controller",
            nanoseconds=lambda: next(stamps),
            random_source=random.Random(1),
            patience=patience,
        )
        self._recorder = EventRecorder(self.writer)
        self.run = self._recorder.run

    async def say(self, *messages: str, pod: str = "web", pause: float | None = 0.1) -> None:
        for message in messages:
            about = Pod(metadata=ObjectMeta(name=pod, namespace="shop", uid=f"uid-{pod}"))
            self._recorder.pod_waits(about, "FailedMount", message)
            if pause is not None:
                await asyncio.sleep(pause)


@asynccontextmanager
async def events(patience: Patience = Patience()) -> AsyncIterator[Bench]:  # noqa: B008
    bench = Bench(patience)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(bench.run())
        yield bench
        running.cancel()


@in_virtual_time
async def test_an_event_is_created_once_and_then_counted() -> None:
    async with events() as bench:
        await bench.say("a", "a", "a")
        (event,) = (await LocalStore.list(bench.server, EVENT)).items
    assert event.metadata.name == f"web.{1_700_000_000_000_000_000:x}"
    assert (event.count, event.first_timestamp, event.last_timestamp) == (
        3, "2023-11-14T22:13:20Z", "2023-11-14T22:13:22Z",
    )  # fmt: skip
    assert (event.source.component, event.source.host) == ("attachdetach-controller", "here")
    assert event.reporting_component == "attachdetach-controller"
    assert (event.involved_object.kind, event.involved_object.api_version) == ("Pod", "v1")
    assert bench.server.writes == 3


@in_virtual_time
async def test_many_at_once_are_one_write() -> None:
    async with events() as bench:
        await bench.say(*["a"] * 20, pause=None)
        await asyncio.sleep(1)
        assert await bench.server.told() == {"a": 20}
        assert bench.server.writes == 1


@in_virtual_time
async def test_an_event_that_the_server_forgot_is_made_anew() -> None:
    async with events() as bench:
        await bench.say("a", "a")
        (event,) = (await LocalStore.list(bench.server, EVENT)).items
        await bench.server.delete(EVENT, "shop", event.metadata.name)
        await bench.say("a")
        assert await bench.server.told() == {"a": 3}


@in_virtual_time
async def test_the_summary_of_similar_events_tells_the_last_one() -> None:
    async with events() as bench:
        await bench.say(*(f"try {number}" for number in range(15)))
        told = await bench.server.told()
    assert len(told) == 10
    assert told["(combined from similar events): try 14"] == 6


@in_virtual_time
async def test_a_server_that_is_away_is_asked_again_while_others_are_written() -> None:
    async with events() as bench:
        bench.server.failures = [AWAY, AWAY]
        await bench.say("first", pause=0.0)
        await asyncio.sleep(0.0)
        await bench.say("second", pod="db", pause=0.0)
        await asyncio.sleep(0.0)
        await bench.say("third", pod="cache")
        assert await bench.server.told() == {"third": 1}
        await asyncio.sleep(30)
        assert await bench.server.told() == {"first": 1, "second": 1, "third": 1}
        assert bench.writer.dropped == 0


@in_virtual_time
async def test_what_is_said_while_the_server_is_away_is_told_with_the_next_try() -> None:
    async with events() as bench:
        bench.server.failures = [TooManyRequests("cannot write", why="busy")] * 3
        await bench.say("a", "a", "a", pause=8.0)
        await asyncio.sleep(60)
        assert await bench.server.told() == {"a": 3}


@in_virtual_time
async def test_an_event_whose_answer_was_lost_is_not_made_twice() -> None:
    async with events() as bench:
        bench.server.loses = ["a"]
        await bench.say("a", "a")
        await asyncio.sleep(60)
        assert await bench.server.told() == {"a": 2}
        assert bench.writer.dropped == 0


@in_virtual_time
async def test_after_twelve_tries_an_event_is_given_up() -> None:
    async with events() as bench:
        bench.server.failures = [AWAY] * 12
        await bench.say("a")
        await asyncio.sleep(600)
        assert (bench.server.writes, bench.writer.dropped) == (12, 1)
        assert await bench.server.told() == {}
        await bench.say("a")
        assert await bench.server.told() == {"a": 2}


@in_virtual_time
async def test_what_the_server_refuses_is_not_tried_again() -> None:
    async with events() as bench:
        bench.server.failures = [Forbidden("cannot write", why="the namespace is going")]
        await bench.say("a")
        await asyncio.sleep(600)
        assert (bench.server.writes, bench.writer.dropped) == (1, 1)


@in_virtual_time
async def test_no_more_than_so_many_wait_and_the_rest_is_counted() -> None:
    async with events(Patience(waiting=3)) as bench:
        bench.server.failures = [AWAY] * 5
        for number in range(5):
            await bench.say("a", pod=f"pod-{number}")
        assert bench.writer.dropped == 2
        await asyncio.sleep(120)
        assert sum((await bench.server.told()).values()) == 1
        assert len((await LocalStore.list(bench.server, EVENT)).items) == 3
