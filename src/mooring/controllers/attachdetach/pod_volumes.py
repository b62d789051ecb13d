"""What the volumes of a pod are, as far as attaching goes. Pure functions over objects from caches."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from mooring.controllers.attachdetach.requests import csi_spec
from mooring.csi import migration
from mooring.csi.names import NAME, Identity, volume_name
from mooring.errors import Refused
from mooring.kube.objects.pod import Pod
from mooring.kube.objects.storage import CSIDriver, PersistentVolume, PersistentVolumeClaim, VolumeAttachment
from mooring.kube.objects.volumes import Volume
from mooring.plugins import fc_disks, iscsi_disk
from mooring.plugins.iscsi_places import NAME as ISCSI
from mooring.world.names import PluginName, VolumeName, shared_volume_name, split_volume_name
from mooring.world.spec import VolumeSpec


class Lookups(Protocol):
    """Objects from caches, at once."""

    def claim(self, key: str) -> PersistentVolumeClaim | None: ...

    def persistent_volume(self, name: str) -> PersistentVolume | None: ...

    def csi_driver(self, name: str) -> CSIDriver | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A pod's volume that must be attached, or is told to be before a node mounts it."""

    name: VolumeName
    spec: VolumeSpec


@dataclass(frozen=True, slots=True)
class NotAttachable:
    """A pod's volume that nobody attaches."""


@dataclass(frozen=True, slots=True)
class Unresolved:
    """A pod's volume of which cannot be said yet what it is."""

    why: str


Resolution = Resolved | NotAttachable | Unresolved
_NOT_ATTACHABLE = NotAttachable()


def resolve_all(pod: Pod, around: Lookups) -> Mapping[str, Resolution]:
    """What each volume of a pod is, by its name in the pod."""
    return {volume.name: resolve(pod, volume, around) for volume in pod.spec.volumes}


def resolve(pod: Pod, volume: Volume, around: Lookups) -> Resolution:
    """What a volume of a pod is; claims must be bound, and belong to whom they say."""
    claim = claim_of(pod, volume)
    if claim is None:
        return _as_attachable(VolumeSpec(volume=volume, namespace=pod.metadata.namespace), pod, around)
    found = _claimed(pod, volume, claim, around)
    if isinstance(found, str):
        return Unresolved(found)
    read_only = volume.persistent_volume_claim is not None and volume.persistent_volume_claim.read_only
    return _as_attachable(VolumeSpec(persistent_volume=found, read_only=read_only), pod, around)


def claim_of(pod: Pod, volume: Volume) -> str | None:
    """The claim behind a pod's volume, as `namespace/name`, if there is one."""
    if volume.persistent_volume_claim is not None:
        return f"{pod.metadata.namespace}/{volume.persistent_volume_claim.claim_name}"
    if volume.ephemeral is not None:
        return f"{pod.key}-{volume.name}"
    return None


def _claimed(pod: Pod, volume: Volume, key: str, around: Lookups) -> PersistentVolume | str:
    """The PersistentVolume of a claim, or why there is none."""
    claim = around.claim(key)
    if claim is None:
        return f"there is no PersistentVolumeClaim {key!r}"
    if volume.ephemeral is not None and not claim.metadata.is_controlled_by(pod.metadata.uid):
        return f"PersistentVolumeClaim {key!r} was not made for pod {pod.key!r}"
    if claim.status.phase != "Bound" or not claim.spec.volume_name:
        return f"PersistentVolumeClaim {key!r} is not bound"
    found = around.persistent_volume(claim.spec.volume_name)
    if found is None:
        return f"there is no PersistentVolume {claim.spec.volume_name!r}"
    owner = found.spec.claim_ref
    if owner is None or owner.uid != claim.metadata.uid:
        return f"PersistentVolume {found.metadata.name!r} does not belong to PersistentVolumeClaim {key!r}"
    return found


def _as_attachable(spec: VolumeSpec, pod: Pod, around: Lookups) -> Resolution:
    if migration.translator_of(spec) is not None:
        try:
            spec = migration.to_csi(spec, namespace=pod.metadata.namespace)
        except Refused as error:
            return Unresolved(error.why)
    disk = _network_disk(spec)
    if disk is not None:
        return disk
    source = spec.persistent_volume.spec.csi if spec.persistent_volume is not None else None
    if source is None:
        return _NOT_ATTACHABLE  # also a CSI volume that is written in the pod: those are never attached
    driver = around.csi_driver(source.driver)
    if driver is not None and not driver.spec.attach_required:
        return _NOT_ATTACHABLE
    return Resolved(name=unique_name(Identity(driver=source.driver, handle=source.volume_handle)), spec=spec)


def _network_disk(spec: VolumeSpec) -> Resolution | None:
    """A disk on a network. Nodes attach it while they mount it, as soon as they are told that they have it."""
    iscsi, fc = iscsi_disk.source_of(spec), fc_disks.source_of(spec)
    if iscsi is not None:
        return Resolved(name=shared_volume_name(ISCSI, iscsi_disk.backing_name(iscsi)), spec=spec)
    if fc is None:
        return None
    backing = fc_disks.backing_name(fc)
    if not backing:
        return Unresolved("it names neither target WWNs with a LUN nor WWIDs")
    return Resolved(name=shared_volume_name(fc_disks.NAME, backing), spec=spec)


def unique_name(identity: Identity) -> VolumeName:
    return shared_volume_name(NAME, volume_name(identity))


def plugin_label(name: VolumeName, spec: VolumeSpec | None) -> str:
    """How metrics call the plugin of a volume: with its driver, where it has one."""
    plugin = plugin_of(name) or "N/A"
    return f"{plugin}:{spec.csi_driver}" if spec is not None and spec.csi_driver else plugin


def plugin_of(name: VolumeName) -> PluginName | None:
    """The plugin that a unique volume name begins with; None for what is no such name."""
    try:
        return split_volume_name(name)[0]
    except ValueError:
        return None


def ordered(attachment: VolumeAttachment, around: Lookups) -> Resolved | None:
    """The volume that a VolumeAttachment is for, as far as its PersistentVolume is known."""
    found = around.persistent_volume(attachment.spec.source.persistent_volume_name or "")
    spec = csi_spec(found) if found is not None else None
    if found is None or spec is None or spec.csi is None:
        return None
    source = spec.csi
    identity = Identity(driver=source.driver, handle=source.volume_handle)
    whole = VolumeSpec(persistent_volume=found)
    if found.spec.csi is None:
        whole = migration.to_csi(whole, namespace="")
    return Resolved(name=unique_name(identity), spec=whole)


def may_attach_to_many(spec: VolumeSpec | None) -> bool:
    """Whether several nodes may have a volume at once; one that is known by its name alone is given the benefit."""
    return spec is None or not spec.is_for_one_node
