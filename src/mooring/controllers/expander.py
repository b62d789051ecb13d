"""The expander: claims that ask for more get it, from the controller part of their CSI driver and then from nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from grpc import StatusCode

from mooring.controllers import expansion
from mooring.controllers.attachdetach.requests import csi_spec, expand_request, source_of
from mooring.controllers.driver_secrets import DriverSecrets
from mooring.controllers.expansion import (
    CONTROLLER_INFEASIBLE,
    IN_PROGRESS,
    Decision,
    Grow,
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
from mooring.world.growth import PENDING, STORAGE

_INFEASIBLE = frozenset((StatusCode.INVALID_ARGUMENT, StatusCode.OUT_OF_RANGE, StatusCode.NOT_FOUND))


class Expander:
    """A subject of the engine, fed by informers and by drivers that register: one key for each claim."""

    def __init__(
        self,
        api: Api,
        factory: SharedInformerFactory,
        drivers: Drivers,
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
        self._secrets = DriverSecrets(factory)
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
                on_delete=lambda volume: None,
            )
        )
        await self._reconciler.run()

    def _changed(self, old: PersistentVolumeClaim, new: PersistentVolumeClaim) -> None:
        if old.spec != new.spec:
            self._reconciler.resume(new.key)  # what failed was another size
        self._reconciler.touch(new.key)

    def _gone(self, claim: PersistentVolumeClaim) -> None:
        self._written.pop(claim.key, None)
        self._reconciler.forget(claim.key)

    def _volume_changed(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is not None:
            self._reconciler.touch(f"{reference.namespace}/{reference.name}")

    def driver_changed(self, name: str) -> None:
        """A driver came or went: claims that wait for it are looked at again."""
        for key in self.keys():
            self._reconciler.resume(key)

    # -- the subject -----------------------------------------------------------------------------------------------
    def keys(self) -> Iterable[str]:
        return self._claims.indexer.list_keys()

    def plan(self, key: str) -> Sequence[Decision]:
        found = self._bound(key)
        if found is None or int(found[0].metadata.resource_version) < self._written.get(key, 0):
            return ()
        decided = expansion.decide(*found)
        spec = csi_spec(found[1]) if decided is not None else None
        if decided is None or spec is None or self._drivers.get(source_of(spec).driver) is None:
            return ()  # somebody else's, or its driver's registration brings the claim back
        return (decided,)

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
        if parse_quantity(volume.spec.capacity[STORAGE]) < parse_quantity(size):
            merge = {"spec": {"capacity": {STORAGE: size}}}
            await self._api.patch(PERSISTENT_VOLUME, "", volume.metadata.name, merge)
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
        abilities = await driver.controller_capabilities()
        if not abilities.expands:
            if not (await driver.capabilities()).expands:
                what = f"cannot grow volume {source_of(spec).volume_handle!r}"
                raise Unsupported(what, why=f"driver {driver.name!r} cannot let volumes grow")
            return to, True
        source = source_of(spec)
        secrets = self._secrets.of(source.controller_expand_secret_ref, f"cannot grow volume {source.volume_handle!r}")
        answer = await driver.controller.expand(expand_request(spec, parse_quantity(to).value, abilities, secrets))
        return larger(to, answer.capacity_bytes), answer.node_expansion_required

    def _condition(self, name: str, message: str = "") -> Condition:
        return Condition(type=name, status="True", message=message, last_transition_time=self._now())

    async def _patch_claim(self, claim: PersistentVolumeClaim, status: dict[str, Any]) -> PersistentVolumeClaim:
        meta = claim.metadata
        written = await self._api.patch(CLAIM, meta.namespace, meta.name, {"status": status}, subresource="status")
        self._written[claim.key] = int(written.metadata.resource_version)
        return written


def _cannot_be_had(error: MooringError, *, asked_still: bool) -> bool:
    """Whether a size is given up: one that the driver cannot give, or that failed and that nobody asks for any more."""
    if isinstance(error, CallFailed):
        return error.kind is Kind.FINAL and (error.code in _INFEASIBLE or not asked_still)
    return isinstance(error, Refused)  # its driver was not even asked


def _asks_for(claim: PersistentVolumeClaim, size: str) -> bool:
    asked = claim.spec.resources.requests.get(STORAGE)
    return asked is not None and parse_quantity(asked) == parse_quantity(size)


def _status(size: str, state: str | None) -> dict[str, Any]:
    return {"allocatedResources": {STORAGE: size}, "allocatedResourceStatuses": {STORAGE: state}}
