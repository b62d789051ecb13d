"""What plugin registration asks of CSI: whether a driver may register, and to take it in or let it go."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from mooring.csi.drivers import Drivers
from mooring.csi.node_info import NodeInfoManager
from mooring.errors import MooringError

log = logging.getLogger(__name__)

PLUGIN_TYPE = "CSIPlugin"


class CSIHandler:
    """Handles registration sockets whose type is `CSIPlugin`."""

    def __init__(self, drivers: Drivers, node: NodeInfoManager | None = None) -> None:
        self._drivers = drivers
        self._node = node  # None: nobody else wants to know what drivers say of the node

    def type(self) -> str:
        return PLUGIN_TYPE

    async def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """`Refused` for a driver that could not be registered."""
        self._drivers.validate(name, versions)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Take a driver in, and note what it says of the node; a driver for which that fails is let go again."""
        try:
            driver = await self._drivers.register(name, endpoint, versions)
        except MooringError:
            if self._drivers.get(name) is None:
                await self._forget(name)  # what it, or one whose place it was to take, has told before
            raise
        if self._node is None:
            return
        try:
            await self._node.install(driver)
        except MooringError:
            await self.deregister(name, endpoint)
            raise
        self._drivers.changed(name)  # the node has the labels now that its volumes may ask for

    async def deregister(self, name: str, endpoint: str) -> None:
        """Let go of the driver that this socket brought, and of no other of its name."""
        if await self._drivers.deregister(name, endpoint):
            await self._forget(name)

    async def _forget(self, name: str) -> None:
        if self._node is None:
            return
        try:
            await self._node.uninstall(name)
        except MooringError as error:
            log.warning("cannot forget what driver %s said of the node: %s", name, error)
