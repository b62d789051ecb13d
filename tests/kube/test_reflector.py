"""The reflector by list and watch: which requests it sends, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import pytest

from mooring.kube.api import (
    ApiError,
    ConnectionRefused,
    Expired,
    InternalError,
    ListOptions,
    TooLargeResourceVersion,
    TooManyRequests,
    WatchOptions,
)
from mooring.kube.backoff import BackoffSettings
from mooring.kube.objects import ConfigMap, ObjectMeta
from mooring.kube.objects.kinds import POD
from mooring.kube.reflector import Reflector, ReflectorOptions
from mooring.testing.informer_bench import STEADY_BACKOFF, Mirror, ReflectorBench, listing, pod
from mooring.testing.scripted_api import Pause, ScriptedApi, StayOpen, added, bookmark, deleted, failed, modified
from mooring.testing.virtual_time import in_virtual_time

BY_LIST = ReflectorOptions(watch_list=False, backoff=STEADY_BACKOFF)


def error(kind: type[ApiError] = ApiError) -> ApiError:
    return kind("cannot go on", why="the script says so")


@in_virtual_time
async def test_r1_the_first_list_asks_for_any_version_and_the_watch_follows_it() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10, "a"))
    bench.api.answer_watches([StayOpen()])
    await bench.run_script()
    first, second = bench.api.requests
    assert first == ListOptions(resource_version="0", limit=500)
    assert isinstance(second, WatchOptions)
    assert (second.resource_version, second.allow_bookmarks, second.send_initial_events) == ("10", True, False)
    assert second.timeout_seconds is not None
    assert 300 <= second.timeout_seconds <= 600


@in_virtual_time
async def test_r2_a_relist_asks_for_nothing_older_than_the_last_version_without_pages() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10), listing(11))
    bench.api.answer_watches([failed(error(Expired))], [StayOpen()])
    await bench.run_script()
    assert bench.list_requests() == [("0", 500), ("10", 0)]


@in_virtual_time
async def test_r3_an_expired_relist_is_repeated_at_once_for_the_newest_version() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10), error(Expired), listing(30))
    bench.api.answer_watches([failed(error(Expired))], [StayOpen()])
    await bench.run_script()
    assert bench.list_requests() == [("0", 500), ("10", 0), ("", 500)]
    assert bench.api.times[2] == bench.api.times[3], "no wait between the two lists"
    assert bench.errors == []


@in_virtual_time
async def test_r4_an_expired_second_page_is_replaced_by_one_unlimited_list() -> None:
    bench = ReflectorBench(ReflectorOptions(watch_list=False, backoff=STEADY_BACKOFF, page_size=4))
    everything = [f"pod{number}" for number in range(8)]
    bench.api.answer_lists(
        listing(10), listing(10, *everything[:4], token="C1"), error(Expired), listing(10, *everything)
    )
    bench.api.answer_watches([failed(error(Expired))], [StayOpen()])
    await bench.run_script()
    requests = [(request.resource_version, request.limit, request.continue_token) for request in bench.api.lists]
    assert requests == [("0", 4, ""), ("10", 4, ""), ("", 4, "C1"), ("10", 0, "")]
    assert sorted(bench.store.objects) == everything
    assert bench.store.replaced_with == [0, 8]


@in_virtual_time
async def test_r5_a_too_large_version_is_answered_by_a_list_of_the_newest_each_time() -> None:
    """The three historical shapes of the error are told apart where a server's answers are decoded."""
    bench = ReflectorBench(BY_LIST)
    too_large = error(TooLargeResourceVersion)
    bench.api.answer_lists(listing(20), too_large, listing(30), too_large, listing(40), too_large, listing(50))
    bench.api.answer_watches(*[[failed(error(Expired))]] * 3, [StayOpen()])
    await bench.run_script()
    assert [version for version, _ in bench.list_requests()] == ["0", "20", "", "30", "", "40", ""]


@in_virtual_time
async def test_r6_all_pages_are_stored_together() -> None:
    bench = ReflectorBench(ReflectorOptions(watch_list=False, page_size=4))
    names = [f"pod{number}" for number in range(10)]
    bench.api.answer_lists(
        listing(10, *names[:4], token="C1"), listing(10, *names[4:8], token="C2"), listing(10, *names[8:])
    )
    bench.api.answer_watches([StayOpen()])
    await bench.run_script()
    assert [request.continue_token for request in bench.api.lists] == ["", "C1", "C2"]
    assert sorted(bench.store.objects) == names
    assert bench.store.replaced_at == ["10"]


@in_virtual_time
async def test_r7_once_a_cached_list_came_in_pages_every_list_asks_for_pages() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10, "a", token="C1"), listing(10, "b"), listing(11, "a", "b"))
    bench.api.answer_watches([failed(error(Expired))], [StayOpen()])
    await bench.run_script()
    assert bench.list_requests() == [("0", 500), ("", 500), ("10", 500)]


@in_virtual_time
async def test_r8_a_throttled_watch_is_opened_again_without_a_relist() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches(*[error(TooManyRequests)] * 4, [StayOpen()])
    await bench.run_script()
    assert (len(bench.api.lists), len(bench.api.watches)) == (1, 5)
    assert bench.api.times[-1] == 4.0, "four steps of backoff of one second"
    assert bench.errors == []


@in_virtual_time
async def test_r9_throttling_inside_a_stream_leads_to_a_new_watch_not_to_a_relist() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches(error(TooManyRequests), [failed(error(TooManyRequests))], [StayOpen()])
    await bench.run_script()
    assert (len(bench.api.lists), len(bench.api.watches)) == (1, 3)
    assert bench.api.times[-1] == 2.0


@in_virtual_time
async def test_r10_refused_connections_wait_ever_longer_up_to_the_cap() -> None:
    short = BackoffSettings(base=0.010, factor=2.0, cap=0.100, jitter=0.0)
    bench = ReflectorBench(ReflectorOptions(watch_list=False, backoff=short))
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches(*[error(ConnectionRefused)] * 5, [StayOpen()])
    await bench.run_script()
    assert bench.api.times[-1] == pytest.approx(0.250)


@in_virtual_time
async def test_a_server_that_is_back_is_asked_at_once_and_pauses_start_over() -> None:
    bench = ReflectorBench(ReflectorOptions(watch_list=False, backoff=BackoffSettings(jitter=0.0)))
    bench.api.answer_lists(*[error(ConnectionRefused)] * 7, listing(10))
    bench.api.answer_watches([StayOpen()])
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(bench.reflector.run())
        await asyncio.sleep(30)
        assert len(bench.api.times) == 6, "the next try is at 50 s"
        bench.reflector.hurry()
        await asyncio.sleep(1)
        running.cancel()
    assert bench.api.times[6:] == [30.0, 30.8, 30.8]


def internal_errors(count: int, pause_before: dict[int, float]) -> list[list[Any]]:
    return [[Pause(pause_before.get(number, 1.0)), failed(error(InternalError))] for number in range(count)]


@in_virtual_time
async def test_r11_internal_errors_are_forgiven_within_the_window() -> None:
    bench = ReflectorBench(ReflectorOptions(watch_list=False, backoff=STEADY_BACKOFF, internal_error_patience=30.0))
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches(*internal_errors(40, {}))
    await bench.run_script()
    assert len(bench.api.watches) == 1 + 31
    assert len(bench.api.lists) == 2


@in_virtual_time
async def test_r11_without_a_window_an_internal_error_leads_to_a_relist() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches(*internal_errors(1, {}))
    await bench.run_script()
    assert (len(bench.api.watches), len(bench.api.lists)) == (1, 2)


@in_virtual_time
async def test_r12_a_quiet_minute_makes_the_streak_of_internal_errors_forgotten() -> None:
    bench = ReflectorBench(ReflectorOptions(watch_list=False, backoff=STEADY_BACKOFF, internal_error_patience=30.0))
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches(*internal_errors(60, {9: 60.0}))
    await bench.run_script()
    assert len(bench.api.watches) == 1 + 40


@pytest.mark.parametrize(("shortest", "low", "high"), [(1.0, 300, 600), (1800.0, 1800, 3600)])
def test_r13_only_a_longer_shortest_watch_timeout_is_honoured(shortest: float, low: int, high: int) -> None:
    @in_virtual_time
    async def run() -> None:
        bench = ReflectorBench(
            ReflectorOptions(watch_list=False, backoff=STEADY_BACKOFF, shortest_watch_timeout=shortest)
        )
        bench.api.answer_lists(listing(10))
        bench.api.answer_watches(*[[Pause(5.0)]] * 20, [StayOpen()])
        await bench.run_script()
        timeouts = [request.timeout_seconds for request in bench.api.watches]
        assert all(timeout is not None and low <= timeout <= high for timeout in timeouts)
        assert len(set(timeouts)) > 1, "the timeouts are spread"

    run()


@in_virtual_time
async def test_r14_every_event_and_bookmark_moves_the_version() -> None:
    bench = ReflectorBench(BY_LIST)
    seen: list[str] = []

    def look() -> None:
        seen.append(bench.reflector.last_resource_version)

    bench.api.answer_lists(listing(10))
    bench.api.answer_watches(
        [
            added(pod("a", 10)),
            look,
            modified(pod("a", 20)),
            look,
            bookmark("30"),
            look,
            deleted(pod("a", 40)),
            look,
            StayOpen(),
        ]
    )
    await bench.run_script()
    assert seen == ["10", "20", "30", "40"]
    assert bench.store.bookmarks == ["30"]


@in_virtual_time
async def test_a_watch_from_any_version_moves_the_version_only_after_its_synthetic_additions() -> None:
    bench = ReflectorBench(BY_LIST)
    seen: list[str] = []

    def look() -> None:
        seen.append(bench.reflector.last_resource_version)

    bench.api.answer_lists(listing("0"))
    bench.api.answer_watches(
        [added(pod("a", 7)), look, added(pod("b", 3)), look, modified(pod("a", 8)), look, added(pod("c", 9)), look]
    )
    bench.api.answer_watches([StayOpen()])
    await bench.run_script()
    assert seen == ["0", "0", "8", "9"]


@in_virtual_time
async def test_r15_an_object_of_another_kind_is_skipped() -> None:
    bench = ReflectorBench(BY_LIST)
    stranger = ConfigMap(metadata=ObjectMeta(name="stranger", namespace="ns", resource_version="11"))
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches([added(stranger), added(pod("a", 12)), StayOpen()])
    await bench.run_script()
    assert list(bench.store.objects) == ["a"]


@in_virtual_time
async def test_a_change_that_the_store_rejects_is_lost_but_its_version_counts() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10, "a"))
    bench.api.answer_watches([modified(pod("a", 11, broken="yes")), StayOpen()])
    await bench.run_script()
    assert bench.store.objects["a"].metadata.resource_version == "10"
    assert bench.reflector.last_resource_version == "11"


@in_virtual_time
async def test_r16_a_watch_that_closes_at_once_leads_to_a_relist_after_backoff() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches([])
    await bench.run_script()
    assert [type(request) for request in bench.api.requests] == [ListOptions, WatchOptions, ListOptions]
    assert bench.api.times == [0.0, 0.0, 1.0]
    assert bench.errors == []


@in_virtual_time
async def test_a_watch_that_times_out_is_followed_by_the_next_one_at_once() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches([Pause(400.0)], [added(pod("a", 12))], [StayOpen()])
    await bench.run_script()
    assert bench.watch_versions() == ["10", "10", "12"]
    assert bench.api.times == [0.0, 0.0, 400.0, 400.0]


@in_virtual_time
async def test_r17_a_reflector_cancelled_before_it_starts_sends_no_request() -> None:
    bench = ReflectorBench(BY_LIST)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.reflector.run()).cancel()
    assert bench.api.requests == []


@in_virtual_time
async def test_r18_cancelling_closes_the_stream_exactly_once() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches([StayOpen()])
    await bench.run_script()
    assert (bench.api.streams_opened, bench.api.streams_closed) == (1, 1)


@in_virtual_time
async def test_r19_a_failing_resync_ends_the_watch_without_an_error() -> None:
    store = Mirror(failing_resync=2)
    bench = ReflectorBench(ReflectorOptions(watch_list=False, backoff=STEADY_BACKOFF, resync_period=30.0), store)
    bench.api.answer_lists(listing(10))
    bench.api.answer_watches([Pause(600.0)])
    assert await bench.reflector.list_and_watch() is None
    assert store.resyncs == 2
    assert asyncio.get_running_loop().time() == 60.0
    assert bench.api.streams_closed == 1


@in_virtual_time
async def test_r20_after_an_unreadable_object_the_relist_drops_it_and_keeps_the_others() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10, "good", "corrupt"), listing(12, "good"))
    bench.api.answer_watches([failed(error())], [StayOpen()])
    await bench.run_script()
    assert list(bench.store.objects) == ["good"]


@in_virtual_time
async def test_a_reported_error_reaches_the_handler_and_a_new_round_follows() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(error(), listing(10, "a"))
    bench.api.answer_watches([StayOpen()])
    await bench.run_script()
    assert [str(failure) for failure in bench.errors] == ["cannot go on: the script says so."]
    assert list(bench.store.objects) == ["a"]


@in_virtual_time
async def test_a_long_outage_starts_the_delays_over_every_two_minutes() -> None:
    bench = ReflectorBench(ReflectorOptions(watch_list=False, backoff=BackoffSettings(jitter=0.0)))
    bench.api.answer_lists(*[error()] * 12)
    await bench.run_script()
    waits = [later - earlier for earlier, later in zip(bench.api.times, bench.api.times[1:], strict=False)]
    assert waits == pytest.approx([0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0, 0.8, 1.6, 3.2])


@in_virtual_time
async def test_jitter_makes_a_wait_up_to_twice_as_long() -> None:
    bench = ReflectorBench(ReflectorOptions(watch_list=False))
    bench.api.answer_lists(error())
    await bench.run_script()
    assert 0.8 <= bench.api.times[1] < 1.6


@in_virtual_time
async def test_without_an_error_handler_failures_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    api = ScriptedApi()
    api.answer_lists(error(), listing(10))
    api.answer_watches(error(Expired))
    reflector = Reflector(api, POD, Mirror(), random_source=random.Random(1), options=BY_LIST)
    with caplog.at_level(logging.INFO):
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(reflector.run())
            await api.finished.wait()
            task.cancel()
    levels = [record.levelname for record in caplog.records if "the script says so" in record.message]
    assert levels == ["ERROR", "INFO"]


@in_virtual_time
async def test_as_long_as_no_list_succeeds_an_expired_version_is_not_asked_for_again() -> None:
    bench = ReflectorBench(BY_LIST)
    bench.api.answer_lists(listing(10), error(Expired), error(), listing(30))
    bench.api.answer_watches([failed(error(Expired))], [StayOpen()])
    await bench.run_script()
    assert [version for version, _ in bench.list_requests()] == ["0", "10", "", ""]
