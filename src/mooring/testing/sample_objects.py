"""Pods, claims and volumes for tests, each in one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mooring.kube.objects.meta import ObjectMeta, ObjectReference
from mooring.kube.objects.pod import Container, Pod, PodSecurityContext, PodSpec, VolumeDevice, VolumeMount
from mooring.kube.objects.storage import (
    LocalVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
)
from mooring.kube.objects.volumes import (
    EmptyDirVolumeSource,
    FlexVolumeSource,
    PersistentVolumeClaimVolumeSource,
    Volume,
)

NAMESPACE = "default"
SCRIPTED = "test/scripted"


def pod(
    name: str,
    *volumes: Volume,
    used: Iterable[str] | None = None,
    devices: Iterable[str] = (),
    security: PodSecurityContext | None = None,
    uid: str = "",
) -> Pod:
    """A pod (with UID `uid-<name>` unless said otherwise) whose one container uses all its volumes, or those named.

    `devices` are used as raw devices.
    """
    raw_names = frozenset(devices)
    raw = tuple(VolumeDevice(name=each, device_path=f"/dev/{each}") for each in sorted(raw_names))
    names = [volume.name for volume in volumes] if used is None else list(used)
    mounts = tuple(VolumeMount(name=each, mount_path=f"/{each}") for each in names if each not in raw_names)
    return Pod(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE, uid=uid or f"uid-{name}"),
        spec=PodSpec(
            volumes=volumes,
            containers=(Container(name="main", volume_mounts=mounts, volume_devices=raw),),
            security_context=security,
        ),
    )


def scripted(name: str, *, driver: str = SCRIPTED, **options: str) -> Volume:
    """A volume that a `ScriptedPlugin` serves; volumes with the same `backing` are the same one."""
    return Volume(name=name, flex_volume=FlexVolumeSource(driver=driver, options=options))


def empty_dir(name: str, *, memory: bool = False) -> Volume:
    return Volume(name=name, empty_dir=EmptyDirVolumeSource(medium="Memory" if memory else ""))


def claimed(name: str, claim: str, *, read_only: bool = False) -> Volume:
    """A volume that uses a claim."""
    return Volume(
        name=name, persistent_volume_claim=PersistentVolumeClaimVolumeSource(claim_name=claim, read_only=read_only)
    )


def claim(name: str, *, volume: str = "", phase: str = "Bound") -> PersistentVolumeClaim:
    """A claim with UID `uid-<name>`, bound to a volume (`pv-<name>` unless said otherwise)."""
    return PersistentVolumeClaim(
        metadata=ObjectMeta(name=name, namespace=NAMESPACE, uid=f"uid-{name}"),
        spec=PersistentVolumeClaimSpec(volume_name=volume or f"pv-{name}"),
        status=PersistentVolumeClaimStatus(phase=phase),
    )


def persistent_volume(
    claim_name: str,
    *,
    name: str = "",
    access_modes: tuple[str, ...] = ("ReadWriteOnce",),
    mode: str | None = "Filesystem",
    annotations: Mapping[str, str] | None = None,
    driver: str = SCRIPTED,
    **options: str,
) -> PersistentVolume:
    """A PersistentVolume of a `ScriptedPlugin`, bound to a claim."""
    return PersistentVolume(
        metadata=ObjectMeta(name=name or f"pv-{claim_name}", annotations=annotations or {}),
        spec=PersistentVolumeSpec(
            access_modes=access_modes,
            volume_mode=mode,
            claim_ref=ObjectReference(namespace=NAMESPACE, name=claim_name, uid=f"uid-{claim_name}"),
            flex_volume=FlexVolumeSource(driver=driver, options=options),
        ),
    )


def local_volume(
    claim_name: str,
    path: str,
    *,
    mode: str = "Filesystem",
    access_modes: tuple[str, ...] = ("ReadWriteOnce",),
    fs_type: str | None = None,
    mount_options: tuple[str, ...] = (),
) -> PersistentVolume:
    """A local PersistentVolume called `pv-<claim>`, bound to a claim."""
    return PersistentVolume(
        metadata=ObjectMeta(name=f"pv-{claim_name}"),
        spec=PersistentVolumeSpec(
            access_modes=access_modes,
            volume_mode=mode,
            mount_options=mount_options,
            claim_ref=ObjectReference(namespace=NAMESPACE, name=claim_name, uid=f"uid-{claim_name}"),
            local=LocalVolumeSource(path=path, fs_type=fs_type),
        ),
    )
