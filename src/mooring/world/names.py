"""Names: of volumes, pods and plugins, and how they are spelled on disk."""

from __future__ import annotations

from typing import NewType

VolumeName = NewType("VolumeName", str)
"""Unique on this node: `<plugin>/<what the plugin calls it>`, or `<plugin>/<pod UID>-<inner name>`."""

PodUid = NewType("PodUid", str)
PluginName = NewType("PluginName", str)
"""Qualified: `kubernetes.io/empty-dir`."""


def shared_volume_name(plugin: PluginName, backing: str) -> VolumeName:
    """The name of a volume that pods share because it is attached or staged once per node."""
    if not backing:
        raise ValueError(f"plugin {plugin!r} gave no name to the volume")
    return VolumeName(f"{plugin}/{backing}")


def private_volume_name(plugin: PluginName, pod: PodUid, inner_name: str) -> VolumeName:
    """The name of a volume that belongs to one pod alone."""
    return VolumeName(f"{plugin}/{pod}-{inner_name}")


def split_volume_name(name: VolumeName) -> tuple[PluginName, str]:
    """Plugin and backing name; the backing name may contain slashes."""
    parts = name.split("/", 2)
    if len(parts) < 3:
        raise ValueError(f"{name!r} is no unique volume name: it has fewer than three parts")
    return PluginName(f"{parts[0]}/{parts[1]}"), parts[2]
