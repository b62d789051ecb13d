"""The binder: PersistentVolumeClaims and PersistentVolumes find each other. Runs on the engine, against the API."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, assert_never

from mooring.controllers.binding import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONERS,
    AskProvisioner,
    AssignClass,
    Bind,
    Decision,
    ReleaseVolume,
    SetClaimFinalizers,
    SetClaimPhase,
    SetVolumeFinalizers,
    SetVolumePhase,
    Surroundings,
    decide_claim,
    decide_volume,
)
from mooring.controllers.protection import protect_claim, protect_volume, releases
from mooring.engine.pending import Slot
from mooring.errors import InUse, MooringError
from mooring.kube.api import Api
from mooring.kube.objects.kinds import CLAIM, PERSISTENT_VOLUME
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.kube.quantity import parse_quantity
from mooring.world.growth import PRE_RESIZE, STORAGE

CLAIM_KEY, VOLUME_KEY = "claim:", "volume:"


def claim_key(key: str) -> str:
    return f"{CLAIM_KEY}{key}"


def volume_key(name: str) -> str:
    return f"{VOLUME_KEY}{name}"


class Binder:
    """A subject of the engine: plans one decision per claim or volume and writes it, in an order that survives a crash.

    The binding is written as PV spec, PV status, PVC spec, PVC status; each step is idempotent, and an interrupted
    binding is completed when either object is looked at again.
    """

    def __init__(
        self,
        api: Api,
        around: Surroundings,
        *,
        is_kept: Callable[[PersistentVolumeClaim], Awaitable[bool]],
        now: Callable[[], str],
        tell: Callable[[PersistentVolumeClaim, str, str], None],
    ) -> None:
        self._api = api
        self._is_kept = is_kept  # whether a pod wants a claim, by what the API says this moment
        self._around = around
        self._now = now
        self._tell = tell  # events: claim, reason, message
        self._written: dict[str, int] = {}  # the version of each object after our own write, until the cache has it

    def keys(self) -> Iterable[str]:
        around = self._around
        return [*(claim_key(key) for key in around.claims), *(volume_key(name) for name in around.volumes)]

    def plan(self, key: str) -> Sequence[Decision]:
        around = self._around
        decided: list[Decision | None] = []
        if key.startswith(CLAIM_KEY):
            claim = around.claims.get(key[len(CLAIM_KEY) :])
            if self._is_current(key, claim) and claim is not None:
                decided = [protect_claim(claim, around), decide_claim(claim, around)]
        else:
            volume = around.volumes.get(key[len(VOLUME_KEY) :])
            if self._is_current(key, volume) and volume is not None:
                decided = [protect_volume(volume), decide_volume(volume, around)]
        return [decision for decision in decided if decision is not None]

    def _is_current(self, key: str, obj: PersistentVolume | PersistentVolumeClaim | None) -> bool:
        """Whether the cache shows what was last written here; else its next event brings the key back."""
        written = self._written.get(key)
        if written is None:
            return True
        if obj is not None and int(obj.metadata.resource_version) < written:
            return False
        del self._written[key]
        return True

    def slot(self, operation: Decision) -> Slot:
        match operation:
            case Bind() | AssignClass() | AskProvisioner() | SetClaimPhase() | SetClaimFinalizers():
                return Slot(claim_key(operation.claim))
            case SetVolumePhase() | ReleaseVolume() | SetVolumeFinalizers():
                return Slot(volume_key(operation.volume))
            case _:
                assert_never(operation)

    def kind(self, operation: Decision) -> str:
        return type(operation).__name__

    async def execute(self, operation: Decision) -> MooringError | None:
        """Write a decision; what the API says against it is the outcome."""
        try:
            await self._write(operation)
        except MooringError as error:
            return error
        return None

    def apply(self, operation: Decision, outcome: MooringError | None) -> bool:
        if outcome is None and isinstance(operation, SetClaimPhase):
            claim = self._around.claims.get(operation.claim)
            if claim is not None:
                self._tell(claim, operation.reason, operation.message)
        return outcome is None

    async def _write(self, operation: Decision) -> None:
        match operation:
            case Bind():
                await self._bind(operation)
            case AssignClass():
                await self._patch_claim(operation.claim, {"spec": {"storageClassName": operation.name}})
            case AskProvisioner():
                annotations = dict.fromkeys(PROVISIONERS, operation.provisioner)
                await self._patch_claim(operation.claim, {"metadata": {"annotations": annotations}})
            case SetClaimPhase():
                await self._patch_claim(operation.claim, {"status": self._phase(operation)}, subresource="status")
            case SetVolumePhase():
                await self._patch_volume(operation.volume, {"status": {"phase": operation.phase}}, subresource="status")
            case ReleaseVolume():
                await self._release(operation)
            case SetClaimFinalizers():
                await self._protect(operation)
            case SetVolumeFinalizers():
                await self._patch_volume(operation.volume, {"metadata": {"finalizers": list(operation.finalizers)}})
            case _:
                assert_never(operation)

    async def _bind(self, operation: Bind) -> None:
        around = self._around
        claim, volume = around.claims[operation.claim], around.volumes[operation.volume]
        mark = {} if claim.spec.volume_name else {BOUND_BY_CONTROLLER: "yes"}
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.metadata.namespace,
            "name": claim.metadata.name,
            "uid": claim.metadata.uid,
        }
        own_mark = mark if volume.spec.claim_ref is None else {}
        annotated = {"metadata": {"annotations": own_mark}} if own_mark else {}
        unchanged = {"resourceVersion": volume.metadata.resource_version}  # nobody else may take it in between
        metadata = {**annotated.get("metadata", {}), **unchanged}
        await self._patch_volume(operation.volume, {"metadata": metadata, "spec": {"claimRef": reference}})
        await self._patch_volume(operation.volume, {"status": {"phase": "Bound"}}, subresource="status")
        annotations = {**mark, BIND_COMPLETED: "yes"}
        named = {"metadata": {"annotations": annotations}, "spec": {"volumeName": operation.volume}}
        await self._patch_claim(operation.claim, named)
        status = {
            "phase": "Bound",
            "accessModes": list(volume.spec.access_modes),
            "capacity": _capacity(volume),
            "conditions": None,
        }
        await self._patch_claim(operation.claim, {"status": status}, subresource="status")

    async def _protect(self, operation: SetClaimFinalizers) -> None:
        """What is not protected any more is gone: caches may be late, so that the API has the last word."""
        claim = self._around.claims[operation.claim]
        if releases(operation) and await self._is_kept(claim):
            raise InUse(f"cannot let go of PersistentVolumeClaim {claim.key!r}", why="a pod uses it")
        await self._patch_claim(operation.claim, {"metadata": {"finalizers": list(operation.finalizers)}})

    def _phase(self, operation: SetClaimPhase) -> Mapping[str, Any]:
        condition = {
            "type": "Unbound",
            "status": "True",
            "reason": operation.reason,
            "message": operation.message,
            "lastTransitionTime": self._now(),
        }
        return {"phase": operation.phase, "conditions": [condition]}

    async def _release(self, operation: ReleaseVolume) -> None:
        if operation.wholly:
            patch = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: None}}, "spec": {"claimRef": None}}
        else:
            patch = {"spec": {"claimRef": {"uid": None, "resourceVersion": None}}}
        await self._patch_volume(operation.volume, patch)

    async def _patch_claim(self, key: str, merge: Mapping[str, Any], *, subresource: str = "") -> None:
        namespace, _, name = key.partition("/")
        written = await self._api.patch(CLAIM, namespace, name, merge, subresource=subresource)
        self._written[claim_key(key)] = int(written.metadata.resource_version)

    async def _patch_volume(self, name: str, merge: Mapping[str, Any], *, subresource: str = "") -> None:
        written = await self._api.patch(PERSISTENT_VOLUME, "", name, merge, subresource=subresource)
        self._written[volume_key(name)] = int(written.metadata.resource_version)


def _capacity(volume: PersistentVolume) -> dict[str, Any]:
    """What a claim has of a volume: what an earlier claim had, while nodes have yet to grow it to its size."""
    before = volume.metadata.annotations.get(PRE_RESIZE)
    if before is None:
        return dict(volume.spec.capacity)
    try:
        parse_quantity(before)
    except ValueError:  # somebody else wrote it
        return dict(volume.spec.capacity)
    return {**volume.spec.capacity, STORAGE: before}
