"""A recorder between a client and a scripted driver, on real sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc import StatusCode, aio

from mooring.csi.client import CallFailed, DriverClient, Kind
from mooring.stubs import csi_pb2 as csi
from mooring.stubs import csi_pb2_grpc as services
from mooring.testing.memory_host import MemoryHost
from mooring.testing.recording_proxy import RecordingProxy
from mooring.testing.scripted_csi_driver import Answer, ScriptedCSIDriver

PUBLISH = csi.NodePublishVolumeRequest(volume_id="v", target_path="/target", secrets={"password": "hunter2"})


class Bench:
    """A client, a proxy and a driver in a row."""

    def __init__(self, place: Path) -> None:
        self.driver = ScriptedCSIDriver(MemoryHost(), str(place / "driver.sock"))
        self.lines = place / "calls.jsonl"
        self.proxy = RecordingProxy(str(place / "proxy.sock"), self.driver.socket, calls_file=str(self.lines))
        self.client = DriverClient(self.proxy.socket)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with self.driver.serving(), self.proxy.serving():
            yield
            await self.client.retire()

    async def failure(self) -> CallFailed:
        with pytest.raises(CallFailed) as failed:
            await self.client.publish(PUBLISH)
        return failed.value

    async def asked_again(self) -> None:
        """Ask as somebody who waits for the connection."""
        async with aio.insecure_channel(f"unix:{self.proxy.socket}") as channel:
            node: services.NodeAsyncStub = services.NodeStub(channel)
            await node.NodeGetInfo(csi.NodeGetInfoRequest(), wait_for_ready=True)


@pytest.fixture
async def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_calls_and_answers_pass_and_are_recorded_without_secrets(bench: Bench) -> None:
    async with bench.running():
        info = await bench.client.get_info()
        await bench.client.publish(PUBLISH)
    assert info.node_id == "memory-node"
    assert bench.driver.requests(csi.NodePublishVolumeRequest) == [PUBLISH]
    first, second = bench.proxy.calls
    assert (first.method, first.response, first.code) == ("NodeGetInfo", {"node_id": "memory-node"}, StatusCode.OK)
    assert second.request == {"volume_id": "v", "target_path": "/target", "secrets": {"password": "***"}}
    assert [json.loads(line)["method"] for line in bench.lines.read_text().splitlines()] == [
        "NodeGetInfo",
        "NodePublishVolume",
    ]
    assert "hunter2" not in bench.lines.read_text()


async def test_what_a_driver_refuses_is_refused_with_its_own_words(bench: Bench) -> None:
    bench.driver.answer("NodePublishVolume", Answer(code=StatusCode.INTERNAL, words="hunter2 is wrong", happens=False))
    async with bench.running():
        failed = await bench.failure()
    assert (failed.code, failed.words) == (StatusCode.INTERNAL, "*** is wrong")
    [call] = bench.proxy.calls
    assert (call.code, call.words, call.response) == (StatusCode.INTERNAL, "*** is wrong", None)


@pytest.mark.parametrize("happens", [True, False])
async def test_a_chosen_code_is_answered_before_or_after_the_driver_was_asked(bench: Bench, happens: bool) -> None:
    bench.proxy.answer("NodePublishVolume", Answer(code=StatusCode.ABORTED, words="busy", happens=happens))
    async with bench.running():
        failed = await bench.failure()
        await bench.client.publish(PUBLISH)
    assert (failed.code, failed.words) == (StatusCode.ABORTED, "busy")
    assert len(bench.driver.calls) == (2 if happens else 1)


async def test_an_answer_can_be_held_back(bench: Bench) -> None:
    late = asyncio.Event()
    bench.proxy.answer("NodePublishVolume", Answer(late=late))
    async with bench.running(), asyncio.TaskGroup() as tasks:
        published = tasks.create_task(bench.client.publish(PUBLISH))
        await bench.proxy.called.wait()
        assert bench.driver.methods() == ["NodePublishVolume"]
        assert not published.done()
        late.set()


async def test_connections_can_be_dropped_between_effect_and_answer_and_made_again(bench: Bench) -> None:
    bench.proxy.answer("NodePublishVolume", Answer(dies=True))
    async with bench.running():
        failed = await bench.failure()
        await bench.asked_again()
    assert failed.kind is Kind.UNCERTAIN
    assert bench.driver.methods() == ["NodePublishVolume"]


async def test_a_driver_that_is_not_there_is_unavailable(bench: Bench) -> None:
    async with bench.proxy.serving():
        failed = await bench.failure()
        await bench.client.retire()
    assert (failed.code, failed.kind) == (StatusCode.UNAVAILABLE, Kind.UNCERTAIN)
