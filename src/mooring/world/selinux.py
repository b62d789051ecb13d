"""The SELinux label that a volume is mounted with, instead of each of its files being labelled. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from mooring.errors import Refused
from mooring.kube.objects.pod import Pod, SELinuxOptions
from mooring.world.spec import VolumeSpec

_USER, _ROLE, _LEVEL = "system_u", "object_r", "s0"
_FILE_TYPES = {"": "container_file_t", "container_t": "container_file_t"}
"""The types of files, by those of processes; a type that is not here is one of files already."""


def mount_label(pod: Pod, volumes: Collection[str], spec: VolumeSpec) -> str:
    """The label for a volume that a pod has under these names; nothing when it is not mounted with one.

    Only a volume that a single pod can use is: its files need no other label. `Refused` when the pod's containers do
    not agree.
    """
    context = pod.spec.security_context
    if not spec.is_exclusive or (context is not None and context.se_linux_change_policy == "Recursive"):
        return ""
    labels = sorted({_file_label(options) for options in _options(pod, volumes)})
    if len(labels) > 1:
        why = f"its containers ask for several SELinux labels: {', '.join(labels)}"
        next_step = "Give them the same seLinuxOptions, or the pod the seLinuxChangePolicy Recursive"
        raise Refused(f"cannot mount volume {spec.name!r}", why=why, next_step=next_step)
    return labels[0] if labels else ""


def _options(pod: Pod, volumes: Collection[str]) -> Iterator[SELinuxOptions]:
    """What the containers ask for that have the volume as a directory."""
    context = pod.spec.security_context
    default = context.se_linux_options if context is not None else None
    for container in pod.spec.all_containers():
        if any(mount.name in volumes for mount in container.volume_mounts):
            own = container.security_context.se_linux_options if container.security_context is not None else None
            chosen = own if own is not None else default
            if chosen is not None:
                yield chosen


def _file_label(options: SELinuxOptions) -> str:
    kind = _FILE_TYPES.get(options.type, options.type)
    return f"{options.user or _USER}:{options.role or _ROLE}:{kind}:{options.level or _LEVEL}"
