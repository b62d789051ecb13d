"""One of several processes leads: whoever holds a Lease, as long as it renews it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mooring.errors import MooringError
from mooring.kube.api import AlreadyExists, Api, ApiError, Conflict, NotFound
from mooring.kube.objects.coordination import Lease, LeaseSpec
from mooring.kube.objects.kinds import LEASE
from mooring.kube.objects.meta import ObjectMeta

log = logging.getLogger(__name__)


def microseconds_now() -> str:
    """The present time as Kubernetes writes it in a Lease."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionTiming:
    """Seconds. A leader that could not renew for `renew_deadline` steps down, well before others may take over."""

    lease_duration: int = 15
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    jitter: float = 1.2  # a candidate waits up to (1 + jitter) times as long between two tries


class LeaderElector:
    """A candidate. Clocks of others are never trusted: a lease is old when it has not changed here for its duration."""

    def __init__(
        self,
        api: Api,
        *,
        namespace: str,
        name: str,
        identity: str,
        now: Callable[[], str] = microseconds_now,
        random_source: random.Random,
        timing: ElectionTiming = ElectionTiming(),
    ) -> None:
        self._api, self._now, self._random, self._timing = api, now, random_source, timing
        self._namespace, self._name, self.identity = namespace, name, identity
        self._observed: Lease | None = None
        self._observed_at = 0.0
        self._held_since = 0.0  # when the last try began that got the lease, on the loop's clock
        self._complaint = ""

    @property
    def is_leader(self) -> bool:
        return self._observed is not None and self._observed.spec.holder_identity == self.identity

    async def run(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Lead whenever it can be had, until cancelled. Losing the lease cancels `lead`, and the wait begins anew.

        When `lead` returns by itself, this returns. On the way out the lease is released, so that others need not wait.
        """
        try:
            while True:
                await self._acquire()
                log.info("%s leads %s/%s", self.identity, self._namespace, self._name)
                if await self._lead(lead):
                    return
                log.error("%s has lost the lease %s/%s and steps down", self.identity, self._namespace, self._name)
        finally:
            await self._release()

    async def _acquire(self) -> None:
        while not await self._try(self._timing.renew_deadline):
            pause = self._timing.retry_period * (1.0 + self._timing.jitter * self._random.random())
            await asyncio.sleep(pause)

    async def _lead(self, lead: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        """Whether the work ended by itself; false when the lease was lost, and all of the work has been cancelled."""
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(lead(), name="leader")
            renewal = tasks.create_task(self._renew(), name="lease renewal")
            await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
            ended = work.done()
            work.cancel()
            renewal.cancel()
        return ended

    async def _renew(self) -> None:
        """Returns when the lease is lost."""
        clock = asyncio.get_running_loop().time
        while True:
            left = self._held_since + self._timing.renew_deadline - clock()
            await asyncio.sleep(min(self._timing.retry_period, max(left, 0.0)))
            left = self._held_since + self._timing.renew_deadline - clock()
            if left <= 0.0:
                return
            if not await self._try(left) and not self.is_leader:
                return  # somebody else has it

    # -- the lease -------------------------------------------------------------------------------------------------
    async def _try(self, seconds: float) -> bool:
        """Acquire or renew once; why it failed is logged once, not at each try.

        A lease is held from when it was asked for: an answer that comes late does not make it last longer for others.
        """
        begun = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(seconds):
                held = await self._hold()
        except TimeoutError:
            self._complain("the API server did not answer in time")
            return False
        except MooringError as error:
            self._complain(error.why)
            return False
        self._complaint = ""
        if held:
            self._held_since = begun
        return held

    def _complain(self, why: str) -> None:
        if why != self._complaint:
            self._complaint = why
            log.warning("cannot use the lease %s/%s, and goes on trying: %s", self._namespace, self._name, why)

    async def _hold(self) -> bool:
        try:
            found = await self._api.get(LEASE, self._namespace, self._name)
        except NotFound:
            return await self._create()
        self._observe(found)
        if not self.is_leader and self._is_valid(found):
            return False
        try:
            merge = {"metadata": {"resourceVersion": found.metadata.resource_version}, "spec": self._renewed(found)}
            self._observe(await self._api.patch(LEASE, self._namespace, self._name, merge))
        except Conflict:
            return False  # another one was faster; the next look shows who
        return True

    async def _create(self) -> bool:
        now = self._now()
        spec = LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=self._timing.lease_duration,
            acquire_time=now,
            renew_time=now,
            lease_transitions=0,
        )
        lease = Lease(metadata=ObjectMeta(name=self._name, namespace=self._namespace), spec=spec)
        try:
            self._observe(await self._api.create(lease))
        except AlreadyExists:
            return False
        return True

    def _observe(self, found: Lease) -> None:
        if self._observed is None or found.spec != self._observed.spec:
            self._observed_at = asyncio.get_running_loop().time()
        self._observed = found

    def _is_valid(self, found: Lease) -> bool:
        """Whether its holder may still be at work: it has renewed within the duration, by our own clock."""
        duration = found.spec.lease_duration_seconds or self._timing.lease_duration
        return bool(found.spec.holder_identity) and asyncio.get_running_loop().time() < self._observed_at + duration

    def _renewed(self, found: Lease) -> dict[str, Any]:
        now, mine = self._now(), found.spec.holder_identity == self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self._timing.lease_duration,
            "acquireTime": found.spec.acquire_time if mine else now,
            "renewTime": now,
            "leaseTransitions": (found.spec.lease_transitions or 0) + (0 if mine else 1),
        }

    async def _release(self) -> None:
        """Let others have it at once. Nothing is left of it when that fails: they wait for it to grow old then."""
        if self._observed is None or not self.is_leader:
            return
        meta, now = self._observed.metadata, self._now()
        spec = {"holderIdentity": None, "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        merge = {"metadata": {"resourceVersion": meta.resource_version}, "spec": spec}
        try:
            async with asyncio.timeout(self._timing.retry_period):
                self._observed = await self._api.patch(LEASE, self._namespace, self._name, merge)
        except (ApiError, TimeoutError) as error:
            log.warning("cannot release the lease %s/%s: %s", self._namespace, self._name, error)
