"""What each container of a pod should see: mounts and devices, worked out from the pod and its mounted volumes.

Everything here is decided without touching the machine; `sub_paths.py` then makes the sub-paths real.
"""

from __future__ import annotations

import enum
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from mooring.errors import Refused
from mooring.host.paths import Paths
from mooring.kube.objects.pod import Container, Pod, VolumeDevice, VolumeMount
from mooring.manager.environment import EnvironmentSources, work_out_environment
from mooring.manager.expansion import expand_completely
from mooring.plugins.interface import Attributes, Mounter
from mooring.world.names import PluginName, PodUid, VolumeName


@dataclass(frozen=True, slots=True, kw_only=True)
class MountedVolume:
    """A volume that containers can use now."""

    name: VolumeName
    inner_name: str
    plugin: PluginName
    path: str
    mounter: Mounter
    attributes: Attributes
    read_only: bool
    is_block: bool = False


class Propagation(enum.Enum):
    """Whether mounts made later on one side are seen on the other."""

    PRIVATE = "private"
    RSLAVE = "rslave"  # the container sees those of the host
    RSHARED = "rshared"  # and the host sees those of the container


@dataclass(frozen=True, slots=True, kw_only=True)
class SubPath:
    """A path inside a volume that is bound to a place of its own before a container may see it."""

    root: str
    relative: str
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerMount:
    """A volume, or a path inside it, at a place in a container. One of `host_path` and `image` is set."""

    container: str
    name: str  # of the volume in the pod
    host_path: str | None
    container_path: str
    read_only: bool
    recursive_read_only: bool
    propagation: Propagation
    selinux_relabel: bool
    sub_path: SubPath | None = None  # what is to be bound at `host_path`
    image: str | None = None  # the reference of an image that the container runtime mounts itself
    image_sub_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerDevice:
    """A block volume as a device in a container. Its numbers are known once the machine was asked."""

    container: str
    name: str
    host_path: str
    container_path: str
    permissions: str  # as a control group spells them: `r` or `mrw`
    major: int = 0
    minor: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerView:
    """All that one container sees of its pod's volumes."""

    container: str
    mounts: tuple[ContainerMount, ...]
    devices: tuple[ContainerDevice, ...]


def work_out(
    pod: Pod,
    volumes: Mapping[str, MountedVolume],
    paths: Paths,
    sources: EnvironmentSources,
    *,
    recursive_read_only: bool,
) -> list[ContainerView]:
    """The view of every container: init, regular and ephemeral ones, each with its mounts as they are declared.

    `recursive_read_only` says whether the container runtime can make mounts recursively read-only. `Refused`, which
    names volume and container, when one of them cannot be had.
    """
    return [
        ContainerView(
            container=container.name,
            mounts=tuple(
                _mount(pod, container, index, volumes, paths, sources, recursive_read_only)
                for index in range(len(container.volume_mounts))
            ),
            devices=tuple(_device(pod, container, use, volumes, paths) for use in container.volume_devices),
        )
        for container in pod.spec.all_containers()
    ]


def _refusal(volume: str, container: Container, why: str, next_step: str = "") -> Refused:
    what = f"cannot show volume {volume!r} to container {container.name!r}"
    return Refused(what, why=why, next_step=next_step)


# -- mounts ------------------------------------------------------------------------------------------------------
def _mount(
    pod: Pod,
    container: Container,
    index: int,
    volumes: Mapping[str, MountedVolume],
    paths: Paths,
    sources: EnvironmentSources,
    supported: bool,
) -> ContainerMount:
    mount = container.volume_mounts[index]
    volume = _usable(mount.name, container, volumes)
    if volume.is_block:
        raise _refusal(mount.name, container, "it is a block device", "Use it in volumeDevices")
    relative = _sub_path(pod, container, mount, sources)
    image = next((each.image for each in pod.spec.volumes if each.name == mount.name), None)
    host_path: str | None = None
    sub_path: SubPath | None = None
    if image is None:
        if not volume.path:
            raise _refusal(mount.name, container, "it has no path on this machine")
        host_path = volume.path
        if relative:
            host_path = paths.pod_subpath(pod.metadata.uid, volume.inner_name, container.name, index)
            sub_path = SubPath(root=volume.path, relative=relative, target=host_path)
    return ContainerMount(
        container=container.name,
        name=mount.name,
        host_path=host_path,
        container_path=_absolute(mount.mount_path),
        read_only=mount.read_only or volume.attributes.read_only or image is not None,
        recursive_read_only=is_recursive_read_only(container, mount, supported=supported),
        propagation=_propagation(container, mount),
        selinux_relabel=volume.attributes.managed and volume.attributes.relabel,
        sub_path=sub_path,
        image=image.reference if image is not None else None,
        image_sub_path=relative if image is not None else "",
    )


def _usable(name: str, container: Container, volumes: Mapping[str, MountedVolume]) -> MountedVolume:
    volume = volumes.get(name)
    if volume is None:
        raise _refusal(name, container, "it is not mounted", "`mooring explain` says why")
    return volume


def _sub_path(pod: Pod, container: Container, mount: VolumeMount, sources: EnvironmentSources) -> str:
    """The path inside the volume that a mount asks for; empty for the volume itself."""
    text = mount.sub_path
    if mount.sub_path_expr:
        found = work_out_environment(pod, container, sources)
        text, missing = expand_completely(mount.sub_path_expr, found.values)
        if missing:
            why = f"missing value for {', '.join(missing)}"
            next_step = str(found.problems[0]) if found.problems else "Give each of them a value in the container's env"
            raise _refusal(mount.name, container, why, next_step.rstrip("."))
    if text.startswith("/"):
        raise _refusal(mount.name, container, f"sub-path {text!r} must not be an absolute path")
    if ".." in text.split("/"):
        raise _refusal(mount.name, container, f"sub-path {text!r} must not contain '..'")
    return text


def _absolute(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")


_PROPAGATIONS = {
    None: Propagation.PRIVATE,
    "None": Propagation.PRIVATE,
    "HostToContainer": Propagation.RSLAVE,
    "Bidirectional": Propagation.RSHARED,
}


def _propagation(container: Container, mount: VolumeMount) -> Propagation:
    found = _PROPAGATIONS.get(mount.mount_propagation)
    if found is None:
        raise _refusal(mount.name, container, f"invalid mountPropagation mode: {mount.mount_propagation!r}")
    return found


def is_recursive_read_only(container: Container, mount: VolumeMount, *, supported: bool) -> bool:
    """Whether the mounts below a volume are read-only too; `Refused` when that is asked for and cannot be."""
    mode = mount.recursive_read_only
    if mode in (None, "Disabled"):
        return False
    if mode not in ("IfPossible", "Enabled"):
        raise _refusal(mount.name, container, f"unknown recursiveReadOnly mode {mode!r}")
    if not mount.read_only:
        raise _refusal(mount.name, container, "recursiveReadOnly needs readOnly", "Write `readOnly: true` beside it")
    if mount.mount_propagation not in (None, "None"):
        why = f"recursiveReadOnly excludes mountPropagation {mount.mount_propagation!r}"
        raise _refusal(mount.name, container, why, "Keep one of the two")
    if mode == "Enabled" and not supported:
        why = "the container runtime cannot make mounts recursively read-only"
        raise _refusal(mount.name, container, why, "Write IfPossible, or use another runtime")
    return supported


# -- devices -----------------------------------------------------------------------------------------------------
def _device(
    pod: Pod, container: Container, use: VolumeDevice, volumes: Mapping[str, MountedVolume], paths: Paths
) -> ContainerDevice:
    if not use.device_path.startswith("/"):
        raise _refusal(use.name, container, f"device path {use.device_path!r} must be an absolute path")
    volume = _usable(use.name, container, volumes)
    if not volume.is_block:
        raise _refusal(use.name, container, "it is not a block device", "Use it in volumeMounts")
    return ContainerDevice(
        container=container.name,
        name=use.name,
        host_path=paths.pod_device(PodUid(pod.metadata.uid), volume.plugin, volume.inner_name),
        container_path=_absolute(use.device_path),
        permissions="r" if volume.read_only else "mrw",
    )
