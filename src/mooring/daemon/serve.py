"""The daemon: one instance, its lock, its control socket and its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import signal
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from mooring.daemon.building import make_host
from mooring.daemon.control import InstanceControl
from mooring.daemon.instance import Instance
from mooring.daemon.root_directory import locked, make_root
from mooring.daemon.systemd import Service, take_notifier
from mooring.host.interface import Host
from mooring.host.paths import Paths
from mooring.observe.http import HttpApi
from mooring.observe.http_server import serving
from mooring.settings import Settings

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Watch = Callable[[Instance], Coroutine[Any, Any, None]]
"""Something that looks at the instance while it runs, such as the live table."""


Assembly = Callable[[Host], contextlib.AbstractAsyncContextManager[Instance]]
"""What puts an instance together on a machine, and closes it in the end."""


async def serve(settings: Settings, assembly: Assembly, *, watch: Watch | None = None) -> None:
    """Run an instance until SIGTERM, SIGINT or `down`. Volumes stay in place, except after `down`.

    Operations that run may end within `stop_timeout`; a second signal abandons them at once, a third ends the process.
    """
    os.umask(0o022)  # the modes of volume directories are the kubelet's with this umask
    paths = Paths(settings.root)
    make_root(paths)
    with locked(paths):
        stop = _Stop()
        service = Service(*take_notifier(os.environ))
        with contextlib.closing(service), contextlib.closing(make_host(settings)) as host:
            async with assembly(host) as instance, _listening(instance, stop.asked):
                await _run(instance, stop, service, watch)


class _Stop:
    """What signals ask for: to stop, and the second time to do so at once. The third does what it does by itself."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.at_once = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            self._loop.add_signal_handler(number, self._signalled)

    def _signalled(self) -> None:
        if self.asked.is_set():
            self.at_once.set()
            for number in _SIGNALS:
                self._loop.remove_signal_handler(number)
        self.asked.set()


def settle_collector() -> None:
    """Let the garbage collector pass over what lives as long as the daemon, and come less often for the rest.

    Nearly nothing here is in cycles, and at every turn it looks at all objects that pods, volumes and waits brought.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


async def _run(instance: Instance, stop: _Stop, service: Service, watch: Watch | None) -> None:
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(instance.run(), name="instance")
        telling = tasks.create_task(service.run(instance.manager, instance.pods.heard), name="service")
        watching = tasks.create_task(watch(instance), name="watch") if watch is not None else None
        settle_collector()
        await stop.asked.wait()
        log.info("stopping; %s", "all volumes are gone" if instance.states.draining else "volumes stay as they are")
        service.stopping()
        if watching is not None:
            watching.cancel()
        await _first_of(instance.manager.stop(), stop.at_once.wait())
        running.cancel()
        telling.cancel()


async def _first_of(*several: Coroutine[Any, Any, object]) -> None:
    """Return when one of several has ended; the others are cancelled."""
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(each) for each in several]
        await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
        for task in begun:
            task.cancel()


@contextlib.asynccontextmanager
async def _listening(instance: Instance, stopping: asyncio.Event) -> AsyncIterator[None]:
    """Serve the control socket, for its owner only."""
    control = InstanceControl(instance, stopping.set)
    api = HttpApi(instance.status, instance.metrics, instance.store, control)
    path = instance.paths.socket
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)  # left by a process that was killed: the lock says that nobody uses it
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    before = os.umask(0o177)
    try:
        bound.bind(path)
    finally:
        os.umask(before)
    try:
        async with serving(api.answer, bound):
            yield
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
