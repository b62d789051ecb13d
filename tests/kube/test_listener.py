"""Handlers that join late, leave early, or filter what they hear."""

from __future__ import annotations

import asyncio
import random

import pytest

from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer import InformerState, SharedIndexInformer
from mooring.kube.listener import FilteringHandler, Handler
from mooring.kube.local_store import LocalStore
from mooring.kube.objects import Pod
from mooring.kube.objects.kinds import POD
from mooring.kube.reflector import ReflectorOptions
from mooring.testing.informer_bench import STEADY_BACKOFF, RecordingHandler, pod, running, settle
from mooring.testing.scripted_api import ScriptedApi
from mooring.testing.virtual_time import in_virtual_time


def informer_of(api: ScriptedApi | LocalStore, *, resync_period: float = 0.0) -> SharedIndexInformer[Pod]:
    options = ReflectorOptions(backoff=STEADY_BACKOFF)
    return SharedIndexInformer(api, POD, resync_period=resync_period, options=options, random_source=random.Random(1))


@in_virtual_time
async def test_i5_a_late_handler_hears_of_the_cache_and_is_synced_after_its_call_returned() -> None:
    store = LocalStore()
    await store.create(pod("a"))
    informer = informer_of(store)
    go_on = asyncio.Event()
    flags: list[bool] = []

    async def slow(obj: Pod, is_initial: bool) -> None:
        await go_on.wait()
        flags.append(is_initial)

    async with running(informer):
        registration = informer.add_event_handler(Handler(on_add=slow))
        await settle()
        assert not registration.has_synced
        go_on.set()
        await registration.wait_synced()
        assert flags == [True]


@in_virtual_time
async def test_a_late_handler_sees_each_object_exactly_once() -> None:
    store = LocalStore()
    informer = informer_of(store)
    recorders: list[RecordingHandler] = []
    async with running(informer):
        for number in range(50):
            await store.create(pod(f"pod{number:02}"))
            recorders.append(RecordingHandler())
            informer.add_event_handler(recorders[-1])
            await asyncio.sleep(0)
        await settle()
    for recorder in recorders:
        assert sorted(name[1:] for name in recorder.heard) == [f"pod{number:02}" for number in range(50)]


@in_virtual_time
async def test_i6_a_removed_handler_hears_nothing_more() -> None:
    store = LocalStore()
    informer = informer_of(store)
    removed, stays = RecordingHandler(), RecordingHandler()
    async with running(informer):
        registration = informer.add_event_handler(removed)
        informer.add_event_handler(stays)
        await store.create(pod("a"))
        await settle()
        informer.remove_event_handler(registration)
        informer.remove_event_handler(registration)
        await registration.wait_ended()
        await store.create(pod("b"))
        await settle()
    assert (removed.heard, stays.heard) == (["+a"], ["+a", "+b"])


@in_virtual_time
async def test_what_a_removed_handler_has_not_heard_yet_is_dropped() -> None:
    store = LocalStore()
    informer = informer_of(store)
    heard: list[str] = []
    go_on = asyncio.Event()

    async def slow(obj: Pod, _: bool) -> None:
        heard.append(obj.metadata.name)
        await go_on.wait()

    async with running(informer):
        registration = informer.add_event_handler(Handler(on_add=slow))
        for name in ("a", "b"):
            await store.create(pod(name))
        await settle()
        informer.remove_event_handler(registration)
        go_on.set()
        await registration.wait_ended()
    assert heard == ["a"]


@in_virtual_time
async def test_i7_after_the_stop_a_handler_can_be_removed_but_not_added() -> None:
    informer = informer_of(LocalStore())
    registration = informer.add_event_handler(RecordingHandler())
    async with running(informer):
        pass
    assert informer.stopped
    with pytest.raises(InformerState, match=r"cannot add an event handler.*it has stopped already"):
        informer.add_event_handler(RecordingHandler())
    informer.remove_event_handler(registration)
    await registration.wait_ended()


@in_virtual_time
async def test_a_handler_of_an_informer_that_never_ran_is_removed_at_once() -> None:
    informer = informer_of(LocalStore())
    registration = informer.add_event_handler(RecordingHandler())
    informer.remove_event_handler(registration)
    await registration.wait_ended()
    assert not registration.has_synced


@pytest.mark.parametrize(
    ("old", "new", "heard"),
    [
        ("yes", "yes", ["~a"]),
        ("no", "yes", ["+a"]),
        ("yes", "no", ["-a"]),
        ("no", "no", []),
    ],
)
def test_a_filtering_handler_turns_updates_across_its_border_into_additions_and_deletions(
    old: str, new: str, heard: list[str]
) -> None:
    recorder = RecordingHandler()
    handler: FilteringHandler[Pod] = FilteringHandler(lambda obj: obj.metadata.labels["match"] == "yes", recorder)
    handler.on_update(pod("a", match=old), pod("a", match=new))
    assert recorder.heard == heard


def test_a_filtering_handler_filters_additions_and_deletions_by_the_object() -> None:
    recorder = RecordingHandler()
    handler: FilteringHandler[Pod] = FilteringHandler(lambda obj: "match" in obj.metadata.labels, recorder)
    for obj in (pod("in", match="yes"), pod("out")):
        handler.on_add(obj, True)
        handler.on_delete(obj)
        handler.on_delete(Tombstone(obj.key, obj))
    assert recorder.heard == ["*in", "-in", "!in"]
