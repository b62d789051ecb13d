"""What a pod's spec says about its volumes: who uses them, as whom, and how large they may grow."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from mooring.errors import Refused
from mooring.kube.objects.pod import Container, Pod, Quantities
from mooring.kube.objects.volumes import Volume
from mooring.kube.quantity import parse_quantity

ON_ROOT_MISMATCH = "OnRootMismatch"
FS_GROUP_ANNOTATION = "mooring.dev/fsgroup"


class VolumeUse(msgspec.Struct, frozen=True):
    """The volume names that containers of any kind use, as directories and as devices."""

    mounts: frozenset[str]
    devices: frozenset[str]

    @property
    def names(self) -> frozenset[str]:
        return self.mounts | self.devices


def volume_use(pod: Pod) -> VolumeUse:
    """Which of a pod's volumes its containers use; the others are never set up."""
    mounts: set[str] = set()
    devices: set[str] = set()
    for container in pod.spec.all_containers():
        mounts.update(mount.name for mount in container.volume_mounts)
        devices.update(device.name for device in container.volume_devices)
    return VolumeUse(frozenset(mounts), frozenset(devices))


def fs_user(pod: Pod) -> int | None:
    """The user all containers run as, if every one of them says so and all say the same."""
    context = pod.spec.security_context
    default = context.run_as_user if context is not None else None
    users: set[int | None] = set()
    for container in pod.spec.all_containers():
        own = container.security_context.run_as_user if container.security_context is not None else None
        users.add(own if own is not None else default)
    return users.pop() if len(users) == 1 else None


def fs_group(pod: Pod) -> int | None:
    context = pod.spec.security_context
    return context.fs_group if context is not None else None


class FsGroupMode(enum.Enum):
    """How a pod's volumes that outlive it get its fsGroup, as its annotation says."""

    TRUST_ROOT = "trust-root"  # a root that is right speaks for all below it, whatever the change policy
    IDMAPPED = "idmapped"  # no file is changed: the mount shows the group of the root as the pod's


def fs_group_mode(pod: Pod) -> FsGroupMode | None:
    """What a pod asks for, or None; `Refused` when it asks for something that does not exist."""
    asked = pod.metadata.annotations.get(FS_GROUP_ANNOTATION)
    if asked is None:
        return None
    try:
        return FsGroupMode(asked)
    except ValueError:
        known = " or ".join(repr(mode.value) for mode in FsGroupMode)
        raise Refused(
            f"cannot make sense of the annotation {FS_GROUP_ANNOTATION!r} of pod {pod.key!r}",
            why=f"its value {asked!r} is not known",
            next_step=f"Write {known}, or take it away",
        ) from None


def fs_group_policy(pod: Pod) -> str | None:
    """The change policy that holds: a pod that trusts the root has it looked at first, whatever it says else."""
    if fs_group_mode(pod) is FsGroupMode.TRUST_ROOT:
        return ON_ROOT_MISMATCH
    context = pod.spec.security_context
    return context.fs_group_change_policy if context is not None else None


def memory_limit(pod: Pod) -> int | None:
    """The memory limit of the pod's control group in bytes; None unless every container has one."""
    overall = pod.spec.resources
    if overall is not None and "memory" in overall.limits:
        return _with_overhead(pod, _amount(overall.limits, "memory"), "memory") or None
    containers = [*pod.spec.containers, *pod.spec.init_containers]
    if not containers or not all(_amount(container.resources.limits, "memory") for container in containers):
        return None
    return _pod_total(pod, "memory")


def _pod_total(pod: Pod, resource: str) -> int:
    """Regular containers and sidecars together, or the largest init container beside the sidecars before it."""
    total = sum(_amount(container.resources.limits, resource) for container in pod.spec.containers)
    sidecars, largest = 0, 0
    for container in pod.spec.init_containers:
        amount = _amount(container.resources.limits, resource)
        if _is_sidecar(container):
            sidecars += amount
            largest = max(largest, sidecars)
        else:
            largest = max(largest, sidecars + amount)
    return _with_overhead(pod, max(total + sidecars, largest), resource)


def _with_overhead(pod: Pod, limit: int, resource: str) -> int:
    """A limit and what the pod's sandbox takes beside its containers; no limit stays none."""
    return limit + _amount(pod.spec.overhead, resource) if limit else 0


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def size_limit(pod: Pod, volume: Volume) -> int:
    """How many bytes a volume on the node's own disk may take; 0 is no limit.

    Only emptyDir on disk, configMap and gitRepo count: the pod's ephemeral-storage limits together, or a smaller
    sizeLimit of the volume itself.
    """
    empty_dir = volume.empty_dir
    on_disk = empty_dir is not None and empty_dir.medium == ""
    if not on_disk and volume.config_map is None and volume.git_repo is None:
        return 0
    limit = ephemeral_storage_limit(pod)
    own = _positive(empty_dir.size_limit) if empty_dir is not None else 0
    return own if own and (limit == 0 or own < limit) else limit


def ephemeral_storage_limit(pod: Pod) -> int:
    """How many bytes all that a pod stores on the node's own disk may take together; 0 is no limit."""
    return _pod_total(pod, "ephemeral-storage")


def _amount(quantities: Quantities, resource: str) -> int:
    return _positive(quantities.get(resource))


def _positive(text: str | int | float | None) -> int:
    return max(0, parse_quantity(text).value) if text is not None else 0


def containers_by_name(pod: Pod, containers: Iterable[Container] | None = None) -> dict[str, Container]:
    """Containers that a downwardAPI file may name: regular and init ones."""
    chosen = containers if containers is not None else [*pod.spec.init_containers, *pod.spec.containers]
    return {container.name: container for container in chosen}
