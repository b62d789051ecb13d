"""Taking down what an instance left that does not run any more."""

from __future__ import annotations

import asyncio
import contextlib
import os
from typing import Any

from mooring.daemon.building import make_host
from mooring.daemon.control import InstanceControl
from mooring.daemon.instance import Instance, assemble
from mooring.daemon.root_directory import locked
from mooring.host.paths import Paths
from mooring.settings import Settings


def clean_up(settings: Settings, timeout: float) -> dict[str, Any]:
    """Unmount everything below the root directory. Nothing there is nothing to do."""
    if not os.path.isdir(settings.root):
        return {"done": True, "left": [], "containers": {}}
    with locked(Paths(settings.root)):
        return asyncio.run(_clean_up(settings, timeout))


async def _clean_up(settings: Settings, timeout: float) -> dict[str, Any]:
    with contextlib.closing(make_host(settings)) as host:
        return await _taken_down(assemble(settings, host, []), timeout)


async def _taken_down(instance: Instance, timeout: float) -> dict[str, Any]:
    control = InstanceControl(instance, lambda: None)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(instance.manager.run())
        keeping = tasks.create_task(instance.runs.run())
        beside = tasks.create_task(_run_drivers(instance))
        await asyncio.sleep(0)  # the manager finds what is on disk before anything is taken down
        try:
            return await control.down(timeout)
        finally:
            running.cancel()
            keeping.cancel()
            beside.cancel()
            await instance.close()


async def _run_drivers(instance: Instance) -> None:
    """Let CSI drivers register, who alone can take their volumes away, and detach what they attached."""
    async with asyncio.TaskGroup() as tasks:
        for factory in instance.factories:
            factory.start(tasks)
        tasks.create_task(instance.csi.run())
