"""The reflector by streaming list: the initial state as events of the watch that goes on after them."""

from __future__ import annotations

import asyncio

import pytest

from mooring.kube.api import (
    ApiError,
    Expired,
    Invalid,
    ListOptions,
    TooManyRequests,
    WatchOptions,
)
from mooring.kube.reflector import ReflectorOptions
from mooring.testing.informer_bench import STEADY_BACKOFF, ReflectorBench, listing, pod
from mooring.testing.scripted_api import Pause, StayOpen, Step, added, bookmark, deleted, failed, modified
from mooring.testing.virtual_time import in_virtual_time

BY_STREAM = ReflectorOptions(backoff=STEADY_BACKOFF)


def error(kind: type[ApiError] = ApiError) -> ApiError:
    return kind("cannot go on", why="the script says so")


@in_virtual_time
async def test_r21_a_streaming_list_needs_one_watch_and_no_list() -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches([added(pod("p1", 1)), added(pod("p2", 2)), bookmark("2", ends_initial="true"), StayOpen()])
    await bench.run_script()
    (request,) = bench.api.requests
    assert isinstance(request, WatchOptions)
    assert (request.send_initial_events, request.resource_version, request.allow_bookmarks) == (True, "", True)
    assert sorted(bench.store.objects) == ["p1", "p2"]
    assert bench.reflector.last_resource_version == "2"


@in_virtual_time
async def test_r22_a_streaming_list_without_its_end_stores_nothing() -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches([added(pod("p1", 1)), StayOpen()])
    await bench.run_script()
    assert bench.store.replaced_at == []


@in_virtual_time
async def test_r23_a_bookmark_that_says_false_does_not_end_the_initial_events() -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches([added(pod("p1", 1)), bookmark("2", ends_initial="false"), StayOpen()])
    await bench.run_script()
    assert bench.store.replaced_at == []


@in_virtual_time
async def test_r24_changes_during_the_initial_events_are_applied_before_they_are_stored() -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches(
        [
            added(pod("p1", 1)),
            added(pod("p2", 2)),
            modified(pod("p1", 3)),
            added(pod("p3", 4)),
            deleted(pod("p3", 5)),
            bookmark("5", ends_initial="true"),
            StayOpen(),
        ]
    )
    await bench.run_script()
    versions = {name: obj.metadata.resource_version for name, obj in bench.store.objects.items()}
    assert versions == {"p1": "3", "p2": "2"}
    assert bench.store.replaced_at == ["5"]


@pytest.mark.parametrize("refusal", [Invalid, ApiError])
def test_r25_a_refused_streaming_list_falls_back_to_a_list(refusal: type[ApiError]) -> None:
    @in_virtual_time
    async def run() -> None:
        bench = ReflectorBench(BY_STREAM)
        bench.api.answer_watches(error(refusal), [StayOpen()])
        bench.api.answer_lists(listing(10, "a"))
        await bench.run_script()
        streaming, listed, watched = bench.api.requests
        assert isinstance(streaming, WatchOptions)
        assert streaming.send_initial_events
        assert listed == ListOptions(resource_version="0", limit=500)
        assert isinstance(watched, WatchOptions)
        assert (watched.send_initial_events, watched.resource_version) == (False, "10")

    run()


@in_virtual_time
async def test_r26_a_throttled_streaming_list_is_repeated_without_a_list() -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches(
        error(TooManyRequests), error(TooManyRequests), [bookmark("2", ends_initial="true"), StayOpen()]
    )
    await bench.run_script()
    assert [request.send_initial_events for request in bench.api.watches] == [True, True, True]
    assert (bench.api.lists, bench.api.times[-1]) == ([], 2.0)


@in_virtual_time
async def test_r27_a_streaming_list_that_breaks_off_starts_over_from_nothing() -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches(
        [added(pod("lost", 1))], [added(pod("kept", 2)), bookmark("2", ends_initial="true"), StayOpen()]
    )
    await bench.run_script()
    assert bench.watch_versions() == ["", ""]
    assert list(bench.store.objects) == ["kept"]


@in_virtual_time
async def test_r28_after_a_streaming_list_the_next_watch_is_a_plain_one() -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches(
        [added(pod("p1", 1)), bookmark("2", ends_initial="true"), added(pod("p3", 3))], [StayOpen()]
    )
    await bench.run_script()
    last = bench.api.watches[-1]
    assert (last.resource_version, last.send_initial_events) == ("3", False)


@in_virtual_time
async def test_r29_an_expired_error_on_opening_is_reported_and_keeps_the_data() -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches([added(pod("p1", 1)), bookmark("2", ends_initial="true"), Pause(300.0)], error(Expired))
    failure = await bench.reflector.list_and_watch()
    assert isinstance(failure, Expired)
    assert list(bench.store.objects) == ["p1"]


@in_virtual_time
async def test_an_expired_streaming_list_is_repeated_at_once_for_the_newest_version() -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches(
        [bookmark("2", ends_initial="true"), failed(error(Expired))],
        error(Expired),
        [bookmark("9", ends_initial="true"), StayOpen()],
    )
    await bench.run_script()
    assert bench.watch_versions() == ["", "2", ""]
    assert bench.api.times == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("answer", [[], error(Expired)])
def test_a_stream_that_closes_or_expires_at_once_falls_back_to_a_list(answer: list[Step] | ApiError) -> None:
    @in_virtual_time
    async def run() -> None:
        bench = ReflectorBench(BY_STREAM)
        bench.api.answer_watches(answer, [StayOpen()])
        bench.api.answer_lists(listing(10, "a"))
        await bench.run_script()
        assert bench.list_requests() == [("0", 500)]
        assert bench.api.times == [0.0, 0.0, 0.0]
        assert list(bench.store.objects) == ["a"]

    run()


@in_virtual_time
async def test_every_ten_silent_seconds_a_warning_says_that_the_end_is_awaited(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches([added(pod("a", 1)), Pause(25.0), bookmark("2", ends_initial="true"), StayOpen()])
    await bench.run_script()
    await asyncio.sleep(60.0)
    assert caplog.text.count("still waiting for the bookmark") == 2


@in_virtual_time
async def test_an_error_in_the_initial_events_falls_back_to_a_list() -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches([added(pod("a", 1)), failed(error())], [StayOpen()])
    bench.api.answer_lists(listing(10, "b"))
    await bench.run_script()
    assert list(bench.store.objects) == ["b"]
    assert bench.api.streams_closed == 2


@in_virtual_time
async def test_a_server_that_cannot_stream_is_complained_of_once(caplog: pytest.LogCaptureFixture) -> None:
    bench = ReflectorBench(BY_STREAM)
    bench.api.answer_watches(error(), error(), error(), error(), error(), [StayOpen()])
    bench.api.answer_lists(listing(10, "a"), listing(11, "a"), listing(12, "a"))
    await bench.run_script()
    assert len(bench.list_requests()) == 3
    assert caplog.text.count("cannot stream Pod") == 1
