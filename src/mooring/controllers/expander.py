"""The expander: claims that ask for more get it, from the controller part of their CSI driver and then from nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from mooring.controllers import expansion
from mooring.controllers.attachdetach.requests import csi_spec, expand_request, source_of
from mooring.controllers.driver_secrets import DriverSecrets
from mooring.controllers.expansion import (
    CONTROLLER_INFEASIBLE,
    IN_PROGRESS,
    Decision,
    Grow,
    Settle,
    TryNodeAgain,
    Withdraw,
    larger,
    with_conditions,
)
from mooring.csi.client import CallFailed, Kind
from mooring.csi.drivers import Driver, Drivers
from mooring.engine.pending import Backoff, PendingOperations, Slot
from mooring.engine.reconciler import Reconciler
from mooring.errors import MooringError, Refused, Unsupported
from mooring.kube.api import Api, NotFound
from mooring.kube.delta_fifo import Tombstone
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects.kinds import CLAIM, PERSISTENT_VOLUME
from mooring.kube.objects.meta import Condition
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec
from mooring.kube.quantity import parse_quantity
from mooring.world.growth import PENDING, PRE_RESIZE, STORAGE

_INFEASIBLE = frozenset(("INVALID_ARGUMENT", "OUT_OF_RANGE", "NOT_FOUND"))


class Expander:
    """A subject of the engine, fed by informers and by drivers that register: one key for each claim."""

    def __init__(
        self,
        api: Api,
        factory: SharedInformerFactory,
        drivers: Drivers,
        secrets: DriverSecrets,
        *,
        now: Callable[[], str],
        tell: Callable[[PersistentVolumeClaim, str, str], None],
        backoff: Backoff,
        resync_interval: float,
    ) -> None:
        self._api, self._factory, self._drivers = api, factory, drivers
        self._now, self._tell = now, tell
        self._claims = factory.informer(CLAIM)
        self._volumes = factory.informer(PERSISTENT_VOLUME)
        self._secrets = secrets
        self._reconciler: Reconciler[Decision, MooringError | None] = Reconciler(
            self, PendingOperations(backoff), resync_interval=resync_interval
        )
        self._written: dict[str, int] = {}  # versions of our own writes, until the cache has them

    async def run(self) -> None:
        await self._factory.wait_for_cache_sync()
        self._claims.add_event_handler(
            Handler(
                on_add=lambda claim, is_initial: self._reconciler.touch(claim.key),
                on_update=self._changed,
                on_delete=lambda claim: self._gone(claim.object if isinstance(claim, Tombstone) else claim),
            )
        )
        self._volumes.add_event_handler(
            Handler(
                on_add=lambda volume, is_initial: self._volume_changed(volume),
                on_update=lambda old, new: self._volume_changed(new),
                on_delete=lambda volume: self._volume_gone(volume.object if isinstance(volume, Tombstone) else volume),
            )
        )
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._secrets.watch(self._resume_all), name="missing secrets")
            await self._reconciler.run()

    def _resume_all(self) -> None:
        for key in self.keys():
            self._reconciler.resume(key)

    def _changed(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        if old.spec != new.spec:
            self._reconciler.resume(new.key)  # what failed was another size
        self._reconciler.touch(new.key)

    def _gone(self, claim: PersistentVolumeClaim) -> None:
        self._written.pop(claim.key, None)
        self._reconciler.forget(claim.key)

    def _volume_gone(self, volume: PersistentVolume) -> None:
        self._written.pop(volume.key, None)

    def _volume_changed(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is not None:
            self._reconciler.touch(f"{reference.namespace}/{reference.name}")

    def driver_changed(self, name: str) -> None:
        """A driver came or went: claims that wait for it are looked at again."""
        self._resume_all()

    # -- the subject -----------------------------------------------------------------------------------------------
    def keys(self) -> Iterable[str]:
        return self._claims.indexer.list_keys()

    def plan(self, key: str) -> Sequence[Decision]:
        found = self._bound(key)
        if found is None or any(self._is_old(each) for each in found):
            return ()
        decided = expansion.decide(*found)
        spec = csi_spec(found[1]) if decided is not None else None
        if decided is None or spec is None or self._drivers.get(source_of(spec).driver) is None:
            return ()  # somebody else's, or its driver's registration brings the claim back
        return (decided,)

    def _is_old(self, known: PersistentVolumeClaim | PersistentVolume) -> bool:
        """Whether the cache shows what was there before our own write; its next event brings the claim back."""
        return int(known.metadata.resource_version) < self._written.get(known.key, 0)

    def _bound(self, key: str) -> tuple[PersistentVolumeClaim, PersistentVolume] | None:
        claim = self._claims.indexer.get_by_key(key)
        volume = self._volumes.indexer.get_by_key(claim.spec.volume_name) if claim is not None else None
        return (claim, volume) if claim is not None and volume is not None else None

    def slot(self, operation: Decision) -> Slot:
        return Slot(operation.claim)

    def kind(self, operation: Decision) -> str:
        return "expand_volume"

    async def execute(self, operation: Decision) -> MooringError | None:
        found = self._bound(operation.claim)
        spec = csi_spec(found[1]) if found is not None else None
        driver = self._drivers.get(source_of(spec).driver) if spec is not None else None
        if found is None or spec is None or driver is None:
            return None
        claim, volume = found
        try:
            match operation:
                case Grow():
                    await self._grow(claim, volume, spec, driver, operation.size)
                case TryNodeAgain():
                    await self._patch_claim(claim, _status(operation.size, PENDING))
                case Settle():
                    await self._patch_volume(volume, {"metadata": {"annotations": {PRE_RESIZE: None}}})
                case Withdraw():
                    given_up = {**_status(operation.size, None), "conditions": with_conditions(claim)}
                    await self._patch_claim(claim, given_up)
        except NotFound:
            return None  # the claim or its volume has gone meanwhile
        except MooringError as error:
            return error
        return None

    def apply(self, operation: Decision, outcome: MooringError | None) -> bool:
        claim = self._claims.indexer.get_by_key(operation.claim)
        if outcome is not None and claim is not None:
            self._tell(claim, "VolumeResizeFailed", str(outcome))
        return outcome is None

    # -- growing ---------------------------------------------------------------------------------------------------
    async def _grow(
        self,
        claim: PersistentVolumeClaim,
        volume: PersistentVolume,
        spec: PersistentVolumeSpec,
        driver: Driver,
        to: str,
    ) -> None:
        """Note the size before the driver is asked: until it has refused finally, no smaller one is tried."""
        begun = _status(to, IN_PROGRESS)
        begun["conditions"] = with_conditions(claim, self._condition("Resizing"))
        claim = await self._patch_claim(claim, begun)
        try:
            size, on_node = await self._ask(spec, driver, to)
        except MooringError as error:
            if _cannot_be_had(error, asked_still=_asks_for(claim, to)):
                told = self._condition("ControllerResizeError", error.why)
                refused = {**_status(to, CONTROLLER_INFEASIBLE), "conditions": with_conditions(claim, told)}
                await self._patch_claim(claim, refused)
            raise
        change = _grown(claim, volume, size, on_node=on_node)
        if change:
            await self._patch_volume(volume, change)
        if on_node:
            pending = _status(to, PENDING)
            pending["conditions"] = with_conditions(claim, self._condition("FileSystemResizePending"))
            await self._patch_claim(claim, pending)
        else:
            done = _status(to, None)
            done |= {"capacity": {STORAGE: size}, "conditions": with_conditions(claim)}
            await self._patch_claim(claim, done)
            self._tell(claim, "VolumeResizeSuccessful", f"ExpandVolume succeeded for volume {claim.key}")

    async def _ask(self, spec: PersistentVolumeSpec, driver: Driver, to: str) -> tuple[str, bool]:
        """The size that the volume has then, and whether nodes have a part in it, too."""
        source = source_of(spec)
        what = f"cannot grow volume {source.volume_handle!r}"
        abilities = await driver.controller_capabilities()
        if not abilities.expands:
            if not (await driver.capabilities()).expands:
                raise Unsupported(what, why=f"driver {driver.name!r} cannot let volumes grow")
            return to, True
        secrets = await self._secrets.of(source.controller_expand_secret_ref, what)
        answer = await driver.controller.expand(expand_request(spec, parse_quantity(to).value, abilities, secrets))
        return larger(to, answer.capacity_bytes), answer.node_expansion_required

    def _condition(self, name: str, message: str = "") -> Condition:
        return Condition(type=name, status="True", message=message, last_transition_time=self._now())

    async def _patch_volume(self, volume: PersistentVolume, merge: dict[str, Any]) -> None:
        written = await self._api.patch(PERSISTENT_VOLUME, "", volume.metadata.name, merge)
        self._written[volume.key] = int(written.metadata.resource_version)

    async def _patch_claim(self, claim: PersistentVolumeClaim, status: dict[str, Any]) -> PersistentVolumeClaim:
        meta = claim.metadata
        written = await self._api.patch(CLAIM, meta.namespace, meta.name, {"status": status}, subresource="status")
        self._written[claim.key] = int(written.metadata.resource_version)
        return written


def _grown(claim: PersistentVolumeClaim, volume: PersistentVolume, size: str, *, on_node: bool) -> dict[str, Any]:
    """What changes of a volume with its size, in one write: also what the claim had, until nodes have grown it."""
    change: dict[str, Any] = {}
    if parse_quantity(volume.spec.capacity[STORAGE]) < parse_quantity(size):
        change["spec"] = {"capacity": {STORAGE: size}}
    held = claim.status.capacity.get(STORAGE)
    if (
        on_node
        and held is not None
        and volume.spec.volume_mode != "Block"
        and PRE_RESIZE not in volume.metadata.annotations
    ):
        change["metadata"] = {"annotations": {PRE_RESIZE: str(held)}}
    return change


def _cannot_be_had(error: MooringError, *, asked_still: bool) -> bool:
    """Whether a size is given up: one that the driver cannot give, or that failed and that nobody asks for any more."""
    if isinstance(error, CallFailed):
        return error.kind is Kind.FINAL and (error.code.name in _INFEASIBLE or not asked_still)
    return isinstance(error, Refused)  # its driver was not even asked


def _asks_for(claim: PersistentVolumeClaim, size: str) -> bool:
    asked = claim.spec.resources.requests.get(STORAGE)
    return asked is not None and parse_quantity(asked) == parse_quantity(size)


def _status(size: str, state: str | None) -> dict[str, Any]:
    return {"allocatedResources": {STORAGE: size}, "allocatedResourceStatuses": {STORAGE: state}}
