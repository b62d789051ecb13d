"""Resyncs of an informer: who is due when, and who hears of unchanged objects."""

from __future__ import annotations

import asyncio
import random

from mooring.kube.api import ApiError, Expired
from mooring.kube.informer import SharedIndexInformer
from mooring.kube.local_store import LocalStore
from mooring.kube.objects import Pod
from mooring.kube.objects.kinds import POD
from mooring.kube.reflector import ReflectorOptions
from mooring.testing.informer_bench import STEADY_BACKOFF, RecordingHandler, pod, running, settle
from mooring.testing.scripted_api import Pause, ScriptedApi, StayOpen, Step, added, bookmark, failed
from mooring.testing.virtual_time import in_virtual_time


def informer_of(api: ScriptedApi | LocalStore, *, resync_period: float = 0.0) -> SharedIndexInformer[Pod]:
    options = ReflectorOptions(backoff=STEADY_BACKOFF)
    return SharedIndexInformer(api, POD, resync_period=resync_period, options=options, random_source=random.Random(1))


def _error(kind: type[ApiError] = ApiError) -> ApiError:
    return kind("cannot list pods", why="access denied")


@in_virtual_time
async def test_i1_each_handler_is_resynced_at_its_own_period() -> None:
    store = LocalStore()
    await store.create(pod("a"))
    informer = informer_of(store, resync_period=1.0)
    never, every_two, every_three = RecordingHandler(), RecordingHandler(), RecordingHandler()
    for handler, period in ((never, 0.0), (every_two, 2.0), (every_three, 3.0)):
        informer.add_event_handler(handler, resync_period=period)
    async with running(informer):
        await asyncio.sleep(1.5)
        assert [handler.take() for handler in (never, every_two, every_three)] == [["*a"]] * 3
        await asyncio.sleep(1.0)
        assert [handler.take() for handler in (never, every_two, every_three)] == [[], ["~a"], []]
        await asyncio.sleep(1.0)
        assert [handler.take() for handler in (never, every_two, every_three)] == [[], [], ["~a"]]


def test_i2_handlers_before_the_start_shorten_the_check_period() -> None:
    informer = informer_of(ScriptedApi(), resync_period=12 * 3600.0)
    registrations = []
    periods = []
    for wanted in (0.0, 60.0, 55.0, 5.0):
        registrations.append(informer.add_event_handler(RecordingHandler(), resync_period=wanted))
        periods.append(informer.resync_check_period)
    assert periods == [12 * 3600.0, 60.0, 55.0, 5.0]
    assert [registration.listener.resync_period for registration in registrations] == [0.0, 60.0, 55.0, 5.0]


def test_a_resync_below_one_second_is_raised_to_one() -> None:
    informer = informer_of(ScriptedApi(), resync_period=60.0)
    assert informer.add_event_handler(RecordingHandler(), resync_period=0.1).listener.resync_period == 1.0


def test_an_informer_that_never_resyncs_resyncs_no_handler() -> None:
    informer = informer_of(ScriptedApi())
    assert informer.add_event_handler(RecordingHandler(), resync_period=10.0).listener.resync_period == 0.0


@in_virtual_time
async def test_a_late_handler_cannot_shorten_the_check_period() -> None:
    informer = informer_of(LocalStore(), resync_period=30.0)
    async with running(informer):
        registration = informer.add_event_handler(RecordingHandler(), resync_period=2.0)
        assert registration.listener.resync_period == 30.0
        assert informer.resync_check_period == 30.0


@in_virtual_time
async def test_i3_after_a_relist_unchanged_objects_go_only_to_handlers_being_resynced() -> None:
    api = ScriptedApi()
    quiet, resynced = RecordingHandler(), RecordingHandler()

    def forget() -> None:
        quiet.take()
        resynced.take()

    first: list[Step] = [
        added(pod("pod1", 1)),
        added(pod("pod2", 2)),
        bookmark("2", ends_initial="true"),
        Pause(5.5),
        forget,
    ]
    second: list[Step] = [
        added(pod("pod1", 1)),
        added(pod("pod2", 3)),
        added(pod("pod3", 4)),
        bookmark("4", ends_initial="true"),
    ]
    api.answer_watches([*first, failed(_error(Expired))], [*second, StayOpen()])
    informer = informer_of(api, resync_period=1.0)
    informer.add_event_handler(quiet, resync_period=0.0)
    informer.add_event_handler(resynced, resync_period=1.0)
    async with running(informer):
        await api.finished.wait()
        await settle()
        assert quiet.take() == ["~pod2", "+pod3"]
        assert resynced.take() == ["~pod1", "~pod2", "+pod3"]
