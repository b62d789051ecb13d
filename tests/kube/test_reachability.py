"""Who looks whether a server that was away is back."""

from __future__ import annotations

import asyncio

import pytest

from mooring.kube.api import ApiError, ConnectionRefused, Forbidden, InternalError, Unauthorized
from mooring.kube.reachability import Reachability
from mooring.testing.virtual_time import in_virtual_time


class Looks:
    """A server that is away for so many looks, and then says something else or is ready."""

    def __init__(self, away: int, then: type[ApiError] | None = None) -> None:
        self.times: list[float] = []
        self._away, self._then = away, then

    async def __call__(self) -> None:
        self.times.append(asyncio.get_running_loop().time())
        if len(self.times) <= self._away:
            raise ConnectionRefused("cannot look", why="it is away")
        if self._then is not None:
            raise self._then("cannot look", why="it says so")


@in_virtual_time
async def test_nobody_looks_at_a_server_that_serves() -> None:
    looks = Looks(away=0)
    reachability = Reachability(looks)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(reachability.until_back())
        await asyncio.sleep(1000)
        assert looks.times == []
        reachability.lost()
        await asyncio.sleep(1)
        assert waiting.done()
    assert len(looks.times) == 1


@in_virtual_time
async def test_a_server_that_is_away_is_looked_at_every_few_seconds_until_it_is_back() -> None:
    looks = Looks(away=100)
    reachability = Reachability(looks)
    reachability.lost()
    await reachability.until_back()
    pauses = [after - before for before, after in zip(looks.times, looks.times[1:], strict=False)]
    assert len(looks.times) == 101
    assert all(0.5 <= pause <= 4.0 for pause in pauses)


@in_virtual_time
async def test_it_is_back_once_each_time_that_it_was_away() -> None:
    looks = Looks(away=0)
    reachability = Reachability(looks)
    for _ in range(3):
        reachability.lost()
        reachability.lost()
        await reachability.until_back()
    assert len(looks.times) == 3


@in_virtual_time
async def test_a_server_that_is_ready_was_not_away_however_often_it_fails_at_one_thing() -> None:
    looks = Looks(away=0)
    reachability = Reachability(looks)
    async with asyncio.TaskGroup() as tasks:
        waiting = tasks.create_task(reachability.until_back())
        for _ in range(100):
            reachability.doubted()
            await asyncio.sleep(1)
        assert not waiting.done()
        waiting.cancel()
    assert 0 < len(looks.times) < 100


@in_virtual_time
async def test_a_server_that_answers_and_is_not_ready_is_away_until_it_is() -> None:
    looks = Looks(away=3)
    reachability = Reachability(looks)
    reachability.doubted()
    await reachability.until_back()
    assert len(looks.times) == 4


@pytest.mark.parametrize("answer", [Unauthorized, Forbidden])
@in_virtual_time
async def test_a_server_that_does_not_say_whether_it_is_ready_is_back_when_it_answers(answer: type[ApiError]) -> None:
    reachability = Reachability(Looks(away=2, then=answer))
    reachability.lost()
    async with asyncio.timeout(60):
        await reachability.until_back()


@in_virtual_time
async def test_a_server_that_answers_with_a_failure_is_not_back() -> None:
    reachability = Reachability(Looks(away=0, then=InternalError))
    reachability.lost()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(600):
            await reachability.until_back()
