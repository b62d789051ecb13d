"""A node that registers itself: its Node object, the status in it, and its heartbeat."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mooring.controllers import node_object
from mooring.controllers.node_lease import LeaseTiming, NodeLease
from mooring.controllers.node_object import MachineFacts, Taint
from mooring.kube.api import AlreadyExists, Api, ApiError, NotFound
from mooring.kube.backoff import Backoff, BackoffSettings
from mooring.kube.local_store import utc_now
from mooring.kube.objects.kinds import NODE
from mooring.kube.objects.node import Node

log = logging.getLogger(__name__)

_PAUSES = BackoffSettings(base=0.2, cap=7.0, jitter=0.5)
_NO_LABELS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationTiming:
    """Seconds, as a kubelet has them."""

    look: float = 10.0  # between two looks at the Node
    report: float = 300.0  # after which a status is written although nothing changed
    lease: LeaseTiming = field(default_factory=LeaseTiming)


class NodeRegistration:
    """Keeps one Node as its machine is, until cancelled. It is created when it is missing, also later on.

    Only what `node_object` names is ever written; labels and taints that are given count when the Node is created.
    """

    def __init__(
        self,
        api: Api,
        machine: Callable[[], MachineFacts],
        *,
        ready: Callable[[], str],
        labels: Mapping[str, str] = _NO_LABELS,
        taints: Sequence[Taint] = (),
        random_source: random.Random,
        now: Callable[[], str] = utc_now,
        timing: RegistrationTiming = RegistrationTiming(),
    ) -> None:
        self._api, self._machine, self._ready = api, machine, ready
        self._labels, self._taints = dict(labels), tuple(taints)
        self._random, self._now, self._timing = random_source, now, timing
        self._name = machine().name
        self._lease = NodeLease(api, self._name, random_source=random_source, timing=timing.lease)
        self._wake = asyncio.Event()
        self._uid = ""
        self._reported_at: float | None = None
        self._complaint = ""

    def changed(self) -> None:
        """`ready` or the machine may have something new to say; without this it is noticed at the next look."""
        self._wake.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keep_status(), name="node status")
            tasks.create_task(self._lease.run(), name="node lease")

    async def _keep_status(self) -> None:
        pauses = Backoff(_PAUSES, self._random)
        while True:
            self._wake.clear()
            try:
                await self._look()
            except ApiError as error:
                if error.why != self._complaint:
                    log.warning("cannot keep node %r registered, and goes on trying: %s", self._name, error)
                self._complaint = error.why
                await asyncio.sleep(max(pauses.step(), error.retry_after))
                continue
            self._complaint, pauses = "", Backoff(_PAUSES, self._random)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._timing.look):
                    await self._wake.wait()

    async def _look(self) -> None:
        """Read the Node and write what is not right; a Node that is missing is created."""
        facts, clock = self._machine(), asyncio.get_running_loop().time
        try:
            node = await self._api.get(NODE, "", self._name)
        except NotFound:
            await self._create(facts)
            return
        if node.metadata.uid != self._uid:
            await self._adopt(node, facts)
        is_due = self._reported_at is None or clock() - self._reported_at >= self._timing.report
        patch = node_object.status_patch(node, facts, not_ready=self._ready(), now=self._now(), is_due=is_due)
        if patch is not None:
            await self._api.patch_strategically(NODE, "", self._name, patch, subresource="status")
            self._reported_at = clock()

    async def _create(self, facts: MachineFacts) -> None:
        wanted = node_object.new_node(
            facts, labels=self._labels, taints=self._taints, not_ready=self._ready(), now=self._now()
        )
        try:
            made = await self._api.create(wanted)
        except AlreadyExists:
            self._wake.set()  # somebody was faster: look at theirs at once
            return
        log.info("registered node %r", self._name)
        self._reported_at = asyncio.get_running_loop().time()
        self._learn(made)

    async def _adopt(self, node: Node, facts: MachineFacts) -> None:
        """Put the labels right of a Node that somebody else created, or an earlier process."""
        patch = node_object.label_patch(node, facts)
        if patch is not None:
            await self._api.patch(NODE, "", self._name, patch)
        self._reported_at = None
        self._learn(node)

    def _learn(self, node: Node) -> None:
        self._uid = node.metadata.uid
        self._lease.node_known(self._uid)
