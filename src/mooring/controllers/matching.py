"""Which PersistentVolume fits a claim. Pure functions over both."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mooring.kube.api import Invalid
from mooring.kube.objects.meta import LabelSelector
from mooring.kube.objects.pod import Quantities
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.kube.quantity import ZERO, Quantity, parse_quantity
from mooring.kube.selectors import select_labels

CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
FILESYSTEM = "Filesystem"
_FREE = frozenset({"Available", "Pending", ""})
"""Phases of a volume without an owner; the last two are those of one that nobody has looked at yet."""


def class_of(obj: PersistentVolume | PersistentVolumeClaim) -> str:
    """The storage class of a claim or volume; the old annotation wins, none at all is the empty name."""
    return obj.metadata.annotations.get(CLASS_ANNOTATION) or obj.spec.storage_class_name or ""


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume names this claim as its owner: by name, and by UID where it carries one."""
    reference = volume.spec.claim_ref
    if reference is None or (reference.namespace, reference.name) != (claim.metadata.namespace, claim.metadata.name):
        return False
    return reference.uid in ("", claim.metadata.uid)


def choose_volume(
    claim: PersistentVolumeClaim,
    volumes: Iterable[PersistentVolume],
    *,
    reserved_only: bool,
    fits_node: Callable[[PersistentVolume], bool],
) -> PersistentVolume | None:
    """The best volume for an unbound claim: of those with the fewest access modes the one reserved for it, else the
    smallest that is free. With `reserved_only` (binding waits for a pod) free ones are not taken.
    """
    candidates = [volume for volume in volumes if _could_serve(claim, volume)]
    for modes in sorted({_modes(volume) for volume in candidates}, key=lambda each: (len(each), sorted(each))):
        group = sorted((v for v in candidates if _modes(v) == modes), key=lambda v: (_capacity(v), v.metadata.name))
        reserved = next((volume for volume in group if is_reserved_for(volume, claim)), None)
        if reserved is not None:
            return reserved
        free = (volume for volume in group if _is_free_for(claim, volume) and fits_node(volume))
        found = None if reserved_only else next(free, None)
        if found is not None:
            return found
    return None


def _could_serve(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    taken = volume.spec.claim_ref is not None and not is_reserved_for(volume, claim)
    return (
        not taken
        and volume.metadata.deletion_timestamp is None
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and _capacity(volume) >= request_of(claim)
        and _mode(volume.spec.volume_mode) == _mode(claim.spec.volume_mode)
        and (volume.spec.volume_attributes_class_name or "") == (claim.spec.volume_attributes_class_name or "")
    )


def _is_free_for(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return (
        volume.status.phase in _FREE
        and class_of(volume) == class_of(claim)
        and selector_matches(claim.spec.selector, volume)
    )


def mismatch(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str | None:
    """Why a volume that a claim names cannot serve it; its selector does not count then."""
    if volume.metadata.deletion_timestamp is not None:
        return "the volume is being deleted"
    if _capacity(volume) < request_of(claim):
        return f"requested PV is too small: it has {_capacity(volume)}, the claim asks for {request_of(claim)}"
    if class_of(volume) != class_of(claim):
        return f"storageClassName does not match: {class_of(volume)!r} and {class_of(claim)!r}"
    if _mode(volume.spec.volume_mode) != _mode(claim.spec.volume_mode):
        return f"volumeMode does not match: {_mode(volume.spec.volume_mode)} and {_mode(claim.spec.volume_mode)}"
    if (volume.spec.volume_attributes_class_name or "") != (claim.spec.volume_attributes_class_name or ""):
        return "volumeAttributesClassName does not match"
    missing = sorted(set(claim.spec.access_modes) - set(volume.spec.access_modes))
    return f"accessModes do not match: it lacks {', '.join(missing)}" if missing else None


def selector_matches(selector: LabelSelector | None, volume: PersistentVolume) -> bool:
    """Whether a claim's selector admits a volume's labels; a claim without one takes any."""
    if selector is None:
        return True
    try:
        return select_labels(selector).matches(volume.metadata.labels)
    except Invalid:
        return False  # an operator that nobody knows selects nothing


def request_of(claim: PersistentVolumeClaim) -> Quantity:
    return _storage(claim.spec.resources.requests)


def _capacity(volume: PersistentVolume) -> Quantity:
    return _storage(volume.spec.capacity)


def _storage(quantities: Quantities) -> Quantity:
    written = quantities.get("storage")
    return parse_quantity(written) if written is not None else ZERO


def _modes(volume: PersistentVolume) -> frozenset[str]:
    return frozenset(volume.spec.access_modes)


def _mode(mode: str | None) -> str:
    return mode or FILESYSTEM
