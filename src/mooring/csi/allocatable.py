"""Asking drivers again how many volumes this node can have, as often as their CSIDriver objects want."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from mooring.csi.drivers import Drivers
from mooring.csi.node_info import NodeInfoManager
from mooring.errors import MooringError
from mooring.kube.objects.storage import CSIDriver

log = logging.getLogger(__name__)


class AllocatableRefresher:
    """Keeps one time for each registered driver that has a period. `wake` says that drivers or objects changed."""

    def __init__(
        self,
        drivers: Drivers,
        node: NodeInfoManager,
        objects: Callable[[str], CSIDriver | None],
    ) -> None:
        self._drivers, self._node, self._objects = drivers, node, objects
        self._changed = asyncio.Event()
        self._due: dict[str, tuple[int, float]] = {}  # by driver: its period, and when it is to be asked next

    def wake(self) -> None:
        self._changed.set()

    def ask_now(self, name: str) -> None:
        """Somebody found that the limit is reached: a driver whose limit may change is asked at once."""
        if name in self._due:
            period, _ = self._due[name]
            self._due[name] = (period, asyncio.get_running_loop().time())
            self._changed.set()

    async def run(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            self._changed.clear()
            self._plan(clock())
            soonest = min((at for _, at in self._due.values()), default=None)
            try:
                async with asyncio.timeout_at(soonest):
                    await self._changed.wait()
            except TimeoutError:
                for name in sorted(name for name, (_, at) in self._due.items() if at <= clock()):
                    del self._due[name]
                    await self._refresh(name)

    def _plan(self, now: float) -> None:
        """A driver whose period is new or another begins it now; one without is not asked."""
        periods = {name: self._period(name) for name in self._drivers.names()}
        self._due = {
            name: self._due[name] if name in self._due and self._due[name][0] == period else (period, now + period)
            for name, period in periods.items()
            if period is not None
        }

    def _period(self, name: str) -> int | None:
        known = self._objects(name)
        return known.spec.node_allocatable_update_period_seconds if known is not None else None

    async def _refresh(self, name: str) -> None:
        driver = self._drivers.get(name)
        if driver is None:
            return
        try:
            await self._node.refresh(driver)
        except MooringError as error:
            log.warning("cannot ask driver %s how many volumes this node can have: %s", name, error)
