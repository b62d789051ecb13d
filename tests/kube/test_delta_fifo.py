"""The queue between reflector and consumer, alone and with a consumer that keeps a cache."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import structs

from mooring.kube.delta_fifo import BATCH_SIZE, HIGH_WATER, Delta, DeltaFIFO, DeltaType, QueueClosed, Rejected
from mooring.kube.objects import ObjectMeta, Pod
from mooring.testing.virtual_time import in_virtual_time


def pod(name: str, version: int = 1) -> Pod:
    return Pod(metadata=ObjectMeta(name=name, resource_version=str(version)))


class Cache:
    """A consumer that keeps a cache and notes what it was told, deletions computed by itself."""

    def __init__(self, *names: str) -> None:
        self.objects = {name: pod(name) for name in names}
        self.told: list[str] = []

    def handle(self, delta: Delta[Pod], is_initial: bool) -> None:
        names = [obj.metadata.name for obj in delta.items]
        match delta.type:
            case DeltaType.REPLACED_ALL:
                gone = [name for name in self.objects if name not in names]
                self.objects = {obj.metadata.name: obj for obj in delta.items}
                self.told += [f"gone {name}" for name in gone] + [f"replaced {name}" for name in names]
            case DeltaType.SYNC_ALL:
                self.told += [f"sync {name}@{obj.metadata.resource_version}" for name, obj in self.objects.items()]
            case DeltaType.DELETED:
                self.objects.pop(names[0], None)
                self.told.append(f"deleted {names[0]}")
            case _:
                self.objects[names[0]] = delta.items[0]
                self.told.append(f"{delta.type.value.lower()} {names[0]}")


def deltas_of(queue: DeltaFIFO[Pod], limit: int = BATCH_SIZE) -> list[tuple[str, list[str]]]:
    found: list[tuple[str, list[str]]] = []
    queue.process(lambda delta, _: found.append((delta.type.value, [obj.metadata.name for obj in delta.items])), limit)
    return found


def test_q1_an_object_added_before_an_empty_list_goes_with_it() -> None:
    """On the atomic queue the consumer computes the deletion."""
    queue, cache = DeltaFIFO[Pod](), Cache()
    queue.add(pod("foo"))
    queue.replace([], "2")
    queue.process(cache.handle)
    assert cache.told == ["added foo", "gone foo"]


def test_q2_a_deleted_object_is_not_deleted_again_by_an_empty_list() -> None:
    queue, cache = DeltaFIFO[Pod](), Cache()
    queue.add(pod("foo"))
    queue.delete(pod("foo"))
    queue.replace([], "2")
    queue.process(cache.handle)
    assert cache.told == ["added foo", "deleted foo"]


def test_q3_a_queued_deletion_comes_before_the_new_object_of_the_same_key() -> None:
    queue, cache = DeltaFIFO[Pod](), Cache("foo")
    queue.delete(pod("foo"))
    queue.replace([pod("foo", 2)], "2")
    queue.process(cache.handle)
    assert cache.told == ["deleted foo", "replaced foo"]


def test_q4_what_a_list_misses_goes_before_what_it_brings() -> None:
    queue, cache = DeltaFIFO[Pod](), Cache("foo", "bar", "baz")
    queue.delete(pod("baz"))
    queue.replace([pod("foo", 2)], "2")
    queue.process(cache.handle)
    assert cache.told == ["deleted baz", "gone bar", "replaced foo"]


def test_q5_a_resync_behind_an_update_replays_the_updated_object() -> None:
    """On the atomic queue a resync is one marker, so it replays what the cache holds by then and nothing stale."""
    queue, cache = DeltaFIFO[Pod](), Cache("foo")
    queue.update(pod("foo", 6))
    queue.resync()
    queue.process(cache.handle)
    assert cache.told == ["updated foo", "sync foo@6"]


def test_q6_a_resync_behind_a_deletion_does_not_bring_the_object_back() -> None:
    queue, cache = DeltaFIFO[Pod](), Cache("foo")
    queue.delete(pod("foo"))
    queue.resync()
    queue.process(cache.handle)
    assert cache.told == ["deleted foo"]


def test_q7_the_deletion_of_an_unknown_object_is_delivered() -> None:
    queue, cache = DeltaFIFO[Pod](), Cache()
    queue.delete(pod("never seen"))
    queue.process(cache.handle)
    assert cache.told == ["deleted never seen"]


def test_q8_changes_keep_the_order_of_their_arrival_across_keys() -> None:
    queue = DeltaFIFO[Pod]()
    order: list[str] = []

    def note(delta: Delta[Pod], _: bool) -> None:
        order.append(delta.items[0].metadata.resource_version)

    for name, version in (("foo", 10), ("bar", 1), ("foo", 11), ("foo", 13), ("zab", 30)):
        queue.update(pod(name, version))
    queue.process(note, limit=1)
    queue.add(pod("foo", 14))
    queue.process(note)
    assert order == ["10", "1", "11", "13", "30", "14"]


def test_q9_the_queue_is_synced_after_the_initial_list_was_processed() -> None:
    """On the atomic queue the whole list is one delta; the flag flips after its processing returned."""
    queue = DeltaFIFO[Pod]()
    queue.replace([pod("foo"), pod("bar")], "1")
    during: list[bool] = []
    assert not queue.has_synced
    queue.process(lambda delta, _: during.append(queue.has_synced))
    assert during == [False]
    assert queue.has_synced


def test_q10_everything_of_the_initial_list_is_flagged_initial_and_nothing_later_is() -> None:
    queue = DeltaFIFO[Pod]()
    queue.replace([pod("foo")], "1")
    queue.update(pod("foo", 2))
    queue.replace([pod("foo", 3)], "3")
    flags: list[bool] = []
    queue.process(lambda _, is_initial: flags.append(is_initial))
    assert flags == [True, False, False]


def test_q11_the_initial_list_and_a_later_update_are_separate_deltas() -> None:
    queue = DeltaFIFO[Pod]()
    queue.replace([pod("1"), pod("2"), pod("3")], "1")
    queue.update(pod("2", 2))
    assert deltas_of(queue) == [("ReplacedAll", ["1", "2", "3"]), ("Updated", ["2"])]


def test_q12_a_turn_ends_at_its_limit_and_the_next_one_goes_on_behind_it() -> None:
    queue = DeltaFIFO[Pod]()
    for name in ("1", "2", "3", "4"):
        queue.add(pod(name))
    assert [name for _, (name,) in deltas_of(queue, limit=2)] == ["1", "2"]
    assert [name for _, (name,) in deltas_of(queue, limit=2)] == ["3", "4"]


def test_q13_a_delta_whose_processing_fails_is_gone_and_the_following_ones_stay() -> None:
    """Objects always have a key here, so the scenario of an unkeyable item becomes one of a failing item."""
    queue = DeltaFIFO[Pod]()
    seen: list[str] = []

    def fail_on_bad(delta: Delta[Pod], _: bool) -> None:
        name = delta.items[0].metadata.name
        if name == "bad":
            raise ValueError(name)
        seen.append(name)

    for name in ("1", "2", "bad", "3", "4"):
        queue.add(pod(name))
    with pytest.raises(ValueError, match="bad"):
        queue.process(fail_on_bad)
    queue.process(fail_on_bad)
    assert seen == ["1", "2", "3", "4"]


def test_q14_lists_and_bookmarks_are_delivered_singly_in_call_order() -> None:
    queue = DeltaFIFO[Pod]()
    queue.add(pod("foo"))
    for version in ("1", "2", "3"):
        queue.replace([pod("foo")], version)
    queue.bookmark("4")
    found: list[tuple[str, str]] = []
    queue.process(lambda delta, _: found.append((delta.type.value, delta.resource_version)))
    replaced = [("ReplacedAll", "1"), ("ReplacedAll", "2"), ("ReplacedAll", "3")]
    assert found == [("Added", ""), *replaced, ("Bookmark", "4")]


@in_virtual_time
async def test_q15_closing_ends_all_consumers_that_wait() -> None:
    queue = DeltaFIFO[Pod]()
    ended: list[int] = []

    async def consume(number: int) -> None:
        with pytest.raises(QueueClosed):
            await queue.wait()
        ended.append(number)

    async with asyncio.TaskGroup() as consumers:
        for number in range(10):
            consumers.create_task(consume(number))
        await asyncio.sleep(1)
        queue.close()
    assert sorted(ended) == list(range(10))
    assert asyncio.get_running_loop().time() == 1.0


@in_virtual_time
async def test_what_was_queued_before_closing_is_still_handed_out() -> None:
    queue = DeltaFIFO[Pod]()
    queue.add(pod("foo"))
    queue.close()
    await queue.wait()
    assert deltas_of(queue) == [("Added", ["foo"])]
    with pytest.raises(QueueClosed):
        await queue.wait()


def test_q16_each_object_is_transformed_once_on_its_way_in() -> None:
    calls: list[str] = []

    def mark(obj: Pod) -> Pod:
        calls.append(obj.metadata.resource_version)
        return structs.replace(obj, metadata=structs.replace(obj.metadata, labels={"marked": "yes"}))

    queue = DeltaFIFO[Pod](transform=mark)
    queue.add(pod("a", 1))
    queue.update(pod("a", 2))
    queue.delete(pod("a", 3))
    queue.replace([pod("a", 4), pod("b", 5)], "5")
    queue.resync()
    labels: list[str] = []
    queue.process(lambda delta, _: labels.extend(obj.metadata.labels["marked"] for obj in delta.items))
    assert calls == ["1", "2", "3", "4", "5"]
    assert labels == ["yes"] * 5


def test_a_failing_transform_rejects_its_object_and_a_whole_list() -> None:
    def refuse_bad(obj: Pod) -> Pod:
        if obj.metadata.name == "bad":
            raise ValueError("no")
        return obj

    queue = DeltaFIFO[Pod](transform=refuse_bad)
    with pytest.raises(Rejected, match="'bad': the transform failed: no"):
        queue.add(pod("bad"))
    with pytest.raises(Rejected):
        queue.replace([pod("good"), pod("bad")], "1")
    assert len(queue) == 0
    assert not queue.has_synced


def test_an_empty_initial_list_syncs_after_its_processing() -> None:
    queue = DeltaFIFO[Pod]()
    queue.replace([], "1")
    assert not queue.has_synced
    deltas_of(queue)
    assert queue.has_synced


def test_a_single_change_before_any_list_syncs_the_queue_at_once() -> None:
    queue = DeltaFIFO[Pod]()
    queue.delete(pod("foo"))
    assert queue.has_synced


@in_virtual_time
async def test_a_producer_waits_for_room_from_two_batches_of_backlog_on() -> None:
    queue = DeltaFIFO[Pod]()
    for number in range(HIGH_WATER):
        assert not queue.full
        queue.add(pod(str(number)))
    assert queue.full
    async with asyncio.TaskGroup() as tasks:
        producer = tasks.create_task(queue.wait_for_room())
        await asyncio.sleep(1)
        assert not producer.done()
        deltas_of(queue)
        await asyncio.sleep(0)
        assert producer.done()
