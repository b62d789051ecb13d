"""Leader election over a Lease: who leads, who waits, and what happens to the work of one that does no more."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from mooring.controllers.leader_election import LeaderElector
from mooring.kube.api import ConnectionRefused
from mooring.kube.local_store import LocalStore
from mooring.kube.objects.coordination import Lease
from mooring.kube.objects.kinds import LEASE, Kind, ObjectT
from mooring.testing.virtual_time import in_virtual_time

AWAY = ConnectionRefused("cannot reach the API server", why="nobody listens")


class Line(LocalStore):
    """A store that one candidate reaches over a line of its own, which can be cut."""

    def __init__(self, store: LocalStore) -> None:
        self._behind = store
        self.cut = False
        self.answers_after = 0.0  # seconds, once a change has been made
        self.changed_at = 0.0

    async def get(self, kind: Kind[ObjectT], namespace: str, name: str) -> ObjectT:
        self._check()
        return await self._behind.get(kind, namespace, name)

    async def create(self, obj: ObjectT) -> ObjectT:
        self._check()
        return await self._behind.create(obj)

    async def patch(
        self, kind: Kind[ObjectT], namespace: str, name: str, merge: Mapping[str, Any], *, subresource: str = ""
    ) -> ObjectT:
        self._check()
        written = await self._behind.patch(kind, namespace, name, merge, subresource=subresource)
        self.changed_at = asyncio.get_running_loop().time()
        await asyncio.sleep(self.answers_after)
        return written

    def _check(self) -> None:
        if self.cut:
            raise AWAY


class Candidate:
    """A process that notes when it leads, and whether others did at the same time."""

    at_work: set[str]

    def __init__(self, store: LocalStore, name: str, at_work: set[str], *, now: str = "2026-01-01T00:00:00Z") -> None:
        self.line, self.name, self.at_work = Line(store), name, at_work
        self.terms: list[tuple[float, float | None]] = []
        self.together = False
        self._elector = LeaderElector(
            self.line,
            namespace="kube-system",
            name="mooring-controller",
            identity=name,
            now=self._now,
            random_source=random.Random(name),
        )
        self._clock, self._ticks = now, 0

    def _now(self) -> str:
        self._ticks += 1
        return f"{self._clock}{self._ticks}"

    async def lead(self) -> None:
        clock = asyncio.get_running_loop().time
        self.terms.append((clock(), None))
        self.at_work.add(self.name)
        self.together = self.together or len(self.at_work) > 1
        try:
            await asyncio.Event().wait()
        finally:
            self.at_work.discard(self.name)
            self.terms[-1] = (self.terms[-1][0], clock())

    async def run(self) -> None:
        await self._elector.run(self.lead)


async def lease(store: LocalStore) -> Lease:
    return await store.get(LEASE, "kube-system", "mooring-controller")


@in_virtual_time
async def test_one_of_two_leads_and_the_other_waits() -> None:
    at_work: set[str] = set()
    async with LocalStore() as store, asyncio.TaskGroup() as tasks:
        candidates = [Candidate(store, name, at_work) for name in ("a", "b")]
        running = [tasks.create_task(each.run()) for each in candidates]
        await asyncio.sleep(3600)
        assert at_work == {"a"}
        assert candidates[1].terms == []
        held = await lease(store)
        assert (held.spec.holder_identity, held.spec.lease_duration_seconds) == ("a", 15)
        for task in running:
            task.cancel()


@in_virtual_time
async def test_a_leader_that_stops_hands_over_at_once() -> None:
    at_work: set[str] = set()
    async with LocalStore() as store, asyncio.TaskGroup() as tasks:
        first, second = (Candidate(store, name, at_work) for name in ("a", "b"))
        leading = tasks.create_task(first.run())
        await asyncio.sleep(1)
        waiting = tasks.create_task(second.run())
        await asyncio.sleep(60)
        leading.cancel()
        await asyncio.sleep(5)
        assert at_work == {"b"}
        assert (await lease(store)).spec.lease_transitions == 1
        assert not second.together
        waiting.cancel()


@in_virtual_time
async def test_a_leader_that_died_is_followed_when_its_lease_has_not_changed_for_its_duration() -> None:
    at_work: set[str] = set()
    async with LocalStore() as store, asyncio.TaskGroup() as tasks:
        first, second = (Candidate(store, name, at_work) for name in ("a", "b"))
        leading = tasks.create_task(first.run())
        await asyncio.sleep(1)
        waiting = tasks.create_task(second.run())
        await asyncio.sleep(60)
        first.line.cut = True  # it can release nothing, as one that was killed
        leading.cancel()
        await asyncio.sleep(10)
        assert at_work == set()
        await asyncio.sleep(15)
        assert at_work == {"b"}
        waiting.cancel()


@in_virtual_time
async def test_a_leader_that_cannot_renew_ends_its_work_before_another_begins() -> None:
    at_work: set[str] = set()
    async with LocalStore() as store, asyncio.TaskGroup() as tasks:
        first, second = (Candidate(store, name, at_work) for name in ("a", "b"))
        running = [tasks.create_task(first.run())]
        await asyncio.sleep(1)
        running.append(tasks.create_task(second.run()))
        await asyncio.sleep(60)
        first.line.cut = True
        await asyncio.sleep(60)
        assert at_work == {"b"}
        assert not second.together
        first.line.cut = False
        await asyncio.sleep(60)
        assert at_work == {"b"}
        assert len(first.terms) == 1
        for task in running:
            task.cancel()


@in_virtual_time
async def test_a_leader_counts_from_when_it_asked_and_not_from_when_it_was_answered() -> None:
    at_work: set[str] = set()
    async with LocalStore() as store, asyncio.TaskGroup() as tasks:
        only = Candidate(store, "a", at_work)
        running = tasks.create_task(only.run())
        await asyncio.sleep(60)
        only.line.answers_after = 6.0
        await asyncio.sleep(5)
        only.line.cut = True  # the change that is under way is answered, and nothing after it
        await asyncio.sleep(60)
        ((_, ended),) = only.terms
        assert ended is not None
        assert ended <= only.line.changed_at + 10.0  # 15 seconds after it, another one may lead
        running.cancel()


@in_virtual_time
async def test_a_leader_that_is_cut_off_for_a_moment_goes_on() -> None:
    at_work: set[str] = set()
    async with LocalStore() as store, asyncio.TaskGroup() as tasks:
        only = Candidate(store, "a", at_work)
        running = tasks.create_task(only.run())
        await asyncio.sleep(60)
        only.line.cut = True
        await asyncio.sleep(5)
        only.line.cut = False
        await asyncio.sleep(60)
        assert at_work == {"a"}
        assert len(only.terms) == 1
        running.cancel()


@in_virtual_time
async def test_the_clock_of_another_machine_does_not_matter() -> None:
    at_work: set[str] = set()
    async with LocalStore() as store, asyncio.TaskGroup() as tasks:
        first = Candidate(store, "a", at_work, now="1999-01-01T00:00:00Z")
        second = Candidate(store, "b", at_work, now="2099-01-01T00:00:00Z")
        running = [tasks.create_task(first.run())]
        await asyncio.sleep(1)
        running.append(tasks.create_task(second.run()))
        await asyncio.sleep(600)
        assert at_work == {"a"}
        for task in running:
            task.cancel()


@in_virtual_time
async def test_a_candidate_waits_for_an_api_server_that_is_not_there_yet() -> None:
    at_work: set[str] = set()
    async with LocalStore() as store, asyncio.TaskGroup() as tasks:
        only = Candidate(store, "a", at_work)
        only.line.cut = True
        running = tasks.create_task(only.run())
        await asyncio.sleep(600)
        assert at_work == set()
        only.line.cut = False
        await asyncio.sleep(5)
        assert at_work == {"a"}
        running.cancel()
