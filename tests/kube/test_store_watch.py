"""Lists and watches of the local store: windows, pages, bookmarks and selections."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from mooring.kube.api import (
    ConnectionRefused,
    EventType,
    Expired,
    Invalid,
    ListOptions,
    TooLargeResourceVersion,
    WatchEvent,
    WatchOptions,
)
from mooring.kube.local_store import LocalStore
from mooring.kube.objects import (
    ConfigMap,
    ObjectMeta,
    Pod,
    PodSpec,
    Secret,
)
from mooring.kube.objects.kinds import CONFIG_MAP, POD
from mooring.testing.virtual_time import in_virtual_time


def memory_store(**options: Any) -> LocalStore:
    numbers = itertools.count(1)
    return LocalStore(clock=lambda: "2030-01-01T00:00:00Z", new_uid=lambda: f"uid-{next(numbers)}", **options)


def config_map(name: str, *, finalizers: tuple[str, ...] = (), uid: str = "", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace="ns", finalizers=finalizers, uid=uid), data=data)


async def take(events: AsyncIterator[WatchEvent[ConfigMap]], count: int) -> list[tuple[str, str]]:
    seen = [await anext(events) for _ in range(count)]
    return [(event.type.value, event.object.metadata.name if event.object else "") for event in seen]


@in_virtual_time
async def test_a_page_whose_snapshot_left_the_window_is_expired() -> None:
    store = memory_store(history_limit=2)
    for number in range(4):
        await store.create(config_map(f"{number}"))
    page = await store.list(CONFIG_MAP, ListOptions(limit=2))
    for number in range(10):
        await store.patch(CONFIG_MAP, "ns", "0", {"data": {"k": str(number)}})
    with pytest.raises(Expired):
        await store.list(CONFIG_MAP, ListOptions(limit=2, continue_token=page.continue_token))


@pytest.mark.parametrize("options", [ListOptions(continue_token="???"), ListOptions(resource_version="new")])
def test_a_token_or_version_that_is_none_is_invalid(options: ListOptions) -> None:
    @in_virtual_time
    async def run() -> None:
        with pytest.raises(Invalid):
            await memory_store().list(CONFIG_MAP, options)

    run()


@in_virtual_time
async def test_a_watch_older_than_the_window_is_expired_and_one_in_the_future_too_large() -> None:
    store = memory_store(history_limit=2)
    for number in range(5):
        await store.create(config_map(f"{number}"))
    with pytest.raises(Expired, match="no longer kept"):
        async with store.watch(CONFIG_MAP, WatchOptions(resource_version="1")):
            pass
    with pytest.raises(TooLargeResourceVersion):
        async with store.watch(CONFIG_MAP, WatchOptions(resource_version="1000")):
            pass


@in_virtual_time
async def test_changes_of_other_kinds_do_not_use_up_the_window_of_a_kind() -> None:
    store = memory_store(history_limit=2)
    version = store.resource_version
    await store.create(config_map("a"))
    for number in range(10):
        await store.create(Secret(metadata=ObjectMeta(name=f"s{number}", namespace="ns")))
    async with store.watch(CONFIG_MAP, WatchOptions(resource_version=version)) as events:
        assert await take(events, 1) == [("ADDED", "a")]


@in_virtual_time
async def test_a_watcher_that_falls_out_of_the_window_gets_an_error_and_the_end() -> None:
    store = memory_store(history_limit=2)
    async with store.watch(CONFIG_MAP, WatchOptions(resource_version=store.resource_version)) as events:
        for number in range(5):
            await store.create(config_map(f"{number}"))
        event = await anext(events)
        assert event.type is EventType.ERROR
        assert isinstance(event.error, Expired)
        assert [event async for event in events] == []


@in_virtual_time
async def test_one_commit_larger_than_the_window_reaches_a_watcher_that_kept_up() -> None:
    store = memory_store(history_limit=2)
    async with store.watch(CONFIG_MAP, WatchOptions(resource_version=store.resource_version)) as events:
        await store.apply_all(put=[(config_map(f"{number}"), "file") for number in range(5)])
        assert await take(events, 5) == [("ADDED", f"{number}") for number in range(5)]


@pytest.mark.parametrize("version", ["", "0"])
def test_a_watch_from_any_version_begins_with_what_exists(version: str) -> None:
    @in_virtual_time
    async def run() -> None:
        store = memory_store()
        await store.create(config_map("b"))
        await store.create(config_map("a"))
        async with store.watch(CONFIG_MAP, WatchOptions(resource_version=version)) as events:
            await store.delete(CONFIG_MAP, "ns", "a")
            assert await take(events, 3) == [("ADDED", "a"), ("ADDED", "b"), ("DELETED", "a")]

    run()


@in_virtual_time
async def test_bookmarks_come_at_their_interval_with_the_newest_version() -> None:
    store = memory_store(bookmark_interval=60.0)
    async with store.watch(CONFIG_MAP, WatchOptions(resource_version=store.resource_version)) as events:
        await store.create(Secret(metadata=ObjectMeta(name="s", namespace="ns")))
        for minute in (1, 2):
            event = await anext(events)
            assert (event.type, event.resource_version) == (EventType.BOOKMARK, store.resource_version)
            assert asyncio.get_running_loop().time() == 60.0 * minute


@in_virtual_time
async def test_a_timeout_ends_a_watch_after_one_last_bookmark() -> None:
    store = memory_store()
    options = WatchOptions(resource_version=store.resource_version, timeout_seconds=7)
    async with store.watch(CONFIG_MAP, options) as events:
        assert [event.type async for event in events] == [EventType.BOOKMARK]
    assert asyncio.get_running_loop().time() == 7.0


@in_virtual_time
async def test_a_watch_without_bookmarks_gets_none() -> None:
    store = memory_store()
    options = WatchOptions(resource_version=store.resource_version, timeout_seconds=300, allow_bookmarks=False)
    async with store.watch(CONFIG_MAP, options) as events:
        assert [event async for event in events] == []


@in_virtual_time
async def test_what_leaves_a_selection_is_told_as_it_was_with_the_version_of_the_change() -> None:
    store = memory_store()
    await store.create(Pod(metadata=ObjectMeta(name="a", namespace="ns"), spec=PodSpec(node_name="n1")))
    options = WatchOptions(resource_version=store.resource_version, field_selector="spec.nodeName=n1")
    async with store.watch(POD, options) as events:
        await store.patch(POD, "ns", "a", {"spec": {"nodeName": "n2"}})
        event = await anext(events)
    assert event.type is EventType.DELETED
    assert event.object is not None
    assert event.object.spec.node_name == "n1"
    assert event.object.metadata.resource_version == event.resource_version == store.resource_version


@in_virtual_time
async def test_closing_the_store_ends_its_watches_and_refuses_all_that_follows() -> None:
    store = memory_store()
    async with store.watch(CONFIG_MAP, WatchOptions(allow_bookmarks=False)) as events:
        await store.create(config_map("a"))
        await store.close()
        assert [event.type async for event in events] == [EventType.ADDED]
    with pytest.raises(ConnectionRefused):
        await store.create(config_map("b"))
