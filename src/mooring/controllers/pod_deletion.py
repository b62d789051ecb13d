"""The last step of a pod's deletion, which is its node's: the object goes when nothing of the pod is left here."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from mooring.errors import MooringError
from mooring.kube.api import Api, ApiError, Conflict, NotFound, Preconditions
from mooring.kube.backoff import Backoff, BackoffSettings
from mooring.kube.objects.kinds import POD
from mooring.kube.objects.pod import Pod
from mooring.world.names import PodUid

log = logging.getLogger(__name__)

_PAUSES = BackoffSettings(base=0.5, cap=30.0, jitter=0.5)


@dataclass(slots=True)
class _Farewell:
    """A pod that is leaving, and who sees it off. It is remembered until it is gone, so that it is deleted once."""

    namespace: str
    name: str
    task: asyncio.Task[None] | None = None
    pauses: Backoff | None = None


class PodDeletion:
    """Deletes pods that are being deleted, once no container of them may run and none of their volumes is there.

    For nodes that mooring has registered alone: elsewhere a kubelet does it. `unmounted` returns when nothing of a pod
    is or may be mounted, and raises a `MooringError` when it has waited long enough; it is asked again then. It must
    not answer before it is known what earlier processes left on this node.
    """

    def __init__(
        self,
        api: Api,
        *,
        may_run: Callable[[Pod], bool],
        unmounted: Callable[[PodUid], Awaitable[None]],
        random_source: random.Random,
    ) -> None:
        self._api, self._may_run, self._unmounted, self._random = api, may_run, unmounted, random_source
        self._leaving: dict[PodUid, _Farewell] = {}
        self._wake = asyncio.Event()

    def pod_changed(self, pod: Pod) -> None:
        """A pod of this node is new or has changed, or `may_run` has something new to say of it."""
        uid = PodUid(pod.metadata.uid)
        if pod.metadata.deletion_timestamp is None or self._may_run(pod):
            self.pod_removed(uid)
        elif uid not in self._leaving:
            self._leaving[uid] = _Farewell(pod.metadata.namespace, pod.metadata.name)
            self._wake.set()

    def pod_removed(self, uid: PodUid) -> None:
        """A pod is gone from the API: nothing is left to do."""
        farewell = self._leaving.pop(uid, None)
        if farewell is not None and farewell.task is not None:
            farewell.task.cancel()

    def hurry(self) -> None:
        """Try again now what waits after a failure: the server serves again."""
        for farewell in self._leaving.values():
            if farewell.pauses is not None:
                farewell.pauses.start_over()

    async def run(self) -> None:
        """Delete until cancelled. Nothing that the server does ends it."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                self._wake.clear()
                for uid, farewell in self._leaving.items():
                    if farewell.task is None:
                        farewell.task = tasks.create_task(self._see_off(uid, farewell), name=f"deletion of pod {uid}")
                await self._wake.wait()

    async def _see_off(self, uid: PodUid, farewell: _Farewell) -> None:
        pauses, complaint = Backoff(_PAUSES, self._random), ""
        farewell.pauses = pauses
        while True:
            try:
                await self._unmounted(uid)
                await self._delete(uid, farewell)
                return
            except MooringError as error:
                if error.why != complaint:
                    log.warning(
                        "pod %s/%s stays for now, and is tried again: %s", farewell.namespace, farewell.name, error
                    )
                complaint = error.why
                await pauses.wait(at_least=error.retry_after if isinstance(error, ApiError) else 0.0)

    async def _delete(self, uid: PodUid, farewell: _Farewell) -> None:
        """Delete for good. With finalizers it stays all the same, for others to let go of."""
        try:
            await self._api.delete(
                POD, farewell.namespace, farewell.name, preconditions=Preconditions(uid=uid), grace_period=0
            )
        except (NotFound, Conflict):
            return  # it is gone, or its name is another pod's by now
        log.info("deleted pod %s/%s: nothing of it is left on this node", farewell.namespace, farewell.name)
