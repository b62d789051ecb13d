"""A plugin manager on a real directory, registrars on real sockets, and a handler that writes down what it is asked."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from grpc import aio

from mooring.engine.pending import Backoff
from mooring.errors import MooringError
from mooring.host.linux import LinuxHost
from mooring.registration.conversations import Timeouts
from mooring.registration.interface import PluginHandler, SocketState, SocketView
from mooring.registration.plugin_manager import PluginManager
from mooring.registration.registrar import Registrar
from mooring.stubs import registration_pb2 as registration

PATIENCE = 30.0
NEVER = Backoff(initial=3600.0, maximum=3600.0)
"""Pauses that no test outlasts: whatever is tried again, an event has brought about."""

PATIENT = Timeouts(dial=30.0, get_info=30.0, probe=30.0, notify=30.0, deregister=30.0)
"""No plugin is given up because the machine is busy."""

SOON = Backoff(initial=0.01, maximum=0.02)


class RecordingHandler:
    """Takes in every plugin, unless told otherwise, and finds calls that must not be."""

    def __init__(self, kind: str = "CSIPlugin") -> None:
        self._kind = kind
        self.calls: list[tuple[str, str]] = []
        self.registered: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.refusals: dict[str, Exception] = {}  # by the name of the call
        self.during: dict[str, Callable[[], Awaitable[object]]] = {}
        self.noticed: Callable[[], None] = lambda: None
        self._running: set[str] = set()

    def type(self) -> str:
        return self._kind

    async def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        await self._called("validate", name)

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        await self._called("register", name)
        assert name not in self.registered, "registered twice in a row"
        self.registered[name] = (endpoint, tuple(versions))

    async def deregister(self, name: str, endpoint: str) -> None:
        await self._called("deregister", name)
        del self.registered[name]
        self.noticed()

    async def _called(self, call: str, name: str) -> None:
        assert name not in self._running, "calls for one name overlap"
        self._running.add(name)
        try:
            self.calls.append((call, name))
            self.noticed()
            if call in self.during:
                await self.during[call]()
            if call in self.refusals:
                raise self.refusals[call]
        finally:
            self._running.discard(name)

    def changes(self, name: str = "a.csi.test") -> list[str]:
        return [call for call, called in self.calls if called == name and call != "validate"]

    def made(self, call: str) -> int:
        return sum(each == call for each, _ in self.calls)


class ScriptedRegistrar(Registrar):
    """A registrar that does something before it answers."""

    async def before_info(self) -> None: ...

    async def before_notify(self) -> None: ...

    async def GetInfo(self, request: registration.InfoRequest, context: object) -> registration.PluginInfo:  # noqa: N802
        await self.before_info()
        return self.info

    async def NotifyRegistrationStatus(  # noqa: N802
        self, request: registration.RegistrationStatus, context: aio.ServicerContext[object, object]
    ) -> registration.RegistrationStatusResponse:
        await self.before_notify()
        return await super().NotifyRegistrationStatus(request, context)  # type: ignore[arg-type]

    async def die(self) -> None:
        """End at once, leaving the socket behind."""
        assert self._server is not None
        await self._server.stop(None)


class Bench:
    """A node with a registry directory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.directory = place / "registry"
        self.handler = RecordingHandler()
        self.handler.noticed = self._notice
        self.handlers: list[PluginHandler] = [self.handler]
        self.static: list[str] = []
        self.host = LinuxHost()
        self.backoff = NEVER
        self.timeouts = PATIENT
        self.resync_interval = 3600.0
        self._changed = asyncio.Event()
        self.manager: PluginManager = self.make()

    def make(self) -> PluginManager:
        self.manager = PluginManager(
            self.host,
            str(self.directory),
            self.handlers,
            static=self.static,
            backoff=self.backoff,
            resync_interval=self.resync_interval,
            changed=self._notice,
            timeouts=self.timeouts,
        )
        return self.manager

    def _notice(self) -> None:
        self._changed.set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[PluginManager]:
        manager = self.make()
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(manager.run())
            yield manager
            task.cancel()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Return once the condition holds; it is looked at when something has changed."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                self._changed.clear()
                await self._changed.wait()

    def view(self, path: str | Path) -> SocketView | None:
        return next((view for view in self.manager.sockets() if view.path == str(path)), None)

    def state(self, path: str | Path) -> SocketState | None:
        view = self.view(path)
        return view.state if view is not None else None

    async def until_state(self, path: str | Path, state: SocketState | None) -> SocketView:
        await self.until(lambda: self.state(path) is state)
        view = self.view(path)
        assert view is not None
        return view

    async def until_registered(self, *registrars: Registrar) -> None:
        for registrar in registrars:
            await self.until_state(registrar.path, SocketState.REGISTERED)

    async def until_failed(self, path: str | Path) -> SocketView:
        return await self.until_state(path, SocketState.FAILED)

    async def until_gone(self, path: str | Path) -> None:
        await self.until(lambda: self.view(path) is None)

    def registrar(self, name: str = "a.csi.test", **options: str) -> ScriptedRegistrar:
        self.directory.mkdir(exist_ok=True)
        directory = options.pop("directory", str(self.directory))
        return ScriptedRegistrar(directory, name=name, endpoint=options.pop("endpoint", f"/{name}.sock"), **options)


def refusal(why: str = "it does not please") -> MooringError:
    return MooringError("cannot register it", why=why)


def bind(path: str | Path, *, listens: bool = False) -> socket.socket:
    """A socket in the file system, behind which nobody answers."""
    made = socket.socket(socket.AF_UNIX)
    here = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    made.bind(f"/proc/self/fd/{here}/{os.path.basename(path)}")
    os.close(here)
    if listens:
        made.listen()
    return made


@pytest.fixture
def place() -> Iterator[Path]:
    """An empty directory with a short path."""
    with TemporaryDirectory(prefix="reg-") as made:
        yield Path(made).resolve()


@pytest.fixture
async def bench(place: Path) -> Bench:
    return Bench(place)
