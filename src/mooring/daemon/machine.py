"""What this machine is, as its Node object tells it."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable

from mooring import __version__
from mooring.controllers.node_object import Amounts, MachineFacts
from mooring.daemon.node_facts import disk_size, machine_address, machine_memory, node_name
from mooring.settings import Settings

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7l": "arm", "armv6l": "arm", "i686": "386"}
"""Where Go and the kernel name one and the same machine differently."""


def machine_facts(
    settings: Settings, *, boot_id: str, runtime_version: str = "", address: str = ""
) -> Callable[[], MachineFacts]:
    """A look-up of what the machine is; its address and the size of its disk are looked at anew each time.

    `address` is the one that others reach it at, when it is not the one that it sends from.
    """
    name, uname = node_name(settings), os.uname()
    memory, cpu_milli = machine_memory(), 1000 * (os.cpu_count() or 1)
    machine_id = _first_line("/etc/machine-id")

    def look() -> MachineFacts:
        disk = disk_size(settings.root)
        return MachineFacts(
            name=name,
            hostname=name,  # a name that is set counts as the machine's own, as with a kubelet
            address=address or machine_address(),
            capacity=Amounts(cpu_milli=cpu_milli, memory=memory, ephemeral_storage=disk),
            allocatable=Amounts(
                cpu_milli=settings.allocatable_cpu_milli or cpu_milli,
                memory=settings.allocatable_memory or memory,
                ephemeral_storage=disk,
            ),
            version=__version__,
            architecture=_ARCHITECTURES.get(uname.machine, uname.machine),
            machine_id=machine_id,
            system_uuid=_first_line("/sys/class/dmi/id/product_uuid") or machine_id,
            boot_id=boot_id,
            kernel_version=uname.release,
            os_image=_os_image(),
            runtime_version=runtime_version,
        )

    return look


def _os_image() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        return ""


def _first_line(path: str) -> str:
    """What a small file says; nothing when it is missing or not for us to read."""
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            return stream.readline().strip()
    except OSError:
        return ""
