"""From a pod's volume to a volume spec: claims are looked up, and must really belong to the pod."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Protocol

from mooring.csi import migration
from mooring.errors import NotYet, Refused
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import PersistentVolume, PersistentVolumeClaim
from mooring.kube.objects.volumes import Volume
from mooring.plugins.interface import ObjectRef
from mooring.world.growth import NO_GROWTH, Growth, growth_of
from mooring.world.pod_facts import VolumeUse
from mooring.world.spec import VolumeSpec

PROTECTION = "kubernetes.io/pvc-protection"


class Claims(Protocol):
    """Where claims and volumes are looked up, at once and from a cache."""

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim | None: ...

    def persistent_volume(self, name: str) -> PersistentVolume | None: ...


class ClaimStatus(Protocol):
    """Who writes the status of claims, and events about them."""

    async def patch(self, claim: PersistentVolumeClaim, merge: Mapping[str, object]) -> PersistentVolumeClaim:
        """The claim as it is then; `NotYet` when it cannot be written now."""
        ...

    def tell(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None: ...

    def now(self) -> str: ...


class NoClaimStatus:
    """Where claims are handed in and belong to somebody else, nothing is written to them."""

    async def patch(self, claim: PersistentVolumeClaim, merge: Mapping[str, object]) -> PersistentVolumeClaim:
        return claim

    def tell(self, claim: PersistentVolumeClaim, reason: str, message: str) -> None:
        return None

    def now(self) -> str:
        return ""


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """The claim behind a pod's volume, if there is one."""
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    if volume.ephemeral is not None:
        return f"{pod.metadata.name}-{volume.name}"
    return None


def claim_references(pod: Pod, volume: Volume, claims: Claims) -> tuple[ObjectRef, ...]:
    """The claim and, once bound, the PersistentVolume: a change of either means working the volume out again.

    A claim may name a volume long before that is its own, or is there: a node may not read such a volume.
    """
    name = claim_name(pod, volume)
    if name is None:
        return ()
    found = [ObjectRef("PersistentVolumeClaim", pod.metadata.namespace, name)]
    with contextlib.suppress(NotYet):  # not known yet: it is told of when it is
        claim = claims.claim(pod.metadata.namespace, name)
        if claim is not None and claim.status.phase == "Bound" and claim.spec.volume_name:
            found.append(ObjectRef("PersistentVolume", "", claim.spec.volume_name))
    return tuple(found)


def build_spec(pod: Pod, volume: Volume, use: VolumeUse, claims: Claims) -> VolumeSpec:
    """What a pod's volume really is. Raises `NotYet` for what an event can mend, else `Refused`."""
    name = claim_name(pod, volume)
    if name is None:
        return _as_csi(VolumeSpec(volume=volume, namespace=pod.metadata.namespace), pod)
    claim = _usable_claim(pod, volume, name, claims)
    spec = VolumeSpec(
        persistent_volume=_bound_volume(pod, name, claim, claims),
        read_only=volume.persistent_volume_claim is not None and volume.persistent_volume_claim.read_only,
    )
    _check_mode(volume.name, spec, use)
    return _as_csi(spec, pod)


def _as_csi(spec: VolumeSpec, pod: Pod) -> VolumeSpec:
    """The CSI volume that a type which Kubernetes has moved to CSI stands for; any other spec as it is."""
    if migration.translator_of(spec) is None:
        return spec
    return migration.to_csi(spec, namespace=pod.metadata.namespace)


def _usable_claim(pod: Pod, volume: Volume, name: str, claims: Claims) -> PersistentVolumeClaim:
    what = f"error processing PVC {pod.metadata.namespace}/{name}"
    claim = claims.claim(pod.metadata.namespace, name)
    if claim is None:
        why = f'failed to fetch PVC from API server: persistentvolumeclaims "{name}" not found'
        raise NotYet(what, why=why, next_step=f"Create the PersistentVolumeClaim {name!r} or correct the claimName")
    if claim.metadata.deletion_timestamp is not None and PROTECTION not in claim.metadata.finalizers:
        raise NotYet(what, why="PVC is being deleted")
    if claim.status.phase != "Bound":
        told = claim.status.conditions[0].message if claim.status.conditions else ""
        phase = claim.status.phase or "not set"
        raise NotYet(
            what,
            why=f"PVC is not bound: {told}" if told else "PVC is not bound",
            next_step=f"Its phase is {phase}: a PersistentVolume must fit it",
        )
    if not claim.spec.volume_name:
        raise NotYet(what, why="PVC has empty pvc.Spec.VolumeName")
    if volume.ephemeral is not None and not claim.metadata.is_controlled_by(pod.metadata.uid):
        why = f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"
        raise Refused(what, why=why, next_step="Delete the claim, or rename the pod or the volume")
    return claim


def _bound_volume(pod: Pod, name: str, claim: PersistentVolumeClaim, claims: Claims) -> PersistentVolume:
    what = f"error processing PVC {pod.metadata.namespace}/{name}"
    volume = claims.persistent_volume(claim.spec.volume_name)
    if volume is None:
        why = f'failed to fetch PV {claim.spec.volume_name}: persistentvolumes "{claim.spec.volume_name}" not found'
        raise NotYet(what, why=why)
    reference = volume.spec.claim_ref
    if reference is None:
        raise NotYet(what, why=f"PV {volume.metadata.name} has a nil ClaimRef: it is not yet bound to the claim")
    if reference.uid != claim.metadata.uid:
        why = f"PV {volume.metadata.name} ClaimRef.UID {reference.uid!r} does not point to claim.UID"
        raise NotYet(what, why=why, next_step=f"The volume belongs to {reference.namespace}/{reference.name}")
    return volume


def growth_for(pod: Pod, volume: Volume, spec: VolumeSpec, claims: Claims) -> Growth:
    """How far a pod's volume is to grow, if it has a claim."""
    name = claim_name(pod, volume)
    claim = claims.claim(pod.metadata.namespace, name) if name is not None else None
    if claim is None or spec.persistent_volume is None:
        return NO_GROWTH
    return growth_of(claim, spec.persistent_volume, read_only=spec.read_only)


def _check_mode(name: str, spec: VolumeSpec, use: VolumeUse) -> None:
    assert spec.persistent_volume is not None
    mode = spec.persistent_volume.spec.volume_mode
    what = f"cannot use volume {name!r}"
    if mode is None:
        raise Refused(what, why=f"cannot get volumeMode for volume: {spec.name}")
    if mode == "Block" and name in use.mounts:
        raise Refused(what, why=f"volume {name} has volumeMode Block, but is specified in volumeMounts")
    if mode != "Block" and name in use.devices:
        raise Refused(what, why=f"volume {name} has volumeMode {mode}, but is specified in volumeDevices")
