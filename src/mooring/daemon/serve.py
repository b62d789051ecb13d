"""The daemon: one instance, its lock, its control socket and its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from aiohttp import web

from mooring.daemon.building import make_host
from mooring.daemon.control import InstanceControl
from mooring.daemon.instance import Instance, assemble
from mooring.daemon.root_directory import locked, make_root
from mooring.host.paths import Paths
from mooring.observe.http import HttpApi
from mooring.settings import Settings

log = logging.getLogger(__name__)

Watch = Callable[[Instance], Coroutine[Any, Any, None]]
"""Something that looks at the instance while it runs, such as the live table."""


async def serve(settings: Settings, manifests: Sequence[str], *, watch: Watch | None = None) -> None:
    """Run an instance until SIGTERM, SIGINT or `down`. Volumes stay in place, except after `down`."""
    os.umask(0o022)  # the modes of volume directories are the kubelet's with this umask
    paths = Paths(settings.root)
    make_root(paths)
    with locked(paths):
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        instance = assemble(settings, make_host(settings), manifests)
        try:
            async with _listening(instance, stopping):
                await _run(instance, stopping, watch)
        finally:
            instance.journal.close()
            await instance.store.close()


async def _run(instance: Instance, stopping: asyncio.Event, watch: Watch | None) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(instance.run(), name="instance")
        watching = tasks.create_task(watch(instance), name="watch") if watch is not None else None
        # What was allocated so far lives as long as the daemon: the collector need not look at it again.
        gc.collect()
        gc.freeze()
        await stopping.wait()
        log.info("stopping; %s", "all volumes are gone" if instance.states.draining else "volumes stay as they are")
        if watching is not None:
            watching.cancel()
        await instance.manager.stop()
        running.cancel()


@contextlib.asynccontextmanager
async def _listening(instance: Instance, stopping: asyncio.Event) -> AsyncIterator[None]:
    """Serve the control socket, for its owner only."""
    api = HttpApi(instance.status, instance.metrics, instance.store, InstanceControl(instance, stopping.set))
    runner = web.AppRunner(api.application(), access_log=None, handle_signals=False)
    await runner.setup()
    path = instance.paths.socket
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # left by a process that was killed: the lock says that nobody uses it
    before = os.umask(0o177)
    try:
        await web.UnixSite(runner, path, shutdown_timeout=2.0).start()
    finally:
        os.umask(before)
    try:
        yield
    finally:
        api.stop_streams()
        await runner.cleanup()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
