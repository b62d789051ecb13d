"""Single objects that are watched or fetched as long as somebody needs them."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from mooring.kube.api import (
    LIST_ALL,
    WATCH_ALL,
    ApiError,
    ConnectionRefused,
    Expired,
    Forbidden,
    InternalError,
    ListOptions,
    NotFound,
    ObjectList,
    TooLargeResourceVersion,
    WatchEvent,
    WatchOptions,
)
from mooring.kube.gated_reader import GETS_AT_ONCE, OPENINGS_AT_ONCE
from mooring.kube.local_store import LocalStore
from mooring.kube.object_tracking import replaces, retry_delay
from mooring.kube.objects import ConfigMap, ObjectMeta, Secret
from mooring.kube.objects.kinds import CONFIG_MAP, POD, SECRET, Kind, ObjectT
from mooring.kube.tracked_objects import Fetch, ObjectKey, TrackedObjects, Watch
from mooring.testing.scripted_api import Pause, ScriptedApi, StayOpen, added, failed, modified, nonsense
from mooring.testing.virtual_time import in_virtual_time

A = ObjectKey(CONFIG_MAP, "shop", "a")
B = ObjectKey(CONFIG_MAP, "shop", "b")
S = ObjectKey(SECRET, "shop", "s")
PATIENCE = 60.0


class Zero(random.Random):
    """No jitter."""

    def random(self) -> float:
        return 0.0


class CountingStore(LocalStore):
    """A store that counts who asks, and answers a turn of the loop later as a server does."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.open = 0  # watches
        self.most = 0  # requests under way at a time
        self._under_way = 0

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        with self._asking(f"get {name}"):
            await asyncio.sleep(0.01)
            return await super().get(kind, namespace, name)

    async def list(self, kind: Kind[ObjectT], options: ListOptions = LIST_ALL) -> ObjectList[ObjectT]:
        with self._asking(f"list {options.field_selector.removeprefix('metadata.name=')}"):
            await asyncio.sleep(0.01)
            return await super().list(kind, options)

    @contextlib.asynccontextmanager
    async def watch(  # type: ignore[override]
        self, kind: Kind[ObjectT], options: WatchOptions = WATCH_ALL
    ) -> AsyncIterator[AsyncIterator[WatchEvent[ObjectT]]]:
        async with super().watch(kind, options) as events:
            with self._asking(f"watch {options.field_selector.removeprefix('metadata.name=')}"):
                await asyncio.sleep(0.01)
            self.open += 1
            try:
                yield events
            finally:
                self.open -= 1

    @contextlib.contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        self.asked.append(what)
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            yield
        finally:
            self._under_way -= 1


class Bench:
    """Tracked objects over an API, and what was told of them."""

    def __init__(self, api: Any, **strategies: Watch | Fetch) -> None:
        self.told: list[ObjectKey] = []
        self._heard = asyncio.Event()
        self.tracked = TrackedObjects(
            api,
            strategies=strategies or {"ConfigMap": Watch(), "Secret": Watch()},
            changed=self._changed,
            random_source=Zero(),
        )

    def _changed(self, key: ObjectKey) -> None:
        self.told.append(key)
        self._heard.set()

    async def told_of(self, count: int) -> None:
        """Wait until so many changes have been told."""
        async with asyncio.timeout(PATIENCE):
            while len(self.told) < count:
                self._heard.clear()
                await self._heard.wait()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[TrackedObjects]:
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(self.tracked.run())
            yield self.tracked
            task.cancel()


def config_map(name: str, value: str = "", *, version: str = "", uid: str = "", immutable: bool = False) -> ConfigMap:
    meta = ObjectMeta(name=name, namespace="shop", resource_version=version, uid=uid)
    return ConfigMap(metadata=meta, data={"key": value}, immutable=immutable)


def value(tracked: TrackedObjects, key: ObjectKey) -> str | None:
    found = tracked.find(CONFIG_MAP, key.namespace, key.name)
    return found.data["key"] if found is not None else None


def error(kind: type[ApiError]) -> ApiError:
    return kind("cannot read it", why="the script says so")


def once(found: object, tries: int) -> None:
    """Do not look again."""


ONE_MAP = ObjectList(items=[ConfigMap(metadata=ObjectMeta(name="a", namespace="shop"))], resource_version="7")


# -- watched -----------------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_only_what_is_needed_is_asked_for_each_by_its_name() -> None:
    store = CountingStore()
    await store.create(config_map("a", "1"))
    await store.create(config_map("unneeded"))
    bench = Bench(store)
    async with bench.running() as tracked:
        tracked.need("pod", [A, B])
        assert not tracked.is_known(A)
        assert await tracked.until_known([A, B], timeout=PATIENCE)
    assert value(bench.tracked, A) == "1"
    assert bench.tracked.get(B) is None
    assert set(bench.told) == {A, B}
    assert {what.split()[1] for what in store.asked} == {"a", "b"}


@in_virtual_time
async def test_every_change_is_told_once_and_can_be_read() -> None:
    store = CountingStore()
    bench = Bench(store)
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await bench.told_of(1)  # that there is none
        await store.create(config_map("a", "1"))
        await bench.told_of(2)
        assert value(tracked, A) == "1"
        await store.patch(CONFIG_MAP, "shop", "a", {"data": {"key": "2"}})
        await bench.told_of(3)
        assert value(tracked, A) == "2"
        await store.delete(CONFIG_MAP, "shop", "a")
        await bench.told_of(4)
        assert tracked.get(A) is None
        assert tracked.is_known(A)
    assert bench.told == [A, A, A, A]


@in_virtual_time
async def test_a_watch_ends_when_the_last_owner_lets_go() -> None:
    store = CountingStore()
    bench = Bench(store)
    async with bench.running() as tracked:
        tracked.need("one", [A])
        tracked.need("two", [A, B])
        assert await tracked.until_known([A, B], timeout=PATIENCE)
        await asyncio.sleep(1)
        assert store.open == 2
        tracked.need("one", [])
        await asyncio.sleep(1)
        assert set(tracked) == {A, B}
        tracked.need("two", [B])
        await asyncio.sleep(1)
        assert store.open == 1
        assert list(tracked) == [B]
        assert not tracked.is_known(A)


@in_virtual_time
async def test_the_same_need_once_more_asks_nothing() -> None:
    store = CountingStore()
    bench = Bench(store)
    async with bench.running() as tracked:
        tracked.need("pod", [A, B])
        await bench.told_of(2)
        await asyncio.sleep(1)
        asked = list(store.asked)
        tracked.need("pod", (B, A))
        await asyncio.sleep(1)
    assert store.asked == asked
    assert len(bench.told) == 2


@in_virtual_time
async def test_t19_a_changed_need_releases_what_it_dropped_and_does_not_ask_again_for_what_it_kept() -> None:
    store = CountingStore()
    bench = Bench(store)
    async with bench.running() as tracked:
        tracked.need("pod", [A, B])
        assert await tracked.until_known([A, B], timeout=PATIENCE)
        await asyncio.sleep(1)
        del store.asked[:]
        tracked.need("pod", [B, S])
        assert await tracked.until_known([B, S], timeout=PATIENCE)
    assert {what.split()[1] for what in store.asked} == {"s"}
    assert not bench.tracked.is_known(A)


@in_virtual_time
async def test_t21_an_immutable_object_is_watched_no_further_and_still_served() -> None:
    store = CountingStore()
    await store.create(config_map("a", "1", immutable=True))
    await store.create(config_map("b", "1"))
    bench = Bench(store)
    async with bench.running() as tracked:
        tracked.need("pod", [A, B])
        assert await tracked.until_known([A, B], timeout=PATIENCE)
        await asyncio.sleep(1)
        assert store.open == 1
        await store.patch(CONFIG_MAP, "shop", "b", {"data": {"key": "2"}, "immutable": True})
        await bench.told_of(3)
        await asyncio.sleep(1)
        assert store.open == 0
        assert (value(tracked, A), value(tracked, B)) == ("1", "2")
    assert [what for what in store.asked if what == "watch a"] == []


@in_virtual_time
async def test_an_immutable_object_that_was_made_anew_is_read_for_who_comes_later() -> None:
    store = CountingStore()
    await store.create(config_map("a", "1", immutable=True))
    bench = Bench(store)
    async with bench.running() as tracked:
        tracked.need("one", [A])
        assert await tracked.until_known([A], timeout=PATIENCE)
        await store.delete(CONFIG_MAP, "shop", "a")
        await store.create(config_map("a", "2", immutable=True))
        await asyncio.sleep(100)
        assert (value(tracked, A), store.asked) == ("1", ["list a"])
        tracked.need("two", [A])
        assert (tracked.is_known(A), tracked.is_served("one"), tracked.is_served("two")) == (True, True, False)
        await tracked.until_served("two")
        assert value(tracked, A) == "2"
        await asyncio.sleep(100)
    assert (store.asked, store.open) == (["list a", "list a"], 0)


@in_virtual_time
async def test_who_comes_later_waits_for_what_is_fetched_and_not_for_what_is_watched() -> None:
    store = CountingStore()
    await store.create(config_map("a", "1"))
    await store.create(Secret(metadata=ObjectMeta(name="s", namespace="shop")))
    bench = Bench(store, ConfigMap=Fetch(once), Secret=Watch())
    async with bench.running() as tracked:
        tracked.need("one", [A, S])
        assert await tracked.until_known([A, S], timeout=PATIENCE)
        await store.patch(CONFIG_MAP, "shop", "a", {"data": {"key": "2"}})
        tracked.need("two", [A])
        tracked.need("three", [S])
        assert (tracked.is_served("two"), tracked.is_served("three")) == (False, True)
        await tracked.until_served("two")
        assert value(tracked, A) == "2"


@in_virtual_time
async def test_many_who_come_one_after_the_other_wait_each_for_one_read() -> None:
    store = CountingStore()
    await store.create(config_map("a", "1"))
    bench = Bench(store, ConfigMap=Fetch(once))
    async with bench.running() as tracked:
        tracked.need("first", [A])
        assert await tracked.until_known([A], timeout=PATIENCE)
        clock = asyncio.get_running_loop().time
        waits: list[float] = []

        async def come(number: int) -> None:
            await asyncio.sleep(number * 0.003)
            began = clock()
            tracked.need(f"pod {number}", [A])
            await tracked.until_served(f"pod {number}")
            waits.append(clock() - began)

        async with asyncio.TaskGroup() as tasks:
            for number in range(100):
                tasks.create_task(come(number))
    assert 0.01 <= max(waits) <= 0.021, "the read that was under way, and the next"
    assert len(store.asked) <= 33


@in_virtual_time
async def test_a_thousand_objects_are_opened_a_few_at_a_time() -> None:
    store = CountingStore()
    keys = [ObjectKey(CONFIG_MAP, "shop", f"map-{number}") for number in range(1000)]
    bench = Bench(store)
    async with bench.running() as tracked:
        tracked.need("pod", keys)
        assert await tracked.until_known(keys, timeout=PATIENCE)
        await asyncio.sleep(10)
        assert store.open == 1000
        assert len(tracked) == 1000
    assert store.most == OPENINGS_AT_ONCE
    assert store.open == 0


@in_virtual_time
async def test_a_watch_asks_for_half_an_hour_at_least() -> None:
    api = ScriptedApi()
    api.answer_lists(ObjectList(items=[config_map("a", version="5")], resource_version="7"))
    api.answer_watches([StayOpen()])
    bench = Bench(api)
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await api.finished.wait()
    (asked,) = api.watches
    assert (asked.namespace, asked.field_selector, asked.timeout_seconds) == ("shop", "metadata.name=a", 1800)


@in_virtual_time
async def test_the_authorizer_is_asked_again_soon_when_it_does_not_know_the_pod_yet() -> None:
    api = ScriptedApi()
    api.answer_lists(*[error(Forbidden)] * 3, ObjectList(items=[], resource_version="7"))
    api.answer_watches([StayOpen()])
    bench = Bench(api)
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        assert not await tracked.until_known([A], timeout=0.2)
        assert isinstance(tracked.error(A), Forbidden)
        await api.finished.wait()
        assert tracked.is_known(A)
        assert tracked.error(A) is None
    assert api.times[:4] == [0.0, 0.1, 0.3, 0.7]


@in_virtual_time
async def test_what_was_known_stays_while_the_server_is_away() -> None:
    api = ScriptedApi()
    api.answer_lists(
        ObjectList(items=[config_map("a", "1", version="5")], resource_version="7"),
        *[error(ConnectionRefused)] * 6,
        ObjectList(items=[config_map("a", "2", version="9")], resource_version="9"),
    )
    api.answer_watches([failed(error(InternalError))], [StayOpen()])
    bench = Bench(api)
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await bench.told_of(1)
        await asyncio.sleep(10)
        assert isinstance(tracked.error(A), ConnectionRefused)
        assert value(tracked, A) == "1"
        await bench.told_of(2)
        assert value(tracked, A) == "2"


@in_virtual_time
async def test_an_older_version_never_takes_the_place_of_a_newer_one() -> None:
    api = ScriptedApi()
    api.answer_lists(ObjectList(items=[config_map("a", "new", version="10", uid="u")], resource_version="10"))
    old, last = config_map("a", "old", version="9", uid="u"), config_map("a", "last", version="11", uid="u")
    api.answer_watches([added(old), modified(last), StayOpen()])
    bench = Bench(api)
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await api.finished.wait()
        assert value(tracked, A) == "last"
    assert len(bench.told) == 2


@in_virtual_time
async def test_a_server_that_was_restored_from_a_backup_is_believed() -> None:
    api = ScriptedApi()
    old, changed = config_map("a", "old", version="40", uid="u"), config_map("a", "changed", version="45", uid="u")
    api.answer_lists(
        ObjectList(items=[config_map("a", "new", version="90", uid="u")], resource_version="95"),
        error(TooLargeResourceVersion),
        ObjectList(items=[old], resource_version="42"),
    )
    api.answer_watches([failed(error(Expired))], [Pause(9.0), modified(changed), StayOpen()])
    bench = Bench(api)
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await bench.told_of(2)
        assert value(tracked, A) == "old"
        await bench.told_of(3)
        assert value(tracked, A) == "changed"


@in_virtual_time
async def test_an_object_that_is_read_is_what_the_server_says_also_from_a_backup() -> None:
    api = ScriptedApi()
    api.answer_gets(config_map("a", "new", version="90", uid="u"), config_map("a", "old", version="40", uid="u"))
    bench = Bench(api, ConfigMap=Fetch(lambda found, same: 60.0))
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await bench.told_of(1)
        await asyncio.sleep(61)
        assert value(tracked, A) == "old"


@in_virtual_time
async def test_an_object_that_cannot_be_read_is_not_taken_for_a_missing_one() -> None:
    api = ScriptedApi()
    api.answer_lists(ObjectList(items=[], resource_version="7", unreadable=[nonsense("shop/a")]), ONE_MAP)
    api.answer_watches([StayOpen()])
    bench = Bench(api)
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await asyncio.sleep(0.1)
        assert not tracked.is_known(A)
        assert isinstance(tracked.error(A), InternalError)
        await bench.told_of(1)
        assert tracked.get(A) is not None


@in_virtual_time
async def test_a_server_that_is_back_is_asked_at_once_for_all_that_could_not_be_read() -> None:
    api = ScriptedApi()
    api.answer_lists(*[error(ConnectionRefused)] * 7, ONE_MAP)
    api.answer_gets(*[error(ConnectionRefused)] * 7, Secret(metadata=ObjectMeta(name="s", namespace="shop")))
    api.answer_watches([StayOpen()])
    bench = Bench(api, ConfigMap=Watch(), Secret=Fetch(once))
    async with bench.running() as tracked:
        tracked.need("pod", [A, S])
        await asyncio.sleep(35)  # tries were at 0, 0.5, 1.5, 3.5, 7.5, 15.5 and 30.5 s
        assert not tracked.is_known(A)
        assert not tracked.is_known(S)
        tracked.hurry()
        assert await tracked.until_known([A, S], timeout=0.1)


@in_virtual_time
async def test_a_watch_that_cannot_be_opened_is_opened_as_soon_as_the_server_is_back() -> None:
    api = ScriptedApi()
    api.answer_lists(ONE_MAP)
    api.answer_watches(*[error(ConnectionRefused)] * 7, [modified(config_map("a", "2", version="9")), StayOpen()])
    bench = Bench(api)
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await asyncio.sleep(35)
        assert len(bench.told) == 1
        tracked.hurry()
        await asyncio.sleep(0.1)
        assert len(bench.told) == 2


# -- fetched -----------------------------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_fetched_object_is_read_at_once_and_then_as_its_strategy_says() -> None:
    told: list[tuple[str | None, int]] = []

    def again(found: ConfigMap | None, tries: int) -> float | None:
        told.append((found.data["key"] if found is not None else None, tries))
        return 10.0 * tries if len(told) < 4 else None

    api = ScriptedApi()
    same = config_map("a", "1", version="5")
    api.answer_gets(error(NotFound), same, same, config_map("a", "2", version="6"))
    bench = Bench(api, ConfigMap=Fetch(again))
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await bench.told_of(3)
        await asyncio.sleep(1000)
        assert value(tracked, A) == "2"
    assert told == [(None, 1), ("1", 1), ("1", 2), ("2", 1)]
    assert [when for when, _ in api.gets] == [0.0, 10.0, 20.0, 40.0]
    assert bench.told == [A, A, A]


@in_virtual_time
async def test_failed_fetches_wait_longer_each_time_and_keep_what_is_known() -> None:
    api = ScriptedApi()
    api.answer_gets(*[error(InternalError)] * 7, config_map("a", "1", version="5"), error(Forbidden))
    bench = Bench(api, ConfigMap=Fetch(once))
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await bench.told_of(1)
        assert tracked.error(A) is None
        tracked.look_again(A)
        await asyncio.sleep(0.05)
        assert isinstance(tracked.error(A), Forbidden)
        assert value(tracked, A) == "1"
    assert [when for when, _ in api.gets][:8] == [0.0, 0.5, 1.5, 3.5, 7.5, 15.5, 30.5, 45.5]


@in_virtual_time
async def test_looking_again_many_times_while_a_fetch_is_under_way_is_one_more_fetch() -> None:
    store = CountingStore()
    await store.create(config_map("a", "1"))
    bench = Bench(store, ConfigMap=Fetch(once))
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await bench.told_of(1)
        tracked.look_again(A)
        await asyncio.sleep(0.005)  # on its way
        for _ in range(5):
            tracked.look_again(A)
        await asyncio.sleep(100)
        tracked.look_again(B)  # nobody needs it
    assert store.asked == ["get a"] * 3
    assert len(bench.told) == 1, "nothing changed"


@in_virtual_time
async def test_t16_who_comes_later_is_served_what_was_written_before() -> None:
    store = CountingStore()
    await store.create(config_map("a", "1"))
    bench = Bench(store, ConfigMap=Fetch(once))
    async with bench.running() as tracked:
        tracked.need("one", [A])
        await bench.told_of(1)
        await store.patch(CONFIG_MAP, "shop", "a", {"data": {"key": "2"}})
        tracked.need("two", [A])
        await bench.told_of(2)
        assert value(tracked, A) == "2"


@in_virtual_time
async def test_a_thousand_objects_are_fetched_a_few_at_a_time() -> None:
    store = CountingStore()
    keys = [ObjectKey(CONFIG_MAP, "shop", f"map-{number}") for number in range(1000)]
    bench = Bench(store, ConfigMap=Fetch(once))
    async with bench.running() as tracked:
        tracked.need("pod", keys)
        assert await tracked.until_known(keys, timeout=PATIENCE)
    assert store.most == GETS_AT_ONCE
    assert len(store.asked) == 1000


# -- before the server has answered ------------------------------------------------------------------------------------
@in_virtual_time
async def test_a_seed_is_known_at_once_and_answers_take_its_place() -> None:
    store = CountingStore()
    written = await store.create(config_map("a", "now"))
    bench = Bench(store)
    tracked = bench.tracked
    tracked.seed([config_map("a", "before", version="900", uid=written.metadata.uid), config_map("b", version="3")])
    assert not tracked.is_known(A)
    tracked.need("pod", [A, B])
    assert tracked.is_known(A)
    assert value(tracked, A) == "before"
    assert bench.told == []
    async with bench.running():
        await bench.told_of(2)
        assert value(tracked, A) == "now", "an answer wins over a seed, whatever their versions say"
        assert tracked.get(B) is None


@in_virtual_time
async def test_a_seed_that_comes_late_fills_what_is_unknown_and_nothing_else() -> None:
    api = ScriptedApi()
    bench = Bench(api)
    tracked = bench.tracked
    tracked.need("pod", [A])
    tracked.seed([config_map("a", "seeded", version="3")])
    tracked.seed([config_map("a", "again", version="2"), config_map("b", version="3")])
    assert value(tracked, A) == "seeded"
    assert bench.told == [A]
    tracked.forget_seeds()
    tracked.need("pod", [A, B])
    assert not tracked.is_known(B)
    async with bench.running():
        await api.finished.wait()
    assert "3" in {request.resource_version for request in api.lists}, "nothing older than the seed is wanted"


@in_virtual_time
async def test_waiting_for_what_nobody_needs_ends_at_once_and_for_what_is_let_go_then() -> None:
    bench = Bench(ScriptedApi())
    async with bench.running() as tracked:
        assert not await tracked.until_known([A], timeout=PATIENCE)
        tracked.need("pod", [A])
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(tracked.until_known([A], timeout=PATIENCE))
            await asyncio.sleep(1)
            tracked.need("pod", [])
        assert waiting.result() is False
        assert asyncio.get_running_loop().time() == 1.0
        assert await tracked.until_known([], timeout=0)


@in_virtual_time
async def test_it_can_be_run_again_after_it_was_stopped() -> None:
    store = CountingStore()
    bench = Bench(store)
    async with bench.running() as tracked:
        tracked.need("pod", [A])
        await bench.told_of(1)
    await store.create(config_map("a", "1"))
    async with bench.running():
        await bench.told_of(2)
    assert value(bench.tracked, A) == "1"


def test_a_kind_without_a_strategy_cannot_be_needed() -> None:
    async def main() -> None:
        with pytest.raises(ValueError, match="Pod"):
            Bench(ScriptedApi()).tracked.need("pod", [ObjectKey(POD, "shop", "web")])

    asyncio.run(main())


# -- decisions ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("old", "new", "news"),
    [
        (("u", "9"), ("u", "10"), True),
        (("u", "10"), ("u", "9"), False),
        (("u", "9"), ("u", "9"), False),
        (("u", "10"), ("v", "9"), True),
        (("u", "opaque"), ("u", "other"), True),
        (("u", "opaque"), ("u", "opaque"), False),
    ],
)
def test_an_answer_is_news_unless_it_is_the_same_or_an_older_version(
    old: tuple[str, str], new: tuple[str, str], *, news: bool
) -> None:
    before, after = (Secret(metadata=ObjectMeta(uid=uid, resource_version=version)) for uid, version in (old, new))
    assert replaces(after, before) is news
    assert replaces(None, before)
    assert replaces(after, None)
    assert not replaces(None, None)


def test_a_server_that_names_a_time_is_not_asked_before() -> None:
    slow = error(InternalError)
    slow.retry_after = 40.0
    assert retry_delay(slow, 1) == 40.0


def test_a_name_cannot_select_another_object() -> None:
    key = ObjectKey(SECRET, "shop", "a,metadata.namespace=b\\")
    assert key.field_selector == "metadata.name=a\\,metadata.namespace\\=b\\\\"
