"""What sysfs and /dev tell of disks on a network: iSCSI sessions, devices of a LUN, and multipath maps over them.

Everything is read through the `Host`, below roots that can be set, and is called with `Risk.HANGING`.
"""

from __future__ import annotations

import fnmatch
import logging
import re
from collections.abc import Iterator

from mooring.errors import MooringError
from mooring.host.interface import Host
from mooring.host.programs import ProgramFailed
from mooring.host.resolution import resolved

log = logging.getLogger(__name__)

_HOST = re.compile(r"host(\d+)")
_PROGRAM_DEADLINE = 60.0


class ScsiDevices:
    """The disks of one machine. `sys` and `dev` are where the kernel shows them."""

    def __init__(self, host: Host, *, sys: str = "/sys", dev: str = "/dev") -> None:
        self._host = host
        self._sys = sys
        self._dev = dev

    # -- iSCSI ---------------------------------------------------------------------------------------------------
    def portal_hosts(self, iqn: str) -> dict[str, int]:
        """By `address:port`, the number of the SCSI host that a session with the target goes through."""
        found: dict[str, int] = {}
        for number, session in self._sessions(iqn):
            for connection in self._names(session, "connection*"):
                facts = f"{session}/{connection}/iscsi_connection/{connection}"
                for prefix in ("", "persistent_"):
                    address, port = self._text(f"{facts}/{prefix}address"), self._text(f"{facts}/{prefix}port")
                    if address and port:
                        found[f"{_bracketed(address)}:{port}"] = number
        return found

    def devices_of_lun(self, iqn: str, lun: int) -> list[str]:
        """The devices (`/dev/sdX`) that sessions with a target show for one of its LUNs."""
        found: list[str] = []
        for number, session in self._sessions(iqn):
            place = f"{session}/target{number}:0:0/{number}:0:0:{lun}/block"
            found.extend(f"{self._dev}/{name}" for name in self._names(place))
        return sorted(set(found))

    def _sessions(self, iqn: str) -> Iterator[tuple[int, str]]:
        hosts = f"{self._sys}/class/iscsi_host"
        for name in self._names(hosts, "host*"):
            match = _HOST.fullmatch(name)
            if match is None:
                continue
            for session in self._names(f"{hosts}/{name}/device", "session*"):
                place = f"{hosts}/{name}/device/{session}"
                if self._text(f"{place}/iscsi_session/{session}/targetname") == iqn:
                    yield int(match[1]), place

    # -- scanning ------------------------------------------------------------------------------------------------
    def scan_lun(self, host_number: int, lun: int) -> None:
        """Let one SCSI host look for one LUN, and for nothing else."""
        self._host.write_into(f"{self._sys}/class/scsi_host/host{host_number}/scan", f"0 0 {lun}".encode())

    def scan_everything(self) -> None:
        """Let every SCSI host look for all it can find; one that cannot is skipped."""
        place = f"{self._sys}/class/scsi_host"
        for name in self._names(place):
            try:
                self._host.write_into(f"{place}/{name}/scan", b"- - -")
            except OSError as error:
                log.warning("cannot scan %s: %s", name, error.strerror)

    # -- devices -------------------------------------------------------------------------------------------------
    def find(self, directory: str, pattern: str) -> str | None:
        """The first name in `/dev/disk/<directory>` that a shell pattern fits, as a path."""
        place = f"{self._dev}/disk/{directory}"
        names = self._names(place, pattern)
        return f"{place}/{names[0]}" if names else None

    def names(self, directory: str) -> list[str]:
        """All names in `/dev/disk/<directory>`."""
        return self._names(f"{self._dev}/disk/{directory}")

    def link(self, directory: str, name: str) -> str:
        return f"{self._dev}/disk/{directory}/{name}"

    def device_behind(self, path: str) -> str | None:
        """The device that a link such as those in `/dev/disk` leads to; None when it leads nowhere."""
        try:
            return resolved(self._host, path)
        except FileNotFoundError:
            return None

    def multipath_parent(self, path: str) -> str | None:
        """The multipath device (`/dev/dm-N`) that a device is a path of; a multipath device is its own."""
        device = self.device_behind(path)
        if device is None:
            return None
        if self.is_multipath(device):
            return device
        name = device.removeprefix(f"{self._dev}/")
        for map_name in self._names(f"{self._sys}/block", "dm-*"):
            if self._host.look(f"{self._sys}/block/{map_name}/slaves/{name}") is not None:
                return f"{self._dev}/{map_name}"
        return None

    def is_multipath(self, device: str) -> bool:
        return device.startswith(f"{self._dev}/dm-")

    def slaves(self, device: str) -> list[str]:
        """The paths of a multipath device."""
        name = device.removeprefix(f"{self._dev}/")
        return [f"{self._dev}/{slave}" for slave in self._names(f"{self._sys}/block/{name}/slaves")]

    def flush_map(self, device: str) -> None:
        """Take a multipath device apart. `ProgramFailed` when it is in use."""
        command = ["multipath", "-f", device]
        result = self._host.run_program(command, deadline=_PROGRAM_DEADLINE)
        if result.status != 0:
            raise ProgramFailed("multipath", device, result)

    def flush_buffers(self, device: str) -> None:
        """Let what was written to a device arrive there; a device that is gone has nothing to say."""
        try:
            result = self._host.run_program(["blockdev", "--flushbufs", device], deadline=_PROGRAM_DEADLINE)
        except MooringError as error:
            log.warning("cannot flush %s: %s", device, error)
            return
        if result.status != 0:
            log.warning("cannot flush %s: exit status %d", device, result.status)

    def delete(self, device: str) -> None:
        """Let the kernel forget a device. One that is gone already is forgotten."""
        name = device.removeprefix(f"{self._dev}/")
        try:
            self._host.write_into(f"{self._sys}/block/{name}/device/delete", b"1")
        except OSError as error:
            log.warning("cannot delete %s: %s", device, error.strerror)

    # -- reading -------------------------------------------------------------------------------------------------
    def _names(self, directory: str, pattern: str = "*") -> list[str]:
        try:
            return [name for name in self._host.names_in(directory) if fnmatch.fnmatchcase(name, pattern)]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _text(self, path: str) -> str:
        """The text of an attribute; nothing when it cannot be read, as those of a session that ends."""
        try:
            return self._host.read_file(path).decode("utf-8", "replace").strip()
        except OSError:
            return ""


def _bracketed(address: str) -> str:
    return f"[{address}]" if ":" in address and not address.startswith("[") else address
