"""The shared informer: its cache, its life, and what relists tell."""

from __future__ import annotations

import asyncio
import random

import pytest
from msgspec import structs

from mooring.errors import MooringError
from mooring.kube.api import AlreadyExists, ApiError, Expired, NotFound, ObjectList
from mooring.kube.delta_fifo import HIGH_WATER
from mooring.kube.informer import InformerState, SharedIndexInformer
from mooring.kube.listener import Handler
from mooring.kube.local_store import LocalStore
from mooring.kube.objects import Pod
from mooring.kube.objects.kinds import POD
from mooring.kube.reflector import ReflectorOptions
from mooring.testing.informer_bench import STEADY_BACKOFF, RecordingHandler, pod, running, settle
from mooring.testing.scripted_api import (
    ScriptedApi,
    StayOpen,
    Step,
    added,
    bookmark,
    failed,
    modified,
    nonsense,
    unreadable,
)
from mooring.testing.virtual_time import in_virtual_time


def informer_of(api: ScriptedApi | LocalStore, *, resync_period: float = 0.0) -> SharedIndexInformer[Pod]:
    options = ReflectorOptions(backoff=STEADY_BACKOFF)
    return SharedIndexInformer(api, POD, resync_period=resync_period, options=options, random_source=random.Random(1))


def _error(kind: type[ApiError] = ApiError) -> ApiError:
    return kind("cannot list pods", why="access denied")


@in_virtual_time
async def test_i4_a_list_that_is_always_refused_reaches_the_error_handler_and_never_syncs() -> None:
    api = ScriptedApi()
    api.answer_watches(*[_error()] * 3)
    api.answer_lists(*[_error()] * 3)
    errors: list[MooringError] = []
    informer = informer_of(api)
    informer.set_error_handler(errors.append)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(informer.run())
        await api.finished.wait()
        assert not informer.has_synced
        task.cancel()
    assert [error.why for error in errors] == ["access denied"] * 3
    assert await informer.wait_synced() is False


@in_virtual_time
async def test_i8_running_twice_returns_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    informer = informer_of(LocalStore())
    async with running(informer):
        await informer.run()
        assert "the informer of Pod is already started" in caplog.text
        with pytest.raises(InformerState, match="it has already started"):
            informer.set_transform(lambda obj: obj)


@in_virtual_time
async def test_i9_a_handler_registered_twice_has_two_registrations() -> None:
    store = LocalStore()
    informer = informer_of(store)
    recorder = RecordingHandler()
    async with running(informer):
        first = informer.add_event_handler(recorder)
        informer.add_event_handler(recorder)
        await store.create(pod("a"))
        await settle()
        informer.remove_event_handler(first)
        await store.create(pod("b"))
        await settle()
    assert recorder.heard == ["+a", "+a", "+b"]


@in_virtual_time
async def test_i10_deleted_and_made_again_while_disconnected_is_one_update() -> None:
    api = ScriptedApi()
    api.answer_watches(
        [added(pod("a", 1, uid="old")), bookmark("1", ends_initial="true"), failed(_error(Expired))],
        [added(pod("a", 5, uid="new")), bookmark("5", ends_initial="true"), StayOpen()],
    )
    informer, recorder = informer_of(api), RecordingHandler()
    informer.add_event_handler(recorder)
    async with running(informer):
        await api.finished.wait()
        await settle()
    assert recorder.heard == ["*a", "~a"]
    ((old, new),) = recorder.updates
    assert (old.metadata.uid, new.metadata.uid) == ("old", "new")


@in_virtual_time
async def test_i11_a_relist_tells_deletions_first_and_the_cache_is_final_by_then() -> None:
    api = ScriptedApi()
    first = [added(pod(name)) for name in ("1", "2", "3")]
    second = [added(pod("1", 5)), added(pod("2", 6)), added(pod("4", 7))]
    api.answer_watches(
        [*first, bookmark("1", ends_initial="true"), failed(_error(Expired))],
        [*second, bookmark("7", ends_initial="true"), StayOpen()],
    )
    informer, recorder = informer_of(api), RecordingHandler()
    caches: list[list[str]] = []

    def look(*_: object) -> None:
        caches.append(list(informer.indexer.list_keys()))

    informer.add_event_handler(recorder)
    informer.add_event_handler(Handler(on_update=look, on_delete=look))
    async with running(informer):
        await api.finished.wait()
        await settle()
        assert informer.resource_version == "7"
    assert recorder.heard == ["*1", "*2", "*3", "!3", "~1", "~2", "+4"]
    assert caches == [["ns/1", "ns/2", "ns/4"]] * 3


@in_virtual_time
async def test_i12_a_slow_handler_delays_nobody_and_gets_everything_in_order() -> None:
    store = LocalStore()
    informer = informer_of(store)
    slow_heard: list[str] = []
    quick = RecordingHandler()

    async def slow(obj: Pod, _: bool) -> None:
        if not slow_heard:
            await asyncio.sleep(10)
        slow_heard.append(obj.metadata.name)

    informer.add_event_handler(Handler(on_add=slow))
    informer.add_event_handler(quick)
    names = [f"pod{number:04}" for number in range(5000)]
    async with running(informer):
        await store.apply_all(put=[(pod(name), "test") for name in names])
        await settle()
        assert [heard[1:] for heard in quick.heard] == names
        assert len(informer.indexer) == 5000
        assert slow_heard == []
        await asyncio.sleep(11)
    assert slow_heard == names


@in_virtual_time
async def test_an_exception_in_a_handler_ends_the_informer() -> None:
    store = LocalStore()
    await store.create(pod("a"))
    informer = informer_of(store)

    def crash(obj: Pod, _: bool) -> None:
        raise ValueError(obj.metadata.name)

    informer.add_event_handler(Handler(on_add=crash))
    with pytest.raises(ExceptionGroup) as caught:
        await informer.run()
    assert caught.group_contains(ValueError, match="a")
    assert informer.stopped


@in_virtual_time
async def test_a_transform_changes_what_the_cache_holds() -> None:
    store = LocalStore()
    await store.create(pod("a"))
    informer = informer_of(store)
    informer.set_transform(
        lambda obj: structs.replace(obj, metadata=structs.replace(obj.metadata, annotations={"seen": "yes"}))
    )
    async with running(informer):
        assert informer.lister().by_namespace("ns").get("a").metadata.annotations == {"seen": "yes"}


@in_virtual_time
async def test_the_cache_has_a_namespace_index_and_those_it_is_given() -> None:
    store = LocalStore()
    await store.create(pod("a"))
    informer: SharedIndexInformer[Pod] = SharedIndexInformer(
        store, POD, indexers={"initial": lambda obj: [obj.metadata.name[0]]}
    )
    async with running(informer):
        informer.add_indexers({"length": lambda obj: [str(len(obj.metadata.name))]})
        found = [
            informer.indexer.index_keys(*look) for look in (("namespace", "ns"), ("initial", "a"), ("length", "1"))
        ]
    assert found == [["ns/a"]] * 3


@in_virtual_time
async def test_a_bookmark_moves_the_version_of_the_cache() -> None:
    api = ScriptedApi()
    api.answer_watches([bookmark("1", ends_initial="true"), bookmark("9"), StayOpen()])
    informer = informer_of(api)
    async with running(informer):
        await settle()
        assert informer.resource_version == "9"


@in_virtual_time
async def test_a_burst_larger_than_the_backlog_limit_arrives_whole() -> None:
    api = ScriptedApi()
    backlogs: list[int] = []
    burst: list[Step] = []
    for version in range(2, 7002):
        burst += [modified(pod("a", version)), lambda: backlogs.append(informer.backlog)]
    api.answer_watches([added(pod("a")), bookmark("1", ends_initial="true"), *burst, StayOpen()])
    informer, recorder = informer_of(api), RecordingHandler()
    informer.add_event_handler(recorder)
    async with running(informer):
        await api.finished.wait()
        await settle()
        assert informer.backlog == 0
    assert max(backlogs) < HIGH_WATER, "the reader waits for room before it reads on"
    versions = [new.metadata.resource_version for _, new in recorder.updates]
    assert versions == [str(version) for version in range(2, 7002)]


@in_virtual_time
async def test_changes_in_the_store_reach_cache_indices_and_handlers() -> None:
    store = LocalStore()
    informer, handler = informer_of(store), RecordingHandler()
    informer.add_event_handler(handler)
    async with running(informer):
        for name in ("a", "b"):
            await store.create(pod(name))
        await store.patch(POD, "ns", "a", {"metadata": {"labels": {"l": "v"}}})
        await store.delete(POD, "ns", "b")
        await settle()
        assert handler.heard == ["+a", "+b", "~a", "-b"]
        assert informer.indexer.index_keys("namespace", "ns") == ["ns/a"]
        assert informer.resource_version == store.resource_version
        assert asyncio.get_running_loop().time() < 0.01, "no timer lies between a write and its handlers"


@pytest.mark.parametrize("seed", range(5))
def test_after_any_history_of_writes_and_lost_watches_cache_and_store_agree(seed: int) -> None:
    @in_virtual_time
    async def run() -> None:
        source = random.Random(seed)
        store = LocalStore(history_limit=5)
        everything, chosen = (
            informer_of(store),
            SharedIndexInformer(
                store, POD, options=ReflectorOptions(label_selector="l=1"), random_source=random.Random(seed)
            ),
        )
        seen: dict[str, Pod] = {}
        everything.add_event_handler(
            Handler(
                on_add=lambda obj, _: seen.__setitem__(obj.key, obj),
                on_update=lambda _, obj: seen.__setitem__(obj.key, obj),
                on_delete=lambda obj: seen.__delitem__(obj.key),
            )
        )
        async with running(everything), running(chosen):
            for _ in range(300):
                await _write_something(store, source)
                if source.random() < 0.2:
                    await asyncio.sleep(source.choice((0.0, 0.001, 700.0)))
            await asyncio.sleep(700.0)
            stored = {obj.key: obj for obj in (await store.list(POD)).items}
            assert seen == {obj.key: obj for obj in everything.indexer.list()} == stored
            labelled = [key for key, obj in stored.items() if obj.metadata.labels.get("l") == "1"]
            assert sorted(chosen.indexer.list_keys()) == sorted(labelled)

    run()


async def _write_something(store: LocalStore, source: random.Random) -> None:
    name, label = f"pod{source.randrange(6)}", str(source.randrange(3))
    try:
        match source.randrange(3):
            case 0:
                await store.create(pod(name, l=label))
            case 1:
                await store.patch(POD, "ns", name, {"metadata": {"labels": {"l": label}}})
            case _:
                await store.delete(POD, "ns", name)
    except (AlreadyExists, NotFound):
        return


# -- objects that cannot be read ---------------------------------------------------------------------------------------
@in_virtual_time
async def test_an_object_that_cannot_be_read_any_more_stays_as_it_was_known(caplog: pytest.LogCaptureFixture) -> None:
    api = ScriptedApi()
    first, last = [pod("a", 1), pod("b", 2), pod("c", 3)], [pod("a", 9)]
    api.answer_lists(
        ObjectList(items=first, resource_version="3"),
        ObjectList(items=last, resource_version="9", unreadable=[nonsense(pod("b").key), nonsense("elsewhere/new")]),
    )
    api.answer_watches([failed(_error(Expired))], [StayOpen()])
    informer, recorder = by_list(api), RecordingHandler()
    informer.add_event_handler(recorder)
    async with running(informer):
        await api.finished.wait()
        await settle()
        assert recorder.heard == ["*a", "*b", "*c", "!c", "~a"]
        assert {obj.metadata.name for obj in informer.indexer.list()} == {"a", "b"}
    assert caplog.text.count("skipped what is listed of Pod") == 2


@in_virtual_time
async def test_a_change_that_cannot_be_read_is_skipped_and_the_next_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    api = ScriptedApi()
    api.answer_lists(ObjectList(items=[pod("a", 1)], resource_version="1"))
    api.answer_watches([unreadable(pod("a").key), added(pod("b", 3)), StayOpen()])
    informer, recorder = by_list(api), RecordingHandler()
    informer.add_event_handler(recorder)
    async with running(informer):
        await api.finished.wait()
        await settle()
    assert recorder.heard == ["*a", "+b"]
    assert len(api.lists) == 1
    assert "skipped an event of the watch on Pod" in caplog.text


@in_virtual_time
async def test_a_streaming_list_keeps_what_is_known_of_an_object_that_cannot_be_read() -> None:
    api = ScriptedApi()
    api.answer_watches(
        [added(pod("a", 1)), added(pod("b", 2)), bookmark("2", ends_initial="true"), failed(_error(Expired))],
        [unreadable(pod("a").key), bookmark("3", ends_initial="true"), StayOpen()],
    )
    informer, recorder = informer_of(api), RecordingHandler()
    informer.add_event_handler(recorder)
    async with running(informer):
        await api.finished.wait()
        await settle()
    assert recorder.heard == ["*a", "*b", "!b"]


def by_list(api: ScriptedApi) -> SharedIndexInformer[Pod]:
    options = ReflectorOptions(watch_list=False, backoff=STEADY_BACKOFF)
    return SharedIndexInformer(api, POD, options=options, random_source=random.Random(1))
