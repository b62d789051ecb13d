"""What is to be done about a claim or a PersistentVolume: pure decisions of the binder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mooring.controllers.matching import choose_volume, class_of, is_reserved_for, mismatch, request_of
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
PROVISIONERS = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
"""Annotations of a claim, with the same meaning: who is to make a volume for it."""

SELECTED_NODE = "volume.kubernetes.io/selected-node"
"""Annotation with which a scheduler says where the first pod that uses a claim will run."""


@dataclass(frozen=True, slots=True)
class Bind:
    """Make claim and volume point at each other, and say so in both statuses."""

    claim: str  # namespace/name
    volume: str


@dataclass(frozen=True, slots=True)
class AssignClass:
    claim: str
    name: str


@dataclass(frozen=True, slots=True)
class AskProvisioner:
    """Nothing that exists fits: whoever makes volumes of this class is asked for one."""

    claim: str
    provisioner: str


@dataclass(frozen=True, slots=True)
class SetClaimPhase:
    """A claim that is not bound: Pending or Lost, and why."""

    claim: str
    phase: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SetVolumePhase:
    volume: str
    phase: str


@dataclass(frozen=True, slots=True)
class ReleaseVolume:
    """Undo a reservation: wholly when the binder made it, else only the UID of a claim that is served elsewhere."""

    volume: str
    wholly: bool


@dataclass(frozen=True, slots=True)
class SetClaimFinalizers:
    claim: str
    finalizers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetVolumeFinalizers:
    volume: str
    finalizers: tuple[str, ...]


ClaimDecision = Bind | AssignClass | AskProvisioner | SetClaimPhase | SetClaimFinalizers
VolumeDecision = SetVolumePhase | ReleaseVolume | SetVolumeFinalizers
Decision = ClaimDecision | VolumeDecision


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What decisions look at besides the object itself."""

    volumes: Mapping[str, PersistentVolume]
    claims: Mapping[str, PersistentVolumeClaim]
    classes: Mapping[str, StorageClass]
    is_used: Callable[[PersistentVolumeClaim], bool]  # whether a pod wants it, or holds something of it
    fits_node: Callable[[PersistentVolume], bool]
    has_provisioners: bool = False  # others make volumes for claims that ask them to


def decide_claim(claim: PersistentVolumeClaim, around: Surroundings) -> Decision | None:
    """The next step for a claim, or None when it is as it should be."""
    if BIND_COMPLETED in claim.metadata.annotations:
        return _bound_claim(claim, around)
    if claim.metadata.deletion_timestamp is not None:
        return None
    if claim.spec.volume_name:
        return _claim_with_volume(claim, around)
    delayed = _waits_for_pod(claim, around)
    found = choose_volume(claim, around.volumes.values(), reserved_only=delayed, fits_node=around.fits_node)
    if found is not None:
        return Bind(claim.key, found.metadata.name)
    if claim.spec.storage_class_name is None and not class_of(claim):
        default = default_class(around.classes)
        if default is not None:
            return AssignClass(claim.key, default)
    provisioner = _provisioner_of(claim, around, delayed=delayed)
    if provisioner is not None:
        return _provisioned(claim, provisioner)
    return _pending(claim, *_why_unbound(claim, around, delayed=delayed))


def _waits_for_pod(claim: PersistentVolumeClaim, around: Surroundings) -> bool:
    found = around.classes.get(class_of(claim))
    return found is not None and found.volume_binding_mode == "WaitForFirstConsumer" and not around.is_used(claim)


def _provisioner_of(claim: PersistentVolumeClaim, around: Surroundings, *, delayed: bool) -> str | None:
    """Who can be asked for a volume now."""
    found = around.classes.get(class_of(claim)) if around.has_provisioners else None
    if found is None or found.provisioner in ("", NO_PROVISIONER):
        return None
    return found.provisioner if not delayed or SELECTED_NODE in claim.metadata.annotations else None


def _provisioned(claim: PersistentVolumeClaim, provisioner: str) -> AskProvisioner | SetClaimPhase | None:
    if any(claim.metadata.annotations.get(each) != provisioner for each in PROVISIONERS):
        return AskProvisioner(claim.key, provisioner)
    why = f"Waiting for a volume to be created either by the external provisioner {provisioner!r} or manually"
    return _pending(claim, "ExternalProvisioning", why)


def _why_unbound(claim: PersistentVolumeClaim, around: Surroundings, *, delayed: bool) -> tuple[str, str]:
    if delayed:
        return "WaitForFirstConsumer", "waiting for first consumer to be created before binding"
    name = class_of(claim)
    found = around.classes.get(name)
    if name and found is None and not any(class_of(volume) == name for volume in around.volumes.values()):
        return "ProvisioningFailed", f'storageclass.storage.k8s.io "{name}" not found, and no volume is of this class'
    if found is not None and found.provisioner not in ("", NO_PROVISIONER):
        return "ProvisioningFailed", f"nobody here provisions volumes for {found.provisioner!r}, and none fits"
    asked = f"{request_of(claim)}, {', '.join(claim.spec.access_modes) or 'any access mode'}"
    return "FailedBinding", f"no persistent volumes available for this claim ({asked}, class {name!r})"


def _pending(claim: PersistentVolumeClaim, reason: str, message: str) -> SetClaimPhase | None:
    decided = SetClaimPhase(claim.key, "Pending", reason, message)
    return None if _says(claim, decided) else decided


def _says(claim: PersistentVolumeClaim, decided: SetClaimPhase) -> bool:
    """Whether a claim's status already tells just this."""
    if claim.status.phase != decided.phase or len(claim.status.conditions) != 1:
        return False
    condition = claim.status.conditions[0]
    return (condition.reason, condition.message) == (decided.reason, decided.message)


def _claim_with_volume(claim: PersistentVolumeClaim, around: Surroundings) -> Decision | None:
    name = claim.spec.volume_name
    volume = around.volumes.get(name)
    if volume is None:
        return _pending(claim, "FailedBinding", f"the volume {name!r} that it names does not exist")
    if is_reserved_for(volume, claim):
        return Bind(claim.key, name)
    reference = volume.spec.claim_ref
    if reference is not None:
        owner = f"{reference.namespace}/{reference.name}"
        return _pending(claim, "FailedBinding", f'volume "{name}" already bound to a different claim: {owner}')
    why = mismatch(claim, volume)
    if why is not None:
        return _pending(claim, "VolumeMismatch", f'cannot bind to requested volume "{name}": {why}')
    return Bind(claim.key, name)


def _bound_claim(claim: PersistentVolumeClaim, around: Surroundings) -> Decision | None:
    """A claim that was bound once is Bound or Lost for good."""
    if claim.status.phase == "Lost":
        return None
    name = claim.spec.volume_name
    volume = around.volumes.get(name)
    if not name or volume is None:
        return SetClaimPhase(
            claim.key, "Lost", "ClaimLost", "bound claim has lost its PersistentVolume. Data on it is lost"
        )
    if volume.spec.claim_ref is not None and volume.spec.claim_ref.uid != claim.metadata.uid:
        why = "two claims are bound to the same volume, this one is bound incorrectly"
        return SetClaimPhase(claim.key, "Lost", "ClaimMisbound", why)
    return None if is_complete(claim, volume) else Bind(claim.key, name)


def is_complete(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether all four parts of a binding are written."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.uid == claim.metadata.uid
        and volume.status.phase == "Bound"
        and claim.spec.volume_name == volume.metadata.name
        and BIND_COMPLETED in claim.metadata.annotations
        and claim.status.phase == "Bound"
        and claim.status.capacity.get("storage") is not None
    )


def default_class(classes: Mapping[str, StorageClass]) -> str | None:
    """The class that claims without one get: the newest marked as default, of equals the first by name."""
    marked = [each for each in classes.values() if each.metadata.annotations.get(DEFAULT_CLASS) == "true"]
    marked.sort(key=lambda each: each.metadata.name)
    marked.sort(key=lambda each: each.metadata.creation_timestamp or "", reverse=True)
    return marked[0].metadata.name if marked else None


def decide_volume(volume: PersistentVolume, around: Surroundings) -> Decision | None:
    """The next step for a PersistentVolume, or None when it is as it should be."""
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        return _phase(volume, "Available")
    claim = around.claims.get(f"{reference.namespace}/{reference.name}")
    if claim is None or claim.metadata.uid != reference.uid:
        return _phase(volume, "Released") if volume.status.phase != "Failed" else None
    if not claim.spec.volume_name:
        return None  # the claim's own turn completes it
    if claim.spec.volume_name == volume.metadata.name:
        return _phase(volume, "Bound")
    return ReleaseVolume(volume.metadata.name, wholly=BOUND_BY_CONTROLLER in volume.metadata.annotations)


def _phase(volume: PersistentVolume, phase: str) -> SetVolumePhase | None:
    return None if volume.status.phase == phase else SetVolumePhase(volume.metadata.name, phase)
