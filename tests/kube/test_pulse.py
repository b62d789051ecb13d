"""Streams that say nothing any more."""

from __future__ import annotations

import asyncio
import math

from mooring.kube.pulse import SILENCE, Pulse
from mooring.testing.virtual_time import in_virtual_time


class Server:
    """Answers, or does not, when it is asked whether it is there."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.is_there = True
        self.pulse = Pulse(self._answer)

    async def _answer(self) -> bool:
        self.asked.append(asyncio.get_running_loop().time())
        if not self.is_there:
            await asyncio.sleep(15)
        return self.is_there


async def nothing() -> bytes:
    """A stream that is open, and says nothing."""
    await asyncio.Event().wait()
    return b""


def saying(word: bytes, *, after: float) -> asyncio.Future[bytes]:
    said: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(after, said.set_result, word)
    return said


@in_virtual_time
async def test_a_stream_may_be_silent_for_as_long_as_its_server_answers() -> None:
    server = Server()
    word = saying(b"word", after=1000)
    assert await server.pulse.listen(lambda: asyncio.shield(word), math.inf) == b"word"
    assert server.asked == [SILENCE * number for number in range(1, 23)]


@in_virtual_time
async def test_all_streams_of_a_server_that_does_not_answer_end_and_it_is_asked_once() -> None:
    server = Server()
    server.is_there = False
    async with asyncio.timeout(SILENCE + 16), asyncio.TaskGroup() as tasks:
        streams = [tasks.create_task(server.pulse.listen(nothing, math.inf)) for _ in range(100)]
    assert [stream.result() for stream in streams] == [b""] * 100
    assert server.asked == [SILENCE]


@in_virtual_time
async def test_a_server_that_speaks_on_one_stream_is_not_asked() -> None:
    server = Server()
    async with asyncio.TaskGroup() as tasks:
        silent = tasks.create_task(server.pulse.listen(nothing, math.inf))
        for _ in range(100):
            word = saying(b"word", after=30)
            await server.pulse.listen(lambda said=word: said, math.inf)  # type: ignore[misc]
        assert not silent.done()
        silent.cancel()
    assert server.asked == []


@in_virtual_time
async def test_a_stream_that_should_have_ended_is_ended_also_while_its_server_answers() -> None:
    server = Server()
    assert await server.pulse.listen(nothing, 330.0) == b""
    assert asyncio.get_running_loop().time() == 330.0


@in_virtual_time
async def test_a_server_that_is_back_is_asked_again_before_streams_are_given_up() -> None:
    server = Server()
    server.is_there = False
    assert await server.pulse.listen(nothing, math.inf) == b""
    server.is_there = True
    word = saying(b"word", after=100)
    assert await server.pulse.listen(lambda: asyncio.shield(word), math.inf) == b"word"


@in_virtual_time
async def test_a_stream_that_was_silent_while_its_server_was_lost_ends_though_the_server_is_back() -> None:
    server = Server()
    server.is_there = False
    async with asyncio.TaskGroup() as tasks:
        first = tasks.create_task(server.pulse.listen(nothing, math.inf))
        await asyncio.sleep(40)
        second = tasks.create_task(server.pulse.listen(nothing, math.inf))
        await first
        server.is_there = True
        assert await second == b""
    assert server.asked == [SILENCE]
