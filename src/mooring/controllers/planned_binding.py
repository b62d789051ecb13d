"""Which claims would be bound to which volumes: the binder's decisions, carried out on values alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from msgspec import structs

from mooring.controllers.binding import BIND_COMPLETED, AssignClass, Bind, SetClaimPhase, Surroundings, decide_claim
from mooring.kube.objects.meta import Condition, ObjectReference
from mooring.kube.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeStatus,
    StorageClass,
)


class PlannedBinding:
    """Claims and volumes as they would be once the binder has been at work. All claims count as wanted."""

    def __init__(
        self,
        claims: Iterable[PersistentVolumeClaim],
        volumes: Iterable[PersistentVolume],
        classes: Iterable[StorageClass],
        fits_node: Callable[[PersistentVolume], bool],
    ) -> None:
        self.claims = {claim.key: claim for claim in claims}
        self.volumes = {volume.metadata.name: volume for volume in volumes}
        self._around = Surroundings(
            volumes=self.volumes,
            claims=self.claims,
            classes={each.metadata.name: each for each in classes},
            is_used=lambda claim: True,
            fits_node=fits_node,
        )
        for key in sorted(self.claims):
            self._settle(key)

    def _settle(self, key: str) -> None:
        """Decide about a claim until nothing is left to decide; a class may be given before a volume is found."""
        for _ in range(3):
            claim = self.claims[key]
            match decide_claim(claim, self._around):
                case Bind(volume=name):
                    self.claims[key], self.volumes[name] = bound(claim, self.volumes[name])
                    return
                case AssignClass(name=name):
                    self.claims[key] = structs.replace(claim, spec=structs.replace(claim.spec, storage_class_name=name))
                case SetClaimPhase() as told:
                    reason = Condition(type="Unbound", status="True", reason=told.reason, message=told.message)
                    status = PersistentVolumeClaimStatus(phase=told.phase, conditions=(reason,))
                    self.claims[key] = structs.replace(claim, status=status)
                    return
                case _:
                    return


def bound(claim: PersistentVolumeClaim, volume: PersistentVolume) -> tuple[PersistentVolumeClaim, PersistentVolume]:
    """A claim and a volume that point at each other."""
    reference = ObjectReference(
        kind="PersistentVolumeClaim",
        namespace=claim.metadata.namespace,
        name=claim.metadata.name,
        uid=claim.metadata.uid,
    )
    annotations = {**claim.metadata.annotations, BIND_COMPLETED: "yes"}
    return (
        structs.replace(
            claim,
            metadata=structs.replace(claim.metadata, annotations=annotations),
            spec=structs.replace(claim.spec, volume_name=volume.metadata.name),
            status=PersistentVolumeClaimStatus(
                phase="Bound", access_modes=volume.spec.access_modes, capacity=volume.spec.capacity
            ),
        ),
        structs.replace(
            volume,
            spec=structs.replace(volume.spec, claim_ref=reference),
            status=PersistentVolumeStatus(phase="Bound"),
        ),
    )
