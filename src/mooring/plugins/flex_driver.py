"""How a FlexVolume driver is called: a program, a command with arguments, and one JSON object as its answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mooring.errors import MooringError, Refused
from mooring.host.interface import Host, Risk
from mooring.host.programs import ProgramResult

SUCCESS, NOT_SUPPORTED = "Success", "Not supported"
_DEADLINE = 110.0


class NotSupported(MooringError):
    """The driver leaves a command to mooring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a driver says of itself when it is initialised; the defaults hold for what it does not mention."""

    attach: bool = True
    selinux_relabel: bool = True
    supports_metrics: bool = False
    fs_group: bool = True
    requires_fs_resize: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A driver's answer."""

    status: str
    message: str = ""
    device: str = ""
    volume_name: str = ""
    attached: bool = False
    capabilities: Mapping[str, Any] | None = None
    new_size: int = 0


def parse_reply(output: str) -> Reply:
    """A driver's answer from all that it wrote; ValueError when that is not one JSON object. Key case is ignored."""
    found = json.loads(output)
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")
    keys = {str(key).lower(): value for key, value in found.items()}
    capabilities = keys.get("capabilities")
    size = keys.get("volumenewsize")
    return Reply(
        status=str(keys.get("status", "")),
        message=str(keys.get("message", "")),
        device=str(keys.get("device", "")),
        volume_name=str(keys.get("volumename", "")),
        attached=keys.get("attached") is True,
        capabilities=capabilities if isinstance(capabilities, dict) else None,
        new_size=size if isinstance(size, int) else 0,
    )


def capabilities_of(reply: Reply) -> Capabilities:
    """The defaults, and over them what the reply to `init` names."""
    told = {str(key).lower(): value for key, value in (reply.capabilities or {}).items()}
    defaults = Capabilities()

    def flag(name: str, default: bool) -> bool:
        value = told.get(name)
        return value if isinstance(value, bool) else default

    return Capabilities(
        attach=flag("attach", defaults.attach),
        selinux_relabel=flag("selinuxrelabel", defaults.selinux_relabel),
        supports_metrics=flag("supportsmetrics", defaults.supports_metrics),
        fs_group=flag("fsgroup", defaults.fs_group),
        requires_fs_resize=flag("requiresfsresize", defaults.requires_fs_resize),
    )


class FlexDriver:
    """One driver. A command that it does not support is never tried again.

    Methods raise `NotSupported` for what is left to mooring, `Refused` for a driver that said no, and `Doubtful` for
    one that had to be killed. Options may hold secrets: they are in no message.
    """

    def __init__(self, host: Host, name: str, executable: str) -> None:
        self._host = host
        self.name = name
        self.executable = executable
        self._unsupported: set[str] = set()

    async def initialise(self) -> Capabilities:
        try:
            return capabilities_of(await self.call("init"))
        except NotSupported as error:
            raise Refused(error.what, why="it does not support to be initialised") from error

    async def volume_name(self, options: str) -> str:
        return (await self.call("getvolumename", options)).volume_name

    async def attach(self, options: str, node: str) -> str:
        return (await self.call("attach", options, node)).device

    async def detach(self, volume: str, node: str) -> None:
        await self.call("detach", volume, node)

    async def is_attached(self, options: str, node: str) -> bool:
        return (await self.call("isattached", options, node)).attached

    async def wait_for_attach(self, device: str, options: str) -> str:
        return (await self.call("waitforattach", device, options)).device or device

    async def mount_device(self, directory: str, device: str, options: str) -> None:
        await self.call("mountdevice", directory, device, options)

    async def unmount_device(self, directory: str) -> None:
        await self.call("unmountdevice", directory)

    async def mount(self, directory: str, options: str) -> None:
        await self.call("mount", directory, options)

    async def unmount(self, directory: str) -> None:
        await self.call("unmount", directory)

    async def expand_volume(self, options: str, stage: str, new_size: int, old_size: int) -> int:
        return (await self.call("expandvolume", options, stage, str(new_size), str(old_size))).new_size or new_size

    async def expand_file_system(self, options: str, device: str, path: str, new_size: int, old_size: int) -> None:
        await self.call("expandfs", options, device, path, str(new_size), str(old_size))

    async def call(self, command: str, *arguments: str) -> Reply:
        what = f"FlexVolume driver {self.name!r}: {command}"
        if command in self._unsupported:
            raise NotSupported(what, why=NOT_SUPPORTED)
        result = await self._host.run(
            lambda: self._host.run_program([self.executable, command, *arguments], deadline=_DEADLINE),
            risk=Risk.HANGING,
            what=what,
        )
        reply = _reply(result, what)
        if reply.status == NOT_SUPPORTED:
            self._unsupported.add(command)
            raise NotSupported(what, why=NOT_SUPPORTED)
        if reply.status != SUCCESS:
            why = f"{command} command failed, status: {reply.status}, reason: {reply.message}"
            raise Refused(f"{what} failed", why=why)
        if result.status != 0:
            why = f"{command} command failed: it reported success and ended with exit status {result.status}"
            raise Refused(f"{what} failed", why=why)
        return reply


def _reply(result: ProgramResult, what: str) -> Reply:
    try:
        return parse_reply(result.output)
    except ValueError as error:
        # What it wrote is not shown: a driver that is confused may print the options it was given.
        why = f"it ended with exit status {result.status} and did not answer with one JSON object"
        raise Refused(f"{what} failed", why=why, next_step="Run the driver by hand with the same command") from error
