"""Informers that begin with what was known before a server has answered."""

from __future__ import annotations

import asyncio
import random

import pytest
from msgspec import structs

from mooring.kube.api import ApiError, ConnectionRefused, ObjectList
from mooring.kube.informer import InformerState, SharedIndexInformer
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.objects import ConfigMap, ObjectMeta, Pod
from mooring.kube.objects.kinds import CONFIG_MAP, POD, SECRET
from mooring.kube.reflector import ReflectorOptions
from mooring.testing.informer_bench import STEADY_BACKOFF, RecordingHandler, pod, settle
from mooring.testing.scripted_api import ScriptedApi, StayOpen, added, bookmark
from mooring.testing.virtual_time import in_virtual_time

OPTIONS = ReflectorOptions(backoff=STEADY_BACKOFF, watch_list=False)


def informer_of(api: ScriptedApi) -> SharedIndexInformer[Pod]:
    return SharedIndexInformer(api, POD, options=OPTIONS, random_source=random.Random(1))


def _away() -> ApiError:
    return ConnectionRefused("cannot list pods", why="nobody listens")


def test_handlers_of_before_and_after_the_seed_hear_of_it_once() -> None:
    informer = informer_of(ScriptedApi())
    before, after = RecordingHandler(), RecordingHandler()

    async def main() -> None:
        informer.add_event_handler(before)
        informer.seed([pod("a", 1), pod("b", 1)])
        informer.add_event_handler(after)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(informer.run())
            await settle()
            task.cancel()

    asyncio.run(main())
    assert before.heard == after.heard == ["*a", "*b"]


@in_virtual_time
async def test_without_a_server_there_is_a_state_and_no_sync() -> None:
    api = ScriptedApi()
    api.answer_lists(*[_away()] * 3)
    informer = informer_of(api)
    informer.seed([pod("a", 1)])
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        assert await informer.wait_state()
        await api.finished.wait()
        assert informer.has_state
        assert not informer.has_synced
        assert informer.lister().by_namespace("ns").get("a") == pod("a", 1)
        task.cancel()
    assert not await informer.wait_synced()
    assert informer.has_state


@in_virtual_time
async def test_the_first_list_tells_what_has_changed_since() -> None:
    api = ScriptedApi()
    items = [pod("same", 1), pod("new", 5), pod("changed", 4)]
    api.answer_lists(_away(), ObjectList(items=items, resource_version="5"))
    api.answer_watches([added(pod("later", 6)), StayOpen()])
    informer, recorder = informer_of(api), RecordingHandler()
    registration = informer.add_event_handler(recorder)
    informer.seed([pod("same", 1), pod("gone", 1), pod("changed", 1)])
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        await settle()
        assert recorder.take() == ["*same", "*gone", "*changed"]
        assert (informer.has_state, registration.has_synced) == (True, False)
        await informer.wait_synced()
        await api.finished.wait()
        await settle()
        assert (informer.has_synced, registration.has_synced) == (True, True)
        task.cancel()
    assert recorder.heard == ["!gone", "~same", "*new", "~changed", "+later"]
    assert recorder.updates[-1] == (pod("changed", 1), pod("changed", 4))
    assert sorted(each.metadata.name for each in informer.indexer.list()) == ["changed", "later", "new", "same"]


@in_virtual_time
async def test_the_initial_events_of_a_watch_do_the_same() -> None:
    api = ScriptedApi()
    api.answer_watches([added(pod("a", 2)), bookmark("2", ends_initial="true"), StayOpen()])
    informer = SharedIndexInformer(api, POD, options=ReflectorOptions(backoff=STEADY_BACKOFF))
    recorder = RecordingHandler()
    informer.add_event_handler(recorder)
    informer.seed([pod("a", 1), pod("b", 1)])
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        await api.finished.wait()
        await settle()
        task.cancel()
    assert recorder.heard == ["*a", "*b", "!b", "~a"]


@in_virtual_time
async def test_a_seed_passes_the_transform_and_is_found_by_index() -> None:
    informer = informer_of(ScriptedApi())
    informer.set_transform(lambda obj: structs.replace(obj, metadata=structs.replace(obj.metadata, uid="seen")))
    informer.seed([pod("a", 1)])
    (found,) = informer.lister().by_namespace("ns").list()
    assert found.metadata.uid == "seen"


@in_virtual_time
async def test_only_a_new_informer_is_seeded_and_only_once() -> None:
    informer = informer_of(ScriptedApi())
    informer.seed([])
    assert informer.has_state
    with pytest.raises(InformerState, match="seeded already"):
        informer.seed([])
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        await settle()
        with pytest.raises(InformerState, match="already started"):
            informer.seed([])
        task.cancel()


@in_virtual_time
async def test_an_informer_that_stops_without_a_state_says_so() -> None:
    informer = informer_of(ScriptedApi())
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        await settle()
        task.cancel()
    assert not await informer.wait_state()


# -- the factory -----------------------------------------------------------------------------------------------------
def config_map(name: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="ns"))


@in_virtual_time
async def test_a_factory_gives_each_informer_its_share_also_later_ones() -> None:
    factory = SharedInformerFactory(ScriptedApi(), tweak=lambda _: OPTIONS)
    pods = factory.informer(POD)
    factory.seed([pod("a"), config_map("c"), pod("b")])
    assert [each.metadata.name for each in pods.indexer.list()] == ["a", "b"]
    assert factory.informer(CONFIG_MAP).indexer.list() == [config_map("c")]
    assert factory.informer(SECRET).has_state
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        assert await factory.wait_for_state() == {"Pod": True, "ConfigMap": True, "Secret": True}
        assert not any((await factory.wait_for_cache_sync(timeout=1)).values())
        factory.stop()


@in_virtual_time
async def test_nothing_known_is_no_state() -> None:
    factory = SharedInformerFactory(ScriptedApi(), tweak=lambda _: OPTIONS)
    factory.informer(POD)
    factory.seed([])
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        assert await factory.wait_for_state(timeout=1) == {"Pod": False}
        factory.stop()
