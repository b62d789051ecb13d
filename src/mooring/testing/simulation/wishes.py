"""Pods as short as a script needs them, and the Kubernetes pods they stand for."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.pod import Container, Pod, PodSecurityContext, PodSpec, VolumeDevice, VolumeMount
from mooring.kube.objects.volumes import (
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIProjection,
    DownwardAPIVolumeFile,
    DownwardAPIVolumeSource,
    EmptyDirVolumeSource,
    FlexVolumeSource,
    HostPathVolumeSource,
    KeyToPath,
    ObjectFieldSelector,
    PersistentVolumeClaimVolumeSource,
    ProjectedVolumeSource,
    SecretProjection,
    SecretVolumeSource,
    Volume,
    VolumeProjection,
)
from mooring.testing.simulation.disks import DISKS, NAMESPACE, PLAIN, Disk


class Wish(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """A volume, or a part of a projected one."""


class EmptyDirWish(Wish, frozen=True, kw_only=True, tag="emptyDir"):
    name: str
    memory: bool = False


class HostPathWish(Wish, frozen=True, kw_only=True, tag="hostPath"):
    name: str
    path: str
    check: str = ""  # the hostPath type


class ObjectWish(Wish, frozen=True, kw_only=True, tag="object"):
    """Files of a ConfigMap or Secret: all keys, or just the `items` (key → path)."""

    kind: str
    object: str
    name: str = ""  # of the volume; a part of a projected one has none
    optional: bool = False
    items: Mapping[str, str] = {}
    mode: int | None = None


class DownwardWish(Wish, frozen=True, kw_only=True, tag="downwardAPI"):
    """Files that show fields of the pod (path → fieldPath)."""

    items: Mapping[str, str]
    name: str = ""
    mode: int | None = None


class ProjectedWish(Wish, frozen=True, kw_only=True, tag="projected"):
    name: str
    parts: tuple[ObjectWish | DownwardWish, ...]
    mode: int | None = None


class DiskWish(Wish, frozen=True, kw_only=True, tag="disk"):
    """A disk of a simulated driver, by its claim. A pod may have the same disk under several names."""

    name: str
    disk: str

    @property
    def of(self) -> Disk:
        return DISKS[self.disk]


class InlineWish(Wish, frozen=True, kw_only=True, tag="inline"):
    """A volume of the plain simulated driver that is written in the pod, and is the pod's own."""

    name: str


DriverWish = DiskWish | InlineWish
VolumeWish = EmptyDirWish | HostPathWish | ObjectWish | DownwardWish | ProjectedWish | DiskWish | InlineWish


class PodWish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: str
    uid: str
    volumes: tuple[VolumeWish, ...] = ()
    label: str = ""
    fs_group: int | None = None

    def volume(self, name: str) -> VolumeWish | None:
        return next((volume for volume in self.volumes if volume.name == name), None)


def make_pod(wish: PodWish) -> Pod:
    """The pod that a source would tell of: one container that uses every volume."""
    raw = [volume.name for volume in wish.volumes if isinstance(volume, DiskWish) and volume.of.block]
    devices = tuple(VolumeDevice(name=name, device_path=f"/dev/{name}") for name in raw)
    names = [volume.name for volume in wish.volumes if volume.name not in raw]
    mounts = tuple(VolumeMount(name=name, mount_path=f"/{name}") for name in names)
    group = wish.fs_group
    return Pod(
        metadata=ObjectMeta(name=wish.name, namespace=NAMESPACE, uid=wish.uid, labels={"app": wish.label}),
        spec=PodSpec(
            containers=(Container(name="main", volume_mounts=mounts, volume_devices=devices),),
            volumes=tuple(make_volume(volume) for volume in wish.volumes),
            security_context=PodSecurityContext(fs_group=group) if group is not None else None,
        ),
    )


def make_volume(wish: VolumeWish) -> Volume:
    match wish:
        case EmptyDirWish():
            return Volume(name=wish.name, empty_dir=EmptyDirVolumeSource(medium="Memory" if wish.memory else ""))
        case HostPathWish():
            return Volume(name=wish.name, host_path=HostPathVolumeSource(path=wish.path, type=wish.check))
        case DownwardWish():
            source = DownwardAPIVolumeSource(items=_files(wish), default_mode=wish.mode)
            return Volume(name=wish.name, downward_api=source)
        case ProjectedWish():
            parts = tuple(_projection(part) for part in wish.parts)
            return Volume(name=wish.name, projected=ProjectedVolumeSource(sources=parts, default_mode=wish.mode))
        case ObjectWish():
            return _object_volume(wish)
        case DiskWish():
            claim = PersistentVolumeClaimVolumeSource(claim_name=wish.disk)
            return Volume(name=wish.name, persistent_volume_claim=claim)
        case InlineWish():
            return Volume(name=wish.name, flex_volume=FlexVolumeSource(driver=PLAIN))


def _object_volume(wish: ObjectWish) -> Volume:
    if wish.kind == "Secret":
        secret = SecretVolumeSource(
            secret_name=wish.object, optional=wish.optional, items=_items(wish), default_mode=wish.mode
        )
        return Volume(name=wish.name, secret=secret)
    source = ConfigMapVolumeSource(name=wish.object, optional=wish.optional, items=_items(wish), default_mode=wish.mode)
    return Volume(name=wish.name, config_map=source)


def _projection(part: ObjectWish | DownwardWish) -> VolumeProjection:
    if isinstance(part, DownwardWish):
        return VolumeProjection(downward_api=DownwardAPIProjection(items=_files(part)))
    if part.kind == "Secret":
        return VolumeProjection(secret=SecretProjection(name=part.object, optional=part.optional, items=_items(part)))
    return VolumeProjection(
        config_map=ConfigMapProjection(name=part.object, optional=part.optional, items=_items(part))
    )


def _items(wish: ObjectWish) -> tuple[KeyToPath, ...]:
    return tuple(KeyToPath(key=key, path=path) for key, path in wish.items.items())


def _files(wish: DownwardWish) -> tuple[DownwardAPIVolumeFile, ...]:
    return tuple(
        DownwardAPIVolumeFile(path=path, field_ref=ObjectFieldSelector(field_path=field))
        for path, field in wish.items.items()
    )
