"""Events: said once, counted after that, and gone after their lifetime."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mooring.kube.local_store import LocalStore
from mooring.kube.objects.kinds import EVENT
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.node import Event
from mooring.kube.objects.pod import Pod
from mooring.observe.events import EventRecorder
from mooring.observe.stored_events import StoredEvents
from mooring.testing.virtual_time import in_virtual_time
from mooring.world.changes import Change, Finished, Noticed, ProblemArose, Started
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import Mount, Operation, Stage, Unmount
from mooring.world.outcomes import Outcome
from mooring.world.presence import Result

POD = Pod(metadata=ObjectMeta(name="web", namespace="shop", uid="uid-1"))
NAME, UID = VolumeName("kubernetes.io/secret/uid-1-v"), PodUid("uid-1")


def failed(why: str = "it is not there", operation: Operation | None = None, pod: Pod | None = POD) -> Finished:
    return Finished(
        operation=operation or Mount(NAME, UID),
        outcome=Outcome(result=Result.REFUSED, what="cannot", why=why),
        at=0.0,
        seconds=0.0,
        inner_name="v",
        pod=pod,
    )


class Recording:
    def __init__(self, store: LocalStore, recorder: EventRecorder) -> None:
        self.store, self.recorder = store, recorder

    async def events(self, *changes: Change) -> list[Event]:
        """All events after these changes."""
        for change in changes:
            self.recorder.listen(change)
            await asyncio.sleep(0.1)
        return sorted((await self.store.list(EVENT)).items, key=lambda event: event.message)


@asynccontextmanager
async def recording(store: LocalStore | None = None, lifetime: float = 3600.0) -> AsyncIterator[Recording]:
    store = store if store is not None else LocalStore()
    loop = asyncio.get_running_loop()
    recorder = EventRecorder(
        StoredEvents(store, node_name="here", now=lambda: f"at {loop.time():.1f}", lifetime=lifetime)
    )
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(recorder.run())
        await asyncio.sleep(0)
        yield Recording(store, recorder)
        running.cancel()


@in_virtual_time
async def test_a_failed_set_up_is_a_warning_in_the_kubelets_words() -> None:
    async with recording() as record:
        (event,) = await record.events(failed())
        assert (event.type, event.reason, event.count) == ("Warning", "FailedMount", 1)
        assert event.message == 'MountVolume.SetUp failed for volume "v" : it is not there'
        assert (event.involved_object.kind, event.involved_object.name) == ("Pod", "web")
        assert (event.involved_object.namespace, event.involved_object.uid) == ("shop", "uid-1")
        assert (event.source.component, event.source.host) == ("mooring", "here")


@in_virtual_time
async def test_a_failed_stage_names_its_step() -> None:
    async with recording() as record:
        (event,) = await record.events(failed(operation=Stage(NAME)))
        assert event.message.startswith("MountVolume.MountDevice failed")


@in_virtual_time
async def test_a_volume_that_cannot_be_worked_out_is_a_warning() -> None:
    async with recording() as record:
        (event,) = await record.events(ProblemArose(pod=POD, volume="v", why="no volume plugin matched"))
        assert event.message == "Unable to attach or mount volumes: no volume plugin matched"


@in_virtual_time
async def test_a_notice_is_an_event_of_its_own_kind_and_reason() -> None:
    async with recording() as record:
        (event,) = await record.events(Noticed(pod=POD, volume="v", reason="Told", message="so it is", warning=False))
        assert (event.type, event.reason, event.message) == ("Normal", "Told", "so it is")


@in_virtual_time
async def test_the_same_failure_again_is_counted_with_its_last_time() -> None:
    async with recording() as record:
        (event,) = await record.events(failed(), failed(), failed())
        assert (event.count, event.first_timestamp, event.last_timestamp) == (3, "at 0.0", "at 0.2")


@in_virtual_time
async def test_many_failures_at_once_are_one_write_that_counts_them() -> None:
    async with recording() as record:
        for _ in range(49):
            record.recorder.listen(failed())
        (event,) = await record.events(failed())
        assert event.count == 50


@in_virtual_time
async def test_another_reason_is_another_event() -> None:
    async with recording() as record:
        assert [event.count for event in await record.events(failed("one"), failed("two"), failed("one"))] == [2, 1]


@in_virtual_time
async def test_success_unmounts_and_unknown_pods_are_no_events() -> None:
    done = Finished(
        operation=Mount(NAME, UID), outcome=Outcome(result=Result.DONE), at=0.0, seconds=0.0, inner_name="v", pod=POD
    )
    async with recording() as record:
        quiet = (
            done,
            failed(operation=Unmount(NAME, UID)),
            failed(pod=None),
            Started(operation=done.operation, at=0.0),
        )
        assert await record.events(*quiet) == []


@in_virtual_time
async def test_an_event_goes_when_nothing_was_added_to_it_for_its_lifetime() -> None:
    async with recording(lifetime=100.0) as record:
        await record.events(failed("old"))
        await asyncio.sleep(70)
        await record.events(failed("young"))
        await asyncio.sleep(70)
        assert [event.message[-5:] for event in await record.events()] == ["young"]
        await asyncio.sleep(70)
        assert await record.events() == []


@in_virtual_time
async def test_events_of_an_earlier_process_are_counted_on_and_go_too() -> None:
    store = LocalStore()
    async with recording(store) as record:
        await record.events(failed())
    async with recording(store, lifetime=100.0) as record:
        (event,) = await record.events(failed())
        assert event.count == 2
        await asyncio.sleep(150)
        assert await record.events() == []


@in_virtual_time
async def test_a_store_that_cannot_be_written_costs_the_event_alone() -> None:
    store = LocalStore()
    async with recording(store) as record:
        await store.close()
        record.recorder.listen(failed())
        await asyncio.sleep(1)
