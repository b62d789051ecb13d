"""Which pods have containers that others started."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio

from mooring.runtimes.cri_pods import POD_UID_LABEL, CriPods, live_pods
from mooring.runtimes.interface import RuntimeFailed
from mooring.runtimes.pod_watcher import RuntimePodWatcher
from mooring.stubs import cri_pb2 as cri
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.names import PodUid

WEB, DB = PodUid("uid-web"), PodUid("uid-db")


def container(uid: str, name: str, state: cri.ContainerState.ValueType) -> cri.Container:
    labels = {POD_UID_LABEL: uid} if uid else {}
    return cri.Container(metadata=cri.ContainerMetadata(name=name), state=state, labels=labels)


def sandbox(uid: str, state: cri.PodSandboxState.ValueType) -> cri.PodSandbox:
    return cri.PodSandbox(metadata=cri.PodSandboxMetadata(uid=uid), state=state)


def test_only_what_has_stopped_is_not_alive() -> None:
    containers = [
        container("a", "main", cri.CONTAINER_RUNNING),
        container("a", "init", cri.CONTAINER_EXITED),
        container("b", "main", cri.CONTAINER_CREATED),
        container("c", "main", cri.CONTAINER_UNKNOWN),
        container("d", "main", cri.CONTAINER_EXITED),
        container("", "foreign", cri.CONTAINER_RUNNING),
    ]
    sandboxes = [sandbox("d", cri.SANDBOX_NOTREADY), sandbox("e", cri.SANDBOX_READY)]
    assert live_pods(sandboxes, containers, where="R") == {
        "a": "R goes on with main",
        "b": "R goes on with main",
        "c": "R goes on with main",
        "e": "R keeps the pod's sandbox",
    }


class MemoryPods:
    """A runtime in memory, with events or without."""

    where = "the runtime"

    def __init__(self, *, with_events: bool) -> None:
        self.live: dict[PodUid, str] = {}
        self.broken = False
        self.asked = 0
        self.hold: asyncio.Event | None = None
        self._bell = asyncio.Event()
        self._with_events = with_events

    def ring(self) -> None:
        self._bell.set()

    async def live_pods(self) -> Mapping[PodUid, str]:
        self.asked += 1
        if self.broken:
            raise RuntimeFailed("the runtime cannot list containers", why="nobody listens")
        found = dict(self.live)
        if self.hold is not None:
            await self.hold.wait()
        return found

    async def events(self) -> AsyncIterator[None]:
        while self._with_events:
            self._bell.clear()
            await self._bell.wait()
            yield None


class Scene:
    def __init__(self, runtime: MemoryPods) -> None:
        self.told: dict[PodUid, str | None] = {}
        self.changed = asyncio.Event()
        self.watcher = RuntimePodWatcher(runtime, self._tell)

    def _tell(self, uid: PodUid, words: str | None) -> None:
        self.told[uid] = words
        self.changed.set()

    async def until(self, uid: PodUid, words: str | None) -> None:
        while self.told.get(uid, "") != words:
            self.changed.clear()
            await self.changed.wait()


@contextlib.asynccontextmanager
async def watching(runtime: MemoryPods) -> AsyncIterator[Scene]:
    scene = Scene(runtime)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(scene.watcher.run())
        yield scene
        task.cancel()


@pytest.mark.parametrize("with_events", [True, False])
def test_a_pod_that_leaves_is_held_until_its_containers_have_stopped(with_events: bool) -> None:
    @in_virtual_time
    async def main() -> None:
        runtime = MemoryPods(with_events=with_events)
        runtime.live[WEB] = "main runs"
        async with watching(runtime) as scene:
            await scene.watcher.answered.wait()
            assert scene.told == {WEB: "main runs"}
            scene.watcher.look(WEB)
            await asyncio.sleep(5)
            assert scene.told == {WEB: "main runs"}
            runtime.live.clear()
            runtime.ring()
            await scene.until(WEB, None)

    main()


@in_virtual_time
async def test_an_answer_to_an_earlier_question_does_not_count() -> None:
    runtime = MemoryPods(with_events=False)
    runtime.hold = asyncio.Event()
    async with watching(runtime) as scene:
        await asyncio.sleep(1)
        scene.watcher.look(WEB)
        runtime.live[WEB] = "main runs"
        runtime.hold.set()
        await scene.until(WEB, "main runs")
        assert None not in scene.told.values()


@in_virtual_time
async def test_nothing_is_known_until_the_runtime_has_answered() -> None:
    runtime = MemoryPods(with_events=False)
    runtime.broken = True
    async with watching(runtime) as scene:
        scene.watcher.look(WEB)
        await asyncio.sleep(60)
        assert not scene.watcher.answered.is_set()
        assert scene.told == {WEB: "the runtime has not said yet that there are none"}
        runtime.broken = False
        await scene.until(WEB, None)
        assert scene.watcher.answered.is_set()


@in_virtual_time
async def test_a_pod_that_has_left_is_not_held_again() -> None:
    runtime = MemoryPods(with_events=False)
    async with watching(runtime) as scene:
        scene.watcher.look(WEB)
        await scene.until(WEB, None)
        scene.watcher.look(WEB)
        assert scene.told == {WEB: None}


@in_virtual_time
async def test_a_runtime_with_events_is_not_asked_without_one() -> None:
    runtime = MemoryPods(with_events=True)
    runtime.live[DB] = "db runs"
    async with watching(runtime) as scene:
        await scene.watcher.answered.wait()
        runtime.ring()
        await asyncio.sleep(60)
        asked = runtime.asked
        await asyncio.sleep(3600)
        assert runtime.asked == asked


# -- on the wire -----------------------------------------------------------------------------------------------------
async def _sandboxes(request: bytes, context: object) -> bytes:
    return cri.ListPodSandboxResponse(items=[sandbox("uid-db", cri.SANDBOX_READY)]).SerializeToString()


async def _containers(request: bytes, context: object) -> bytes:
    found = [container("uid-web", "main", cri.CONTAINER_RUNNING)]
    return cri.ListContainersResponse(containers=found).SerializeToString()


async def _events(request: bytes, context: object) -> AsyncIterator[bytes]:
    yield b""
    yield b""


@contextlib.asynccontextmanager
async def serving(socket: Path, *, with_events: bool) -> AsyncIterator[CriPods]:
    server = aio.server()
    methods: dict[str, Any] = {
        "ListPodSandbox": grpc.unary_unary_rpc_method_handler(_sandboxes),
        "ListContainers": grpc.unary_unary_rpc_method_handler(_containers),
    }
    if with_events:
        methods["GetContainerEvents"] = grpc.unary_stream_rpc_method_handler(_events)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", methods),))
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    pods = CriPods(f"unix://{socket}")
    try:
        yield pods
    finally:
        await pods.close()
        await server.stop(None)


async def test_a_runtime_is_asked_over_its_socket(tmp_path: Path) -> None:
    async with serving(tmp_path / "s", with_events=False) as pods:
        assert sorted(await pods.live_pods()) == ["uid-db", "uid-web"]
        assert [event async for event in pods.events()] == []


async def test_each_event_of_a_runtime_rings(tmp_path: Path) -> None:
    async with serving(tmp_path / "s", with_events=True) as pods:
        assert [event async for event in pods.events()] == [None, None]


async def test_a_runtime_that_is_away_is_named_with_what_to_do(tmp_path: Path) -> None:
    pods = CriPods(str(tmp_path / "nobody"))
    with pytest.raises(RuntimeFailed, match="--cri"):
        await pods.live_pods()
    await pods.close()
