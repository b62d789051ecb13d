"""What a container sees as the rows that `mooring mounts -o json` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mooring.manager.container_mounts import ContainerView

Row = dict[str, Any]


def mount_rows(view: ContainerView) -> Iterator[Row]:
    """One row for each mount of a container, then one for each device."""
    for mount in view.mounts:
        yield {
            "container": mount.container,
            "volume": mount.name,
            "host_path": mount.host_path,
            "container_path": mount.container_path,
            "read_only": mount.read_only,
            "recursive_read_only": mount.recursive_read_only,
            "propagation": mount.propagation.value,
            "device": None,
            "permissions": None,
            "image": mount.image,
            "image_sub_path": mount.image_sub_path or None,
        }
    for device in view.devices:
        yield {
            "container": device.container,
            "volume": device.name,
            "host_path": device.host_path,
            "container_path": device.container_path,
            "read_only": device.permissions == "r",
            "recursive_read_only": False,
            "propagation": None,
            "device": {"major": device.major, "minor": device.minor},
            "permissions": device.permissions,
            "image": None,
            "image_sub_path": None,
        }
