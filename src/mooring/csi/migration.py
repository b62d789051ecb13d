"""In-tree volume types that Kubernetes rewrites to CSI: the translation, in both directions. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from msgspec import structs

from mooring.csi import migration_sources as sources
from mooring.csi.migration_topology import TOPOLOGY_KEYS, topology_to_csi
from mooring.errors import Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import CSIPersistentVolumeSource, PersistentVolume, PersistentVolumeSpec
from mooring.kube.objects.volumes import Volume
from mooring.world.spec import VolumeSpec

Source = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Translator:
    """One in-tree type and its CSI driver."""

    plugin: str
    driver: str
    field: str  # of a pod's volume and of a PersistentVolume's spec
    to_csi: Callable[[Source, sources.Origin], CSIPersistentVolumeSource]
    from_csi: Callable[[CSIPersistentVolumeSource], Source]
    inline_name: Callable[[Source, CSIPersistentVolumeSource], str]
    inline_modes: Callable[[Source], tuple[str, ...]]


def _driver_and_handle(_: Source, csi: CSIPersistentVolumeSource) -> str:
    return f"{csi.driver}-{csi.volume_handle}"


def _handle(_: Source, csi: CSIPersistentVolumeSource) -> str:
    return csi.volume_handle


def _disk_name(source: Source, csi: CSIPersistentVolumeSource) -> str:
    return f"{csi.driver}-{source.get('pdName', '')}"


def _read_write_once(_: Source) -> tuple[str, ...]:
    return ("ReadWriteOnce",)


def _by_read_only(source: Source) -> tuple[str, ...]:
    return ("ReadOnlyMany",) if source.get("readOnly") else ("ReadWriteOnce",)


TRANSLATORS: tuple[Translator, ...] = (
    Translator(
        plugin="kubernetes.io/aws-ebs", driver=sources.EBS, field="aws_elastic_block_store", to_csi=sources.ebs_to_csi,
        from_csi=sources.ebs_from_csi, inline_name=_driver_and_handle, inline_modes=_read_write_once,
    ),
    Translator(
        plugin="kubernetes.io/gce-pd", driver=sources.GCE, field="gce_persistent_disk", to_csi=sources.gce_to_csi,
        from_csi=sources.gce_from_csi, inline_name=_disk_name, inline_modes=_by_read_only,
    ),
    Translator(
        plugin="kubernetes.io/cinder", driver=sources.CINDER, field="cinder", to_csi=sources.cinder_to_csi,
        from_csi=sources.cinder_from_csi, inline_name=_driver_and_handle, inline_modes=_read_write_once,
    ),
    Translator(
        plugin="kubernetes.io/azure-disk", driver=sources.AZURE_DISK, field="azure_disk",
        to_csi=sources.azure_disk_to_csi, from_csi=sources.azure_disk_from_csi, inline_name=_handle,
        inline_modes=_read_write_once,
    ),
    Translator(
        plugin="kubernetes.io/azure-file", driver=sources.AZURE_FILE, field="azure_file",
        to_csi=sources.azure_file_to_csi, from_csi=sources.azure_file_from_csi, inline_name=_handle,
        inline_modes=lambda _: ("ReadWriteMany",),
    ),
    Translator(
        plugin="kubernetes.io/vsphere-volume", driver=sources.VSPHERE, field="vsphere_volume",
        to_csi=sources.vsphere_to_csi, from_csi=sources.vsphere_from_csi, inline_name=_driver_and_handle,
        inline_modes=_read_write_once,
    ),
    Translator(
        plugin="kubernetes.io/portworx-volume", driver=sources.PORTWORX, field="portworx_volume",
        to_csi=sources.portworx_to_csi, from_csi=sources.portworx_from_csi, inline_name=_driver_and_handle,
        inline_modes=_by_read_only,
    ),
)  # fmt: skip


def translator_of(spec: VolumeSpec) -> Translator | None:
    """The translator that a spec is for, or None when its type is not migrated."""
    holder: Volume | PersistentVolumeSpec | None = spec.volume
    if spec.persistent_volume is not None:
        holder = spec.persistent_volume.spec
    return next((each for each in TRANSLATORS if getattr(holder, each.field, None) is not None), None)


def to_csi(spec: VolumeSpec, *, namespace: str) -> VolumeSpec:
    """The CSI volume that an in-tree one has become; raises `Refused` when it cannot be expressed."""
    translator = translator_of(spec)
    if translator is None:
        raise Refused(f"cannot translate volume {spec.name!r}", why="its type was never rewritten to CSI")
    if spec.persistent_volume is not None:
        volume = _persistent_to_csi(translator, spec.persistent_volume)
    else:
        assert spec.volume is not None
        volume = _inline_to_csi(translator, spec.volume, namespace)
    inline = spec.persistent_volume is None
    return VolumeSpec(persistent_volume=volume, read_only=spec.read_only, migrated=True, written_in_pod=inline)


def _persistent_to_csi(translator: Translator, volume: PersistentVolume) -> PersistentVolume:
    source = getattr(volume.spec, translator.field)
    claim = volume.spec.claim_ref
    origin = sources.Origin(
        name=volume.metadata.name,
        namespace=claim.namespace if claim is not None else "",
        labels=volume.metadata.labels,
        annotations=volume.metadata.annotations,
    )
    spec = structs.replace(volume.spec, **{translator.field: None}, csi=translator.to_csi(source, origin))
    if translator.driver == sources.GCE:
        spec = structs.replace(spec, access_modes=_normalised_modes(spec.access_modes))
    if translator.driver in TOPOLOGY_KEYS:
        spec = structs.replace(spec, node_affinity=topology_to_csi(translator.driver, volume))
    return structs.replace(volume, spec=spec)


def _normalised_modes(modes: tuple[str, ...]) -> tuple[str, ...]:
    """Google's disks are written by one node at a time, or read by many."""
    if not modes:
        return ("ReadWriteOnce",)
    return ("ReadOnlyMany",) if set(modes) == {"ReadOnlyMany"} else ("ReadWriteOnce",)


def _inline_to_csi(translator: Translator, volume: Volume, namespace: str) -> PersistentVolume:
    source = getattr(volume, translator.field)
    origin = sources.Origin(name=volume.name, namespace=namespace or "default", inline=True)
    csi = translator.to_csi(source, origin)
    return PersistentVolume(
        metadata=ObjectMeta(name=translator.inline_name(source, csi)),
        spec=PersistentVolumeSpec(access_modes=translator.inline_modes(source), volume_mode="Filesystem", csi=csi),
    )


def to_in_tree(volume: PersistentVolume) -> PersistentVolume:
    """The in-tree volume that a CSI one was, for its names; raises `Refused` for drivers that never were in-tree."""
    csi = volume.spec.csi
    translator = next((each for each in TRANSLATORS if csi is not None and each.driver == csi.driver), None)
    if translator is None or csi is None:
        raise Refused(f"cannot translate volume {volume.metadata.name!r}", why="its driver has no in-tree ancestor")
    return structs.replace(
        volume, spec=structs.replace(volume.spec, csi=None, **{translator.field: translator.from_csi(csi)})
    )
