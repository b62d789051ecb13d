"""Claims and volumes in use are not taken away: a finalizer holds them until nobody needs them any more."""

from __future__ import annotations

from mooring.controllers.binding import SetClaimFinalizers, SetVolumeFinalizers, Surroundings
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"
VOLUME_PROTECTION = "kubernetes.io/pv-protection"


def protect_claim(claim: PersistentVolumeClaim, around: Surroundings) -> SetClaimFinalizers | None:
    """Give a live claim its finalizer; take it from a deleted one that no pod wants and of which nothing is mounted."""
    finalizers = _protected(claim.metadata.finalizers, CLAIM_PROTECTION, keep=not _may_go(claim, around))
    return SetClaimFinalizers(claim.key, finalizers) if finalizers != tuple(claim.metadata.finalizers) else None


def _may_go(claim: PersistentVolumeClaim, around: Surroundings) -> bool:
    return claim.metadata.deletion_timestamp is not None and not around.is_used(claim)


def releases(decided: SetClaimFinalizers) -> bool:
    """Whether nothing protects the claim any more afterwards."""
    return CLAIM_PROTECTION not in decided.finalizers


def keeps_claim(pod: Pod, claim: PersistentVolumeClaim) -> bool:
    """Whether a pod of a cluster needs a claim; that it has ended does not matter, only that it has a node.

    A claim that was made for the pod goes with it: one that can run no more needs it no longer.
    """
    if not pod.spec.node_name or pod.metadata.namespace != claim.metadata.namespace:
        return False
    name = claim.metadata.name
    if any(
        each.persistent_volume_claim and each.persistent_volume_claim.claim_name == name for each in pod.spec.volumes
    ):
        return True
    own = any(each.ephemeral is not None and f"{pod.metadata.name}-{each.name}" == name for each in pod.spec.volumes)
    return own and not _is_shut_down(pod) and claim.metadata.is_controlled_by(pod.metadata.uid)


def _is_shut_down(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None and pod.metadata.deletion_grace_period_seconds == 0


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
