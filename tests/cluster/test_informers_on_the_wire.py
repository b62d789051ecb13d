"""Informers on a real API server: what they ask for, and what they know after cuts, kills and compactions."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from rig.control_plane import ETCD, SERVER, ControlPlane
from rig.relay import Relay, relaying

from mooring.kube import kubeconfig
from mooring.kube.api import (
    LIST_ALL,
    WATCH_ALL,
    ApiError,
    EventType,
    Expired,
    ListOptions,
    ObjectList,
    WatchEvent,
    WatchOptions,
)
from mooring.kube.api_server import ApiServer
from mooring.kube.backoff import BackoffSettings
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import CONFIG_MAP, Kind, ObjectT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import ConfigMap
from mooring.kube.reflector import ReflectorOptions

pytestmark = pytest.mark.cluster

PATIENCE = 60.0
SOON = BackoffSettings(base=0.05, factor=1.0, cap=0.05, jitter=0.0)


class Recorder:
    """An API that remembers what it was asked for, and which errors it answered with."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self.lists: list[ListOptions] = []
        self.watches: list[WatchOptions] = []
        self.errors: list[ApiError | None] = []

    async def list(self, kind: Kind[ObjectT], options: ListOptions = LIST_ALL) -> ObjectList[ObjectT]:
        self.lists.append(options)
        return await self._api.list(kind, options)

    @asynccontextmanager
    async def watch(
        self, kind: Kind[ObjectT], options: WatchOptions = WATCH_ALL
    ) -> AsyncIterator[AsyncIterator[WatchEvent[ObjectT]]]:
        self.watches.append(options)
        try:
            async with self._api.watch(kind, options) as events:
                yield self._told(events)
        except ApiError as error:
            self.errors.append(error)
            raise

    async def _told(self, events: AsyncIterator[WatchEvent[ObjectT]]) -> AsyncIterator[WatchEvent[ObjectT]]:
        async for event in events:
            if event.type is EventType.ERROR:
                self.errors.append(event.error)
            yield event


class View:
    """What a handler of an informer has been told so far."""

    def __init__(self) -> None:
        self.added: list[str] = []
        self.gone: list[ConfigMap | Tombstone[ConfigMap]] = []
        self.known: dict[str, ConfigMap] = {}
        self._changed = asyncio.Event()

    def add(self, obj: ConfigMap, is_initial: bool) -> None:
        self.added.append(obj.metadata.name)
        self._keep(obj)

    def update(self, old: ConfigMap, new: ConfigMap) -> None:
        assert int(new.metadata.resource_version) >= int(old.metadata.resource_version)
        self._keep(new)

    def delete(self, obj: ConfigMap | Tombstone[ConfigMap]) -> None:
        self.gone.append(obj)
        self.known.pop(obj.key.rpartition("/")[2])
        self._changed.set()

    def _keep(self, obj: ConfigMap) -> None:
        self.known[obj.metadata.name] = obj
        self._changed.set()

    @property
    def states(self) -> dict[str, str]:
        return {name: obj.data.get("state", "") for name, obj in self.known.items()}

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until what was told fulfils a condition."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()


class Bench:
    """An informer of the config maps of one test behind a relay, and a writer beside it."""

    def __init__(self, writer: ApiServer, relay: Relay, reader: Recorder) -> None:
        self.run = f"informer-{uuid.uuid4().hex[:8]}"
        self.relay, self.reader = relay, reader
        self.view = View()
        self._writer = writer

    async def create(self, name: str, state: str = "new", *, size: int = 0) -> ConfigMap:
        meta = ObjectMeta(name=f"{self.run}-{name}", namespace="default", labels={"run": self.run})
        return await self._writer.create(ConfigMap(metadata=meta, data={"state": state, "fill": "x" * size}))

    async def set(self, name: str, state: str) -> ConfigMap:
        return await self._writer.patch(CONFIG_MAP, "default", f"{self.run}-{name}", {"data": {"state": state}})

    async def delete(self, name: str) -> None:
        await self._writer.delete(CONFIG_MAP, "default", f"{self.run}-{name}")

    def sees(self, **states: str) -> Callable[[], bool]:
        """Whether exactly these config maps are known, in these states."""
        return lambda: self.view.states == {f"{self.run}-{name}": state for name, state in states.items()}

    @asynccontextmanager
    async def informed(self) -> AsyncIterator[None]:
        """The informer runs, and has its first state."""
        options = ReflectorOptions(namespace="default", label_selector=f"run={self.run}", backoff=SOON)
        factory = SharedInformerFactory(self.reader, tweak=lambda kind: options)
        handler = Handler(on_add=self.view.add, on_update=self.view.update, on_delete=self.view.delete)
        factory.informer(CONFIG_MAP).add_event_handler(handler)
        async with asyncio.TaskGroup() as tasks:
            factory.start(tasks)
            assert await factory.wait_for_cache_sync(timeout=PATIENCE) == {"ConfigMap": True}
            yield
            factory.stop()


@pytest.fixture
async def bench(plane: ControlPlane) -> AsyncIterator[Bench]:
    async with contextlib.AsyncExitStack() as stack:
        relay, url = await stack.enter_async_context(relaying(plane.server))
        admin = kubeconfig.load(str(plane.kubeconfig))
        writer = await stack.enter_async_context(ApiServer(admin))
        user = plane.user_kubeconfig("reader", ("system:masters",), name="reader", server=url)
        reader = await stack.enter_async_context(ApiServer(kubeconfig.load(str(user))))
        yield Bench(writer, relay, Recorder(reader))


async def test_an_informer_gets_its_state_by_a_stream_and_needs_no_list(bench: Bench) -> None:
    await bench.create("first")
    async with bench.informed():
        await bench.view.until(bench.sees(first="new"))
        await bench.create("second")
        await bench.view.until(bench.sees(first="new", second="new"))
    assert bench.reader.lists == []
    (asked,) = bench.reader.watches
    assert asked.send_initial_events


async def test_a_watch_that_was_cut_goes_on_where_it_was(bench: Bench) -> None:
    await bench.create("kept")
    await bench.create("removed")
    async with bench.informed():
        bench.relay.cut()
        await bench.set("kept", "changed")
        await bench.delete("removed")
        await bench.create("later")
        bench.relay.mend()
        await bench.view.until(bench.sees(kept="changed", later="new"))
    assert bench.reader.lists == []
    assert [asked.send_initial_events for asked in bench.reader.watches].count(True) == 1, "nothing is read anew"
    assert len(bench.view.added) == 3, "nothing is told twice"
    assert not [gone for gone in bench.view.gone if isinstance(gone, Tombstone)]


async def test_an_object_that_is_cut_in_the_middle_does_not_count_and_comes_again(bench: Bench) -> None:
    async with bench.informed():
        for number in range(4):
            bench.relay.cut_after(150_000)
            await bench.create(f"large-{number}", size=400_000)
            async with asyncio.timeout(PATIENCE):
                await bench.relay.was_cut.wait()
            bench.relay.mend()
            await bench.view.until(lambda count=number: len(bench.view.known) == count + 1)  # type: ignore[misc]
    assert all(len(obj.data["fill"]) == 400_000 for obj in bench.view.known.values())
    assert len(bench.view.added) == 4


async def test_after_a_compaction_the_state_is_read_anew(bench: Bench, plane: ControlPlane) -> None:
    for name in ("kept", "changed", "removed"):
        await bench.create(name)
    async with bench.informed():
        bench.relay.cut()
        await bench.set("changed", "changed")
        await bench.delete("removed")
        await bench.create("later")
        plane.kill(SERVER)  # it keeps a while of history in memory
        await plane.compact_etcd()
        await plane.start(SERVER)
        bench.relay.mend()
        await bench.view.until(bench.sees(kept="new", changed="changed", later="new"))
    assert [error for error in bench.reader.errors if isinstance(error, Expired)]
    assert [isinstance(gone, Tombstone) for gone in bench.view.gone] == [True], "nobody watched when it went"


async def test_nothing_is_lost_while_the_server_and_its_store_are_killed_and_started_again(
    bench: Bench, plane: ControlPlane
) -> None:
    await bench.create("count", "0")
    async with bench.informed():
        for number, name in enumerate((SERVER, ETCD), 1):
            plane.kill(name)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(plane.start(name))
                tasks.create_task(write_in_the_end(bench, str(number)))
            await bench.view.until(bench.sees(count=str(number)))
    assert bench.view.added == [f"{bench.run}-count"]


async def write_in_the_end(bench: Bench, state: str) -> None:
    """Write as soon as somebody takes it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await bench.set("count", state)
            except ApiError:
                await asyncio.sleep(0.05)
            else:
                return


async def test_who_reads_slowly_misses_nothing(bench: Bench, plane: ControlPlane) -> None:
    begin = await bench.create("large", "0", size=100_000)
    options = WatchOptions(namespace="default", label_selector=f"run={bench.run}")
    version, seen = begin.metadata.resource_version, ["0"]
    written = False
    async with ApiServer(kubeconfig.load(str(plane.kubeconfig))) as reader, asyncio.timeout(PATIENCE):
        while seen[-1] != "200":  # a server may hang up on those who are too slow
            async with reader.watch(CONFIG_MAP, replace(options, resource_version=version)) as events:
                for number in range(1, 201) if not written else ():  # 20 MB, more than lies in buffers on the way
                    await bench.set("large", str(number))
                written = True
                async for event in events:
                    assert event.type is not EventType.ERROR
                    version = event.resource_version
                    if event.object is not None:
                        seen.append(event.object.data["state"])
                    if seen[-1] == "200":
                        break
    assert seen == [str(number) for number in range(201)]
