"""What plugin registration asks of CSI: whether a driver may register, and to take it in or let it go."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.csi.drivers import Drivers

PLUGIN_TYPE = "CSIPlugin"


class CSIHandler:
    """Handles registration sockets whose type is `CSIPlugin`."""

    def __init__(self, drivers: Drivers) -> None:
        self._drivers = drivers

    def type(self) -> str:
        return PLUGIN_TYPE

    async def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """`Refused` for a driver that could not be registered."""
        self._drivers.validate(name, versions)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        await self._drivers.register(name, endpoint, versions)

    async def deregister(self, name: str, endpoint: str) -> None:
        """Let go of the driver that this socket brought, and of no other of its name."""
        await self._drivers.deregister(name, endpoint)
