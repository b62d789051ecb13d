"""Mount points inside a read-only content volume: the runtime cannot make them, so the volume brings them along."""

from __future__ import annotations

import posixpath

from mooring.errors import Refused
from mooring.kube.objects.pod import Pod


def nested_directories(pod: Pod, volume: str) -> list[str]:
    """Relative directories that must exist in a volume because other volumes are mounted below it, sorted."""
    found: set[str] = set()
    for container in pod.spec.all_containers():
        paths = [(mount.name, _clean(mount.mount_path, volume)) for mount in container.volume_mounts]
        own = [path for name, path in paths if name == volume]
        others = sorted(path for name, path in paths if name != volume)
        for base in own:
            found.update(_directly_below(base, others))
    return sorted(found)


def _directly_below(base: str, others: list[str]) -> list[str]:
    """Paths below base, relative to it, without those below an earlier one of them."""
    prefix = base.rstrip("/") + "/"
    kept: list[str] = []
    for path in sorted(others, key=lambda each: each + "/"):
        inside = path.startswith(prefix) and path != base
        if inside and not any((path + "/").startswith(outer + "/") for outer in kept):
            kept.append(path)
    return [path[len(prefix) :] for path in kept]


def _clean(mount_path: str, volume: str) -> str:
    if mount_path.startswith("/") and "//" not in mount_path and "/." not in mount_path:
        return mount_path.rstrip("/") or "/"
    cleaned = posixpath.normpath(mount_path)
    if cleaned == ".." or cleaned.startswith("../"):
        raise Refused(
            f"cannot set up volume {volume!r}",
            why=f"invalid container mount point {mount_path}",
            next_step="Write an absolute mountPath",
        )
    return cleaned
