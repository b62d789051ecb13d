"""Whether a pod takes more of the node's own storage than it may: a pure function, in the kubelet's words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mooring.kube.objects.pod import Pod
from mooring.kube.objects.volumes import Volume
from mooring.kube.quantity import parse_quantity
from mooring.world.pod_facts import ephemeral_storage_limit

REASON = "Evicted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Eviction:
    """Why a pod must go; `volume` is the one that grew too large, or nothing when it is all of them together."""

    message: str
    volume: str = ""


def is_limited(pod: Pod) -> bool:
    """Whether anything that a pod stores on this node has a limit."""
    return ephemeral_storage_limit(pod) > 0 or any(_size_limit(volume) for volume in pod.spec.volumes)


def is_measured(pod: Pod, volume: Volume) -> bool:
    """Whether what a volume holds counts towards a limit."""
    return _size_limit(volume) > 0 or (ephemeral_storage_limit(pod) > 0 and _is_on_disk(volume))


def eviction(pod: Pod, used: Mapping[str, int]) -> Eviction | None:
    """Why a pod must go, from the bytes in its volumes by their names; None while it keeps its limits.

    First each emptyDir by itself, in the order of the manifest, then all that is on the node's disk together.
    """
    for volume in pod.spec.volumes:
        limit = _size_limit(volume)
        if limit and used.get(volume.name, 0) > limit:
            written = volume.empty_dir.size_limit if volume.empty_dir is not None else limit
            message = f'Usage of EmptyDir volume "{volume.name}" exceeds the limit "{written}". '
            return Eviction(message=message, volume=volume.name)
    limit = ephemeral_storage_limit(pod)
    total = sum(used.get(volume.name, 0) for volume in pod.spec.volumes if _is_on_disk(volume))
    if limit and total > limit:
        message = f"Pod ephemeral local storage usage exceeds the total limit of containers {_written(limit)}. "
        return Eviction(message=message)
    return None


def _size_limit(volume: Volume) -> int:
    source = volume.empty_dir
    return max(0, parse_quantity(source.size_limit).value) if source is not None and source.size_limit else 0


def _is_on_disk(volume: Volume) -> bool:
    on_disk = volume.empty_dir is not None and volume.empty_dir.medium == ""
    return on_disk or volume.config_map is not None or volume.git_repo is not None


def _written(size: int) -> str:
    """A size in the largest unit that it is a whole number of."""
    for unit, name in ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)
