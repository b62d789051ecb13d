"""The factory of shared informers."""

from __future__ import annotations

import asyncio

from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.local_store import LocalStore
from mooring.kube.objects import ObjectMeta, Pod
from mooring.kube.objects.kinds import CLAIM, CONFIG_MAP, POD
from mooring.kube.reflector import ReflectorOptions
from mooring.testing.scripted_api import ScriptedApi, StayOpen, bookmark
from mooring.testing.virtual_time import in_virtual_time


@in_virtual_time
async def test_f1_two_requests_for_a_kind_share_one_informer_and_one_watch() -> None:
    api = ScriptedApi()
    api.answer_watches([bookmark("1", ends_initial="true"), StayOpen()])
    factory = SharedInformerFactory(api)
    assert factory.informer(POD) is factory.informer(POD)
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        factory.start(tasks)
        assert await factory.wait_for_cache_sync() == {"Pod": True}
        factory.stop()
    assert len(api.requests) == 1


@in_virtual_time
async def test_f2_starting_again_starts_only_what_was_asked_for_since() -> None:
    store = LocalStore()
    factory = SharedInformerFactory(store)
    factory.lister(POD)
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        assert await factory.wait_for_cache_sync() == {"Pod": True}
        factory.informer(CLAIM)
        assert await factory.wait_for_cache_sync() == {"Pod": True}, "the claims' informer has not started yet"
        factory.start(tasks)
        assert await factory.wait_for_cache_sync() == {"Pod": True, "PersistentVolumeClaim": True}
        factory.stop()


@in_virtual_time
async def test_f3_shutdown_waits_for_the_informers_to_end_and_nothing_starts_after_it() -> None:
    factory = SharedInformerFactory(LocalStore())
    factory.informer(POD)
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        await factory.wait_for_cache_sync()
        shutdown = tasks.create_task(factory.shutdown())
        await asyncio.sleep(100)
        assert not shutdown.done()
        factory.stop()
        await shutdown
        assert factory.informer(POD).stopped
        late = factory.informer(CONFIG_MAP)
        factory.start(tasks)
        await asyncio.sleep(1)
        assert not late.has_synced
        await factory.shutdown()


@in_virtual_time
async def test_waiting_for_sync_ends_at_its_timeout_and_says_what_is_missing() -> None:
    api = ScriptedApi()
    factory = SharedInformerFactory(api)
    factory.informer(POD)
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        assert await factory.wait_for_cache_sync(timeout=5.0) == {"Pod": False}
        assert asyncio.get_running_loop().time() == 5.0
        factory.stop()


@in_virtual_time
async def test_waiting_for_sync_ends_when_an_informer_stops_before() -> None:
    factory = SharedInformerFactory(ScriptedApi())
    factory.informer(POD)
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        waiter = tasks.create_task(factory.wait_for_cache_sync())
        await asyncio.sleep(1)
        factory.stop()
        assert await waiter == {"Pod": False}


@in_virtual_time
async def test_a_tweak_and_a_transform_apply_to_every_informer() -> None:
    store = LocalStore()
    for namespace in ("in", "out"):
        await store.create(Pod(metadata=ObjectMeta(name="a", namespace=namespace)))
    seen: list[str] = []

    def note(obj: Pod) -> Pod:
        seen.append(obj.key)
        return obj

    factory = SharedInformerFactory(store, tweak=lambda kind: ReflectorOptions(namespace="in"), transform=note)
    lister = factory.lister(POD)
    async with asyncio.TaskGroup() as tasks:
        factory.start(tasks)
        await factory.wait_for_cache_sync()
        assert [obj.key for obj in lister.list()] == seen == ["in/a"]
        factory.stop()


def test_resync_periods_go_by_kind_or_else_by_default() -> None:
    factory = SharedInformerFactory(ScriptedApi(), default_resync=60.0, resync_periods={"Pod": 5.0})
    periods = [factory.informer(POD).resync_check_period, factory.informer(CLAIM).resync_check_period]
    assert periods == [5.0, 60.0]
