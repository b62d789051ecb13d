"""The other side of registration: a socket in the registry directory that says who a plugin is.

For drivers that want to make themselves known, and for tests.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")  # programs are started without the interpreter being forked

from grpc import aio

from mooring.registration.interface import CSI_PLUGIN
from mooring.stubs import registration_pb2 as registration
from mooring.stubs import registration_pb2_grpc as services

if TYPE_CHECKING:
    from mooring.stubs.registration_pb2_grpc import _ServicerContext as Context

_SOCKET = "s"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notified:
    """What the node said of the registration; `error` is empty when the plugin was taken in."""

    registered: bool
    error: str = ""


class Registrar(services.RegistrationServicer):
    """Serves the registration service for one plugin at `<directory>/<name>-reg.sock`, or another name there."""

    def __init__(
        self,
        directory: str,
        *,
        name: str,
        endpoint: str,
        type: str = CSI_PLUGIN,  # noqa: A002 - as the protocol names it
        versions: Sequence[str] = ("1.0.0",),
        socket_name: str = "",
    ) -> None:
        self.path = os.path.join(directory, socket_name or f"{name}-reg.sock")
        self.info = registration.PluginInfo(type=type, name=name, endpoint=endpoint, supported_versions=versions)
        self.statuses: list[Notified] = []
        self._news: asyncio.Queue[Notified] = asyncio.Queue()
        self._server: aio.Server | None = None
        self._directory = -1
        self._inode = 0

    async def start(self) -> None:
        """Serve. The socket appears when it can be used, for its owner only, and takes the place of a stale one."""
        # Made aside and moved into place: nobody finds it before it answers, or with another mode. The umask would do
        # for the mode, but belongs to all threads. The name begins with a dot, which nodes pass over.
        aside = tempfile.mkdtemp(prefix=".registrar-", dir=os.path.dirname(self.path))
        try:
            await self._serve_in(aside)
            made = os.path.join(aside, _SOCKET)
            os.chmod(made, 0o600)
            self._inode = os.stat(made).st_ino
            os.rename(made, self.path)
        except BaseException:
            await self.close()
            raise
        finally:
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(aside, _SOCKET))
            os.rmdir(aside)

    async def _serve_in(self, directory: str) -> None:
        self._directory = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        server = aio.server()
        services.add_RegistrationServicer_to_server(self, server)
        try:
            # By way of the descriptor, because a path may be too long for a socket, or hold what gRPC takes for syntax.
            server.add_insecure_port(f"unix:/proc/self/fd/{self._directory}/{_SOCKET}")
            await server.start()
        except BaseException:
            os.close(self._directory)
            raise
        self._server = server

    async def close(self) -> None:
        """Remove the socket, unless another has taken its place, and serve no more."""
        if self._server is None:
            return
        server, self._server = self._server, None
        with suppress(FileNotFoundError):
            if os.lstat(self.path).st_ino == self._inode:
                os.unlink(self.path)
        await server.stop(None)
        os.close(self._directory)  # only now: the server removes what it bound, by this number

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[Registrar]:
        """The registrar serves, until the end."""
        await self.start()
        try:
            yield self
        finally:
            await self.close()

    async def until_notified(self) -> Notified:
        """The next status that the node tells; each is returned once, in their order."""
        return await self._news.get()

    # -- the registration service ----------------------------------------------------------------------------------
    async def GetInfo(self, request: registration.InfoRequest, context: Context) -> registration.PluginInfo:  # noqa: N802
        return self.info

    async def NotifyRegistrationStatus(  # noqa: N802
        self, request: registration.RegistrationStatus, context: Context
    ) -> registration.RegistrationStatusResponse:
        status = Notified(registered=request.plugin_registered, error=request.error)
        self.statuses.append(status)
        self._news.put_nowait(status)
        return registration.RegistrationStatusResponse()
