"""Claims and volumes in use are not taken away: a finalizer holds them until nobody needs them any more."""

from __future__ import annotations

from mooring.controllers.binding import SetClaimFinalizers, SetVolumeFinalizers, Surroundings
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"


def protect_claim(claim: PersistentVolumeClaim, around: Surroundings) -> SetClaimFinalizers | None:
    """Give a live claim its finalizer; take it from a deleted one that no pod wants and of which nothing is mounted."""
    finalizers = _protected(claim.metadata.finalizers, CLAIM_PROTECTION, keep=not _may_go(claim, around))
    return SetClaimFinalizers(claim.key, finalizers) if finalizers != tuple(claim.metadata.finalizers) else None


def _may_go(claim: PersistentVolumeClaim, around: Surroundings) -> bool:
    return claim.metadata.deletion_timestamp is not None and not around.is_used(claim)


def protect_volume(volume: PersistentVolume) -> SetVolumeFinalizers | None:
    """Give a live PersistentVolume its finalizer; take it from a deleted one that is not bound."""
    may_go = volume.metadata.deletion_timestamp is not None and volume.status.phase != "Bound"
    finalizers = _protected(volume.metadata.finalizers, VOLUME_PROTECTION, keep=not may_go)
    changed = finalizers != tuple(volume.metadata.finalizers)
    return SetVolumeFinalizers(volume.metadata.name, finalizers) if changed else None


def _protected(finalizers: tuple[str, ...], name: str, *, keep: bool) -> tuple[str, ...]:
    if keep:
        return finalizers if name in finalizers else (*finalizers, name)
    return tuple(each for each in finalizers if each != name)
