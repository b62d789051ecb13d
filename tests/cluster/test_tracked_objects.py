"""Single objects on a real API server, asked for with a node's identity, for which lists of them are forbidden."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from collections.abc import AsyncIterator, Callable, Sequence

import pytest
from rig.control_plane import SERVER, ControlPlane
from tests.cluster.test_api_server import each_of

from mooring.kube import kubeconfig
from mooring.kube.api import LIST_ALL, WATCH_ALL, Forbidden, ListOptions, ObjectList, WatchEvent, WatchOptions
from mooring.kube.api_server import ApiServer
from mooring.kube.objects import ConfigMap, Container, ObjectMeta, Pod, PodSpec
from mooring.kube.objects.kinds import CONFIG_MAP, SERVICE_ACCOUNT, Kind, ObjectT
from mooring.kube.objects.pod import Namespace
from mooring.kube.objects.volumes import ConfigMapVolumeSource, Volume
from mooring.kube.tracked_objects import Fetch, ObjectKey, Strategy, TrackedObjects, Watch

pytestmark = pytest.mark.cluster

NODE = "tracking-node"
PATIENCE = 90.0
WATCHED = Watch()


@pytest.fixture
async def admin(plane: ControlPlane) -> AsyncIterator[ApiServer]:
    async with ApiServer(kubeconfig.load(str(plane.kubeconfig)), agent="mooring-test") as made:
        yield made


class NodeView(ApiServer):
    """A server as a node sees it, which remembers what it was asked for."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(kubeconfig.load(str(plane.node_kubeconfig(NODE))), agent="mooring-test")
        self.asked: set[str] = set()
        self.open = 0  # watches

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        self.asked.add(name)
        return await super().get(kind, namespace, name)

    async def list(self, kind: Kind[ObjectT], options: ListOptions = LIST_ALL) -> ObjectList[ObjectT]:
        self.asked.add(options.field_selector.removeprefix("metadata.name="))
        return await super().list(kind, options)

    @contextlib.asynccontextmanager
    async def watch(
        self, kind: Kind[ObjectT], options: WatchOptions = WATCH_ALL
    ) -> AsyncIterator[AsyncIterator[WatchEvent[ObjectT]]]:
        async with super().watch(kind, options) as events:
            self.open += 1
            try:
                yield events
            finally:
                self.open -= 1


class Bench:
    """Tracked objects with a node's identity; what the node may read is what its pods name."""

    def __init__(self, admin: ApiServer, node: NodeView, strategy: Strategy) -> None:
        self.admin, self.node = admin, node
        self.namespace = ""
        self._heard = asyncio.Event()
        self.tracked = TrackedObjects(
            node,
            strategies={"ConfigMap": strategy},
            changed=lambda key: self._heard.set(),
            random_source=random.Random(1),
        )

    async def make(self, names: Sequence[str], *, immutable: bool = False) -> list[ObjectKey]:
        """Config maps that a pod of the node uses."""

        async def create(name: str) -> None:
            meta = ObjectMeta(name=name, namespace=self.namespace)
            await self.admin.create(ConfigMap(metadata=meta, data={"key": "0"}, immutable=immutable))

        await each_of(names, create)
        return await self.bind(names)

    async def bind(self, names: Sequence[str]) -> list[ObjectKey]:
        volumes = tuple(Volume(name=name, config_map=ConfigMapVolumeSource(name=name)) for name in names)
        spec = PodSpec(node_name=NODE, containers=(Container(name="main", image="none"),), volumes=volumes)
        await self.admin.create(Pod(metadata=ObjectMeta(generate_name="web-", namespace=self.namespace), spec=spec))
        return [ObjectKey(CONFIG_MAP, self.namespace, name) for name in names]

    async def set_value(self, name: str, value: str) -> None:
        await self.admin.patch(CONFIG_MAP, self.namespace, name, {"data": {"key": value}})

    def value(self, key: ObjectKey) -> str | None:
        found = self.tracked.find(CONFIG_MAP, key.namespace, key.name)
        return found.data.get("key") if found is not None else None

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for changes until something holds."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._heard.clear()
                await self._heard.wait()


@contextlib.asynccontextmanager
async def tracking(plane: ControlPlane, admin: ApiServer, strategy: Strategy = WATCHED) -> AsyncIterator[Bench]:
    node = NodeView(plane)
    async with node, asyncio.TaskGroup() as tasks:
        bench = Bench(admin, node, strategy)
        name = f"tracking-{uuid.uuid4().hex[:8]}"
        bench.namespace = (await admin.create(Namespace(metadata=ObjectMeta(name=name)))).metadata.name
        await account_of(admin, bench.namespace)
        running = tasks.create_task(bench.tracked.run())
        try:
            yield bench
        finally:
            running.cancel()


async def account_of(admin: ApiServer, namespace: str) -> None:
    """Wait until pods can be made in a new namespace: their default account is made by a controller."""
    async with (
        asyncio.timeout(PATIENCE),
        admin.watch(SERVICE_ACCOUNT, WatchOptions(namespace=namespace, send_initial_events=True)) as events,
    ):
        async for event in events:
            if event.object is not None and event.object.metadata.name == "default":
                return


async def test_only_what_a_pod_of_the_node_uses_is_asked_for(plane: ControlPlane, admin: ApiServer) -> None:
    async with tracking(plane, admin) as bench:
        keys = await bench.make(["used", "other"])
        with pytest.raises(Forbidden):
            await bench.node.list(CONFIG_MAP, ListOptions(namespace=bench.namespace))
        bench.node.asked.clear()
        bench.tracked.need("pod", keys[:1])
        assert await bench.tracked.until_known(keys[:1], timeout=PATIENCE)
        await bench.set_value("used", "1")
        await bench.until(lambda: bench.value(keys[0]) == "1")
    assert bench.node.asked == {"used"}


async def test_what_is_forbidden_is_known_as_soon_as_a_pod_uses_it(plane: ControlPlane, admin: ApiServer) -> None:
    async with tracking(plane, admin) as bench:
        await bench.admin.create(ConfigMap(metadata=ObjectMeta(name="early", namespace=bench.namespace)))
        key = ObjectKey(CONFIG_MAP, bench.namespace, "early")
        bench.tracked.need("pod", [key])
        assert not await bench.tracked.until_known([key], timeout=1)
        assert isinstance(bench.tracked.error(key), Forbidden)
        await bench.bind(["early"])
        assert await bench.tracked.until_known([key], timeout=PATIENCE)
        assert bench.tracked.get(key) is not None


async def test_an_object_can_be_fetched_and_looked_at_again(plane: ControlPlane, admin: ApiServer) -> None:
    async with tracking(plane, admin, Fetch(lambda found, tries: None)) as bench:
        keys = await bench.make(["fetched"])
        bench.tracked.need("pod", keys)
        assert await bench.tracked.until_known(keys, timeout=PATIENCE)
        await bench.set_value("fetched", "1")
        bench.tracked.look_again(keys[0])
        await bench.until(lambda: bench.value(keys[0]) == "1")


async def test_three_hundred_are_watched_at_once_and_immutable_ones_no_further(
    plane: ControlPlane, admin: ApiServer
) -> None:
    async with tracking(plane, admin) as bench:
        keys = await bench.make([f"map-{number}" for number in range(300)])
        steady = await bench.make([f"steady-{number}" for number in range(50)], immutable=True)
        bench.tracked.need("pod", [*keys, *steady])
        assert await bench.tracked.until_known([*keys, *steady], timeout=PATIENCE)
        await each_of([key.name for key in keys], lambda name: bench.set_value(name, "1"))
        await bench.until(lambda: all(bench.value(key) == "1" for key in keys))
        assert {bench.value(key) for key in steady} == {"0"}
        assert bench.node.open == 300


async def test_the_last_of_a_thousand_rapid_updates_is_known(plane: ControlPlane, admin: ApiServer) -> None:
    async with tracking(plane, admin) as bench:
        keys = await bench.make([f"busy-{number}" for number in range(10)])
        bench.tracked.need("pod", keys)
        assert await bench.tracked.until_known(keys, timeout=PATIENCE)

        async def write(name: str) -> None:
            for number in range(100):
                await bench.set_value(name, str(number))

        await each_of([key.name for key in keys], write)
        await bench.until(lambda: all(bench.value(key) == "99" for key in keys))


async def test_a_server_that_was_killed_is_caught_up_with(plane: ControlPlane, admin: ApiServer) -> None:
    async with tracking(plane, admin) as bench:
        keys = await bench.make([f"map-{number}" for number in range(50)])
        bench.tracked.need("pod", keys)
        assert await bench.tracked.until_known(keys, timeout=PATIENCE)
        plane.kill(SERVER)
        assert {bench.value(key) for key in keys} == {"0"}, "what was known stays"
        await plane.start(SERVER)
        await each_of([key.name for key in keys], lambda name: bench.set_value(name, "1"))
        await bench.until(lambda: all(bench.value(key) == "1" for key in keys))
