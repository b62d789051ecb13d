"""`mooring controller` as a process: who of several leads, its metrics, and its orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import signal
import socket
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterable

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from mooring.controllers.attachdetach import figures
from mooring.controllers.leader_election import LeaderElector
from mooring.csi.drivers import Drivers
from mooring.daemon.controller import Options, Term
from mooring.errors import Refused
from mooring.kube.api import Api, ApiError
from mooring.observe.attach_metrics import AttachMetrics
from mooring.observe.csi_metrics import CSIMetrics
from mooring.observe.http_messages import Answer, Request
from mooring.observe.http_server import routed, serving
from mooring.observe.metrics import CONTENT_TYPE
from mooring.registration.interface import PluginCount
from mooring.settings import Settings

log = logging.getLogger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_PAUSE = 2.0
"""Seconds before the controllers begin anew after the API has failed them."""


class ControllerProcess:
    """Runs terms of the controllers, one after the other, whenever this process leads."""

    def __init__(self, api: Api, settings: Settings, options: Options, *, say: Callable[[str], None]) -> None:
        self._api, self._settings, self._options, self._say = api, settings, options, say
        self.identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        self._term: Term | None = None
        self.registry = CollectorRegistry()
        self._attaching = AttachMetrics(self.registry, in_use=self._volumes_in_use, totals=self._totals)
        self._calls = CSIMetrics(self.registry, self._sockets)
        says = "Whether this process leads"
        self._leads = Gauge("leader_election_master_status", says, ["name"], registry=self.registry)

    async def run(self) -> None:
        """Lead whenever that is possible, until cancelled."""
        self._leads.labels(self._name).set(0)
        if self._options.lease is None:
            await self._lead()
            return
        namespace, name = self._options.lease
        elector = LeaderElector(
            self._api, namespace=namespace, name=name, identity=self.identity, random_source=random.Random()
        )
        await elector.run(self._lead)

    @property
    def _name(self) -> str:
        return self._options.lease[1] if self._options.lease is not None else "mooring-controller"

    async def _lead(self) -> None:
        lease = self._options.lease
        where = f"{lease[0]}/{lease[1]}" if lease is not None else "without election"
        self._say(f"mooring controller leads {where} as {self.identity}")
        self._leads.labels(self._name).set(1)
        try:
            while True:
                try:
                    await self._serve_term()
                except* ApiError as errors:
                    log.warning("begins anew, for the API has failed: %s", errors.exceptions[0])
                await asyncio.sleep(_PAUSE)
        finally:
            self._leads.labels(self._name).set(0)

    async def _serve_term(self) -> None:
        drivers = Drivers(timeout=self._settings.csi_timeout)
        drivers.observe = self._calls.observe
        with self._empty_registry() as registry:
            self._term = Term(self._api, self._settings, self._options, drivers, self._attaching, registry)
            try:
                await self._term.run()
            finally:
                self._term = None

    def _empty_registry(self) -> contextlib.AbstractContextManager[str]:
        """A directory in which nobody registers, for drivers that are named by their sockets alone."""
        if self._settings.plugin_registry or not self._options.csi_sockets:
            return contextlib.nullcontext("")
        return tempfile.TemporaryDirectory(prefix="mooring-controller-")

    # -- what is counted -------------------------------------------------------------------------------------------
    def _volumes_in_use(self) -> Iterable[tuple[str, str]]:
        made = self._term.attach_detach if self._term is not None else None
        return figures.volumes_in_use(made.caches) if made is not None else ()

    def _totals(self) -> Iterable[tuple[str, str]]:
        made = self._term.attach_detach if self._term is not None else None
        return figures.totals(made.desired, made.actual) if made is not None else ()

    def _sockets(self) -> list[PluginCount]:
        plugins = self._term.plugins if self._term is not None else None
        return plugins.counts() if plugins is not None else []


async def serve(api: Api, settings: Settings, options: Options, *, say: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT; the lease is released on the way out."""
    stopped, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, stopped.set)
    process = ControllerProcess(api, settings, options, say=say)
    async with _metrics_served(process, options.metrics_address), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(process.run(), name="controllers")
        await stopped.wait()
        log.info("stopping; volumes stay as they are")
        running.cancel()


@contextlib.asynccontextmanager
async def _metrics_served(process: ControllerProcess, address: tuple[str, int] | None) -> AsyncIterator[None]:
    """`/metrics` and `/healthz` are served, if that is asked for."""
    if address is None:
        yield
        return

    async def metrics(_: Request) -> Answer:
        return Answer(generate_latest(process.registry), CONTENT_TYPE)

    async def healthz(_: Request) -> Answer:
        return Answer(b"ok")

    try:
        bound = socket.create_server(address, family=_family(address[0]))
    except OSError as error:
        where = f"{address[0]}:{address[1]}"
        why = error.strerror or str(error)
        raise Refused(f"cannot serve metrics at {where}", why=why, next_step="Choose another address") from error
    async with serving(routed({"GET /metrics": metrics, "GET /healthz": healthz}), bound):
        yield


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
