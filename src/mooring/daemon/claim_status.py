"""Keeping the status of claims up with volumes that grow."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.errors import NotYet
from mooring.kube.api import Api, ApiError
from mooring.kube.local_store import utc_now
from mooring.kube.objects.kinds import CLAIM
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.observe.events import EventRecorder


class ApiClaimStatus:
    """Writes through the API, and tells events."""

    def __init__(self, api: Api, events: EventRecorder) -> None:
        self._api = api
        self._events = events

    async def patch(self, claim: PersistentVolumeClaim, merge: Mapping[str, object]) -> PersistentVolumeClaim:
        meta = claim.metadata
        try:
            return await self._api.patch(CLAIM, meta.namespace, meta.name, merge, subresource="status")
        except ApiError as error:
            raise NotYet(f"cannot write the status of claim {claim.key!r}", why=error.why) from error

    def tell(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        self._events.claim_changed(claim, reason, message)

    def now(self) -> str:
        return utc_now()
