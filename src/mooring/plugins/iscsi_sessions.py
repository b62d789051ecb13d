"""Bringing an iSCSI disk to this node and letting it go again: sessions, devices, and multipath over them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from glob import escape
from typing import TypeVar
from weakref import WeakValueDictionary

from mooring.errors import Doubtful, MooringError, Refused
from mooring.host.interface import Host, Risk
from mooring.plugins.iscsi_admin import IscsiAdmin
from mooring.plugins.iscsi_disk import Chap, IscsiDisk
from mooring.plugins.scsi_devices import ScsiDevices

log = logging.getLogger(__name__)

T = TypeVar("T")
_ROUNDS = 5
_DEVICE_TRIES = 30
_MULTIPATH_TRIES = 10
_PAUSE = 1.0


class IscsiSessions:
    """Sessions of this node. Two volumes of one target share its sessions; a lock for each target keeps them apart."""

    def __init__(self, host: Host, devices: ScsiDevices) -> None:
        self._host = host
        self._devices = devices
        self._admin = IscsiAdmin(host)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, iqn: str) -> asyncio.Lock:
        return self._locks.setdefault(iqn, asyncio.Lock())

    # -- attaching -----------------------------------------------------------------------------------------------
    async def attach(self, disk: IscsiDisk, chap: Chap) -> str:
        """Log in at all portals and return the device. `Refused` when no session is left behind by it."""
        transport = await self._admin.transport(disk.configured_interface)
        if disk.initiator_name:
            await self._admin.clone_interface(disk)
        async with self.lock(disk.iqn):
            attempt = _Attempt(disk=disk, chap=chap, transport=transport)
            await self._find_paths(attempt)
            if not attempt.found:
                await self._give_up(attempt)
        return await self._top(list(attempt.found.values()), patient=len(disk.portals) > 1)

    async def _find_paths(self, attempt: _Attempt) -> None:
        disk = attempt.disk
        attempt.hosts = await self._look(lambda: self._devices.portal_hosts(disk.iqn))
        for number in range(_ROUNDS):
            for portal in [each for each in disk.portals if each not in attempt.found]:
                try:
                    attempt.found[portal] = await self._path(attempt, portal)
                except Refused as error:
                    attempt.problem = error
            everything = len(attempt.found) == len(disk.portals)
            if everything or not attempt.found or (len(attempt.found) >= 2 and number >= 1):
                return

    async def _path(self, attempt: _Attempt, portal: str) -> str:
        disk = attempt.disk
        if portal not in attempt.hosts:
            await self._admin.log_in(disk, portal, attempt.chap)
            attempt.hosts = await self._look(lambda: self._devices.portal_hosts(disk.iqn))
        what = f"cannot find LUN {disk.lun} of {disk.iqn!r} at {portal!r}"
        number = attempt.hosts.get(portal)
        if number is None:
            raise Refused(what, why="no SCSI host shows the session")
        if not attempt.transport:
            raise Refused(what, why=f"interface {disk.configured_interface!r} does not say which transport it uses")
        await self._look(lambda: self._devices.scan_lun(number, disk.lun))
        for tried in range(_DEVICE_TRIES):
            if tried:
                await asyncio.sleep(_PAUSE)
            path = await self._look(
                lambda: self._devices.find("by-path", path_pattern(disk, portal, attempt.transport))
            )
            if path is not None:
                return path
        raise Refused(what, why=f"no device appeared within {_DEVICE_TRIES} s", next_step="Check that the LUN exists")

    async def _give_up(self, attempt: _Attempt) -> None:
        disk, problem = attempt.disk, attempt.problem
        if disk.has_own_interface:
            await self._admin.delete_interface(disk.interface)
        what, why = f"cannot attach volume {disk.name!r}", "no portal shows the disk"
        if problem is not None:
            why = f"{problem.what}, {problem.why}"
        if await self._look(lambda: self._devices.portal_hosts(disk.iqn)):
            raise Doubtful(what, why=why)  # a session without the disk is ended when nobody wants the volume
        raise Refused(what, why=why, next_step="Check the target, and that this node may log in to it")

    # -- looking -------------------------------------------------------------------------------------------------
    async def device_of(self, disk: IscsiDisk) -> str:
        """The device of a disk that is attached, by the multipath device over it if there is one."""
        found = await self._look(lambda: self._devices.devices_of_lun(disk.iqn, disk.lun))
        if not found:
            why = "no session with its target shows it"
            raise Refused(f"cannot find the device of volume {disk.name!r}", why=why)
        return await self._top(found, patient=False)

    async def _top(self, paths: list[str], *, patient: bool) -> str:
        for tried in range(_MULTIPATH_TRIES if patient else 1):
            if tried:
                await asyncio.sleep(_PAUSE)
            for path in paths:
                parent = await self._look(partial(self._devices.multipath_parent, path))
                if parent is not None:
                    return parent
        first = paths[0]
        return await self._look(lambda: self._devices.device_behind(first)) or first

    # -- letting go ----------------------------------------------------------------------------------------------
    async def release_devices(self, disk: IscsiDisk) -> None:
        """Let the kernel forget the devices of a disk that nobody uses; `Doubtful` when somebody does."""
        await self._look(lambda: self._release_devices(disk))

    def _release_devices(self, disk: IscsiDisk) -> None:
        paths = self._devices.devices_of_lun(disk.iqn, disk.lun)
        parents = {parent for path in paths if (parent := self._devices.multipath_parent(path)) is not None}
        for device in sorted(parents or set(paths)):
            if self._host.is_device_open(device):
                raise Doubtful(
                    f"cannot let go of device {device!r}",
                    why="it is in use when it was no longer expected to be in use",
                    next_step="Find out who has it mounted or open, perhaps in another mount namespace",
                )
        for parent in sorted(parents):
            try:
                self._devices.flush_map(parent)
            except MooringError as error:
                log.warning("%s", error)
        for path in paths:
            self._devices.delete(path)

    async def log_out(self, disk: IscsiDisk) -> None:
        """End the sessions with the target of a disk, and remove the interface that was made for it."""
        for portal in dict.fromkeys(disk.portals):
            await self._admin.log_out(disk, portal)
        if disk.has_own_interface:
            await self._admin.delete_interface(disk.interface)

    async def _look(self, call: Callable[[], T]) -> T:
        return await self._host.run(call, risk=Risk.HANGING, what="look at the disks of this node")


class _Attempt:
    """What is known while a disk is being attached."""

    def __init__(self, *, disk: IscsiDisk, chap: Chap, transport: str) -> None:
        self.disk, self.chap, self.transport = disk, chap, transport
        self.hosts: dict[str, int] = {}
        self.found: dict[str, str] = {}
        self.problem: Refused | None = None


def path_pattern(disk: IscsiDisk, portal: str, transport: str) -> str:
    """The name in `/dev/disk/by-path` of a LUN, where other transports than tcp put their adapter before it."""
    address = portal.replace("[", "").replace("]", "")
    name = escape(f"ip-{address}-iscsi-{disk.iqn}-lun-{disk.lun}")
    return name if transport == "tcp" else f"pci-*-{name}"
