"""iscsiadm(8): the calls that make and end sessions, and what its exit statuses mean.

CHAP credentials are given to it on its command line, since it takes them in no other way; they are kept out of every
error and every log.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from mooring.errors import Refused
from mooring.host.interface import Host, Risk
from mooring.host.programs import ProgramResult
from mooring.plugins.iscsi_disk import Chap, IscsiDisk

log = logging.getLogger(__name__)

_DEADLINE = 60.0
_EXISTS = 15  # ISCSI_ERR_SESS_EXISTS; for an interface as well
_GONE = frozenset({2, 21})  # no such session, no such record
_NAME_FIELD = "iface.iscsi_ifacename"
_EMPTY = "<empty>"


class IscsiAdmin:
    """Calls of iscsiadm for one host. `Refused` when it answered no; `Doubtful` when it had to be killed."""

    def __init__(self, host: Host) -> None:
        self._host = host

    # -- interfaces ----------------------------------------------------------------------------------------------
    async def transport(self, interface: str) -> str:
        """The transport of an interface; empty when it does not say."""
        shown = await self._must(["-m", "iface", "-I", interface, "-o", "show"], f"show interface {interface!r}")
        return transport_in(shown.output)

    async def clone_interface(self, disk: IscsiDisk) -> None:
        """Make the interface of a volume with an initiator name of its own, as a copy of the configured one."""
        what = f"make interface {disk.interface!r}"
        if disk.interface == disk.configured_interface:
            raise Refused(f"cannot {what}", why="it would be a copy of itself")
        show = ["-m", "iface", "-I", disk.configured_interface, "-o", "show"]
        shown = await self._must(show, f"show interface {disk.configured_interface!r}")
        fields = {**interface_fields(shown.output), "iface.initiatorname": disk.initiator_name}
        await self._must(["-m", "iface", "-I", disk.interface, "-o", "new"], what, also=_EXISTS)
        for key in sorted(fields):
            update = ["-m", "iface", "-I", disk.interface, "-o", "update", "-n", key, "-v", fields[key]]
            try:
                await self._must(update, what)
            except Refused:
                await self.delete_interface(disk.interface)
                raise

    async def delete_interface(self, interface: str) -> None:
        result = await self._run(["-m", "iface", "-I", interface, "-o", "delete"])
        if result.status not in (0, *_GONE):
            log.warning("cannot delete iSCSI interface %s: exit status %d", interface, result.status)

    # -- discovery and sessions ----------------------------------------------------------------------------------
    async def log_in(self, disk: IscsiDisk, portal: str, chap: Chap) -> None:
        """Discover the target at a portal and log in to it; what a failure made is taken back."""
        await self._discover(disk, portal, chap)
        node = _node(disk, portal)
        what = f"log in to {disk.iqn!r} at {portal!r}"
        try:
            await self._tell([*node, "-o", "update", "-n", "node.session.scan", "-v", "manual"])
            if chap.session is not None:
                await self._authenticate(node, "node.session.auth.authmethod", chap.session, chap, what)
            await self._must([*node, "--login"], what, also=_EXISTS, chap=chap)
        except Refused:
            await self._run([*node, "-o", "delete"])
            raise
        await self._tell([*node, "-o", "update", "-n", "node.startup", "-v", "manual"])

    async def _discover(self, disk: IscsiDisk, portal: str, chap: Chap) -> None:
        base = ["-m", "discoverydb", "-t", "sendtargets", "-p", portal, "-I", disk.interface]
        what = f"discover targets at {portal!r}"
        await self._run([*base, "-o", "new"])
        try:
            if chap.discovery is not None:
                key = "discovery.sendtargets.auth.authmethod"
                await self._authenticate(base, key, chap.discovery, chap, what)
            await self._must([*base, "--discover"], what, chap=chap)
        except Refused:
            await self._run([*base, "-o", "delete"])
            raise

    async def _authenticate(
        self, base: Sequence[str], method: str, values: Mapping[str, str], chap: Chap, what: str
    ) -> None:
        for key, value in ((method, "CHAP"), *((key, value) for key, value in values.items() if value)):
            await self._must([*base, "-o", "update", "-n", key, "-v", value], what, chap=chap)

    async def log_out(self, disk: IscsiDisk, portal: str) -> None:
        """End the session with a portal and forget the target's record; what is gone already is fine."""
        node = ["-m", "node", "-p", portal, "-T", disk.iqn]
        interface = ["-I", disk.interface] if disk.interface else []
        await self._must([*node, "--logout", *interface], f"log out of {disk.iqn!r} at {portal!r}", gone=True)
        what = f"forget the record of {disk.iqn!r} at {portal!r}"
        await self._must([*node, "-o", "delete", *interface], what, gone=True)

    # -- running -------------------------------------------------------------------------------------------------
    async def _must(
        self, arguments: Sequence[str], what: str, *, also: int = 0, gone: bool = False, chap: Chap | None = None
    ) -> ProgramResult:
        result = await self._run(arguments)
        if result.status in (0, also) or (gone and result.status in _GONE):
            return result
        said = " ".join(result.output.split())
        shown = chap.masked(said) if chap is not None else said
        raise Refused(f"cannot {what}", why=f"iscsiadm ended with exit status {result.status}, {shown!r}")

    async def _tell(self, arguments: Sequence[str]) -> None:
        """Change something that is only good to have."""
        result = await self._run(arguments)
        if result.status != 0:
            log.warning("iscsiadm %s %s failed: exit status %d", *arguments[-4:-1:2], result.status)

    async def _run(self, arguments: Sequence[str]) -> ProgramResult:
        return await self._host.run(
            lambda: self._host.run_program(["iscsiadm", *arguments], deadline=_DEADLINE),
            risk=Risk.HANGING,
            what=f"run iscsiadm in mode {arguments[1]}",
        )


def _node(disk: IscsiDisk, portal: str) -> list[str]:
    return ["-m", "node", "-p", portal, "-T", disk.iqn, "-I", disk.interface]


def transport_in(shown: str) -> str:
    """The transport in what `-o show` prints: tcp unless it names another, nothing when the line is missing."""
    for line in shown.splitlines():
        name, _, value = line.partition(" = ")
        if name.strip() == "iface.transport_name":
            return "tcp" if value.strip() == _EMPTY else value.strip()
    return ""


def interface_fields(shown: str) -> dict[str, str]:
    """The fields of an interface that a copy of it needs."""
    fields: dict[str, str] = {}
    for line in shown.splitlines():
        if not line.startswith("iface."):
            continue
        parts = line.split()
        if len(parts) != 3 or parts[1] != "=":
            raise Refused("cannot copy an iSCSI interface", why=f"iscsiadm shows a line of no known form, {line!r}")
        if parts[2] != _EMPTY and parts[0] != _NAME_FIELD:
            fields[parts[0]] = parts[2]
    return fields
