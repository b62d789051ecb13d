"""A node's heartbeat: a Lease that it renews, by which a control plane knows that it lives."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from mooring.controllers.leader_election import microseconds_now
from mooring.kube.api import Api, ApiError, NotFound
from mooring.kube.backoff import Backoff, BackoffSettings
from mooring.kube.objects.coordination import Lease, LeaseSpec
from mooring.kube.objects.kinds import LEASE
from mooring.kube.objects.meta import ObjectMeta, OwnerReference

log = logging.getLogger(__name__)

NAMESPACE = "kube-node-lease"
_PAUSES = BackoffSettings(base=0.2, cap=7.0, jitter=0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """Seconds. Who does not renew for the duration counts as dead, so several renewals may fail before that."""

    duration: int = 40
    interval: float = 10.0  # between two renewals, and how long one may take


class NodeLease:
    """Renews one node's Lease. It belongs to the Node, and is made again when somebody deletes it."""

    def __init__(
        self,
        api: Api,
        node_name: str,
        *,
        random_source: random.Random,
        now: Callable[[], str] = microseconds_now,
        timing: LeaseTiming = LeaseTiming(),
    ) -> None:
        self._api, self._name, self._now, self._timing = api, node_name, now, timing
        self._random = random_source
        self._uid = ""  # of the Node
        self._owned_by = ""  # as far as the Lease says
        self._known = asyncio.Event()
        self._complaint = ""

    def node_known(self, uid: str) -> None:
        """The Node is there, and has this UID."""
        self._uid = uid
        self._known.set()

    async def run(self) -> None:
        """Renew until cancelled, once there is a Node. Nothing that the server does ends it."""
        await self._known.wait()
        pauses = Backoff(_PAUSES, self._random)
        while True:
            why = await self._try()
            if why and why != self._complaint:
                log.warning("cannot renew the lease of node %r, and goes on trying: %s", self._name, why)
            self._complaint = why
            if not why:
                pauses = Backoff(_PAUSES, self._random)
            await asyncio.sleep(pauses.step() if why else self._timing.interval)

    async def _try(self) -> str:
        """Renew once; why it failed, or nothing."""
        try:
            async with asyncio.timeout(self._timing.interval):
                await self._renew()
        except TimeoutError:
            return "the API server did not answer in time"
        except ApiError as error:
            return error.why
        return ""

    async def _renew(self) -> None:
        uid = self._uid
        spec = LeaseSpec(
            holder_identity=self._name, lease_duration_seconds=self._timing.duration, renew_time=self._now()
        )
        owners = (OwnerReference(api_version="v1", kind="Node", name=self._name, uid=uid),)
        change: dict[str, Any] = {"spec": msgspec.to_builtins(spec)}
        if self._owned_by != uid:
            change["metadata"] = {"ownerReferences": msgspec.to_builtins(owners)}
        try:
            await self._api.patch_strategically(LEASE, NAMESPACE, self._name, change)
        except NotFound:
            meta = ObjectMeta(name=self._name, namespace=NAMESPACE, owner_references=owners)
            await self._api.create(Lease(metadata=meta, spec=spec))
        self._owned_by = uid
