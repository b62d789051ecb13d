"""How plugins are spoken to: a registrar by the registration protocol, a driver without one by CSI itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from mooring.errors import NotYet
from mooring.registration.channel import CallFailed, call
from mooring.registration.interface import CSI_PLUGIN, Step
from mooring.registration.worlds import Offered
from mooring.rpc import csi, csi_services, grpc, registration
from mooring.rpc import registration_services as services

_STATIC_VERSIONS = ("1.0.0",)  # as registrars say: it is the version of the protocol, not of the driver


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds that each step may take."""

    dial: float = 10.0
    get_info: float = 1.0
    probe: float = 5.0
    notify: float = 5.0
    deregister: float = 10.0


class Conversation(Protocol):
    """What is said to one plugin in the course of its registration."""

    async def ask(self, at: Callable[[Step], None]) -> Offered:
        """Who it is; `MooringError` when it does not say. `at` is told each step that begins."""
        ...

    async def tell(self, error: str) -> None:
        """Let it know how it ended, well when there is no error; `MooringError` when it does not listen."""
        ...


class RegistrarConversation:
    """With a registrar, which answers for a plugin that serves elsewhere, or here when it names no endpoint."""

    def __init__(self, channel: grpc.aio.Channel, path: str, timeouts: Timeouts) -> None:
        self._stub: services.RegistrationAsyncStub = services.RegistrationStub(channel)
        self._path = path
        self._timeouts = timeouts

    async def ask(self, at: Callable[[Step], None]) -> Offered:
        at(Step.GET_INFO)
        info = await call(
            self._stub.GetInfo,
            registration.InfoRequest(),
            timeout=self._timeouts.get_info,
            what="cannot ask who the plugin is",
        )
        return Offered(
            type=info.type,
            name=info.name,
            endpoint=info.endpoint or self._path,
            versions=tuple(info.supported_versions),
        )

    async def tell(self, error: str) -> None:
        await call(
            self._stub.NotifyRegistrationStatus,
            registration.RegistrationStatus(plugin_registered=not error, error=_text(error)),
            timeout=self._timeouts.notify,
            what="cannot tell the plugin how its registration ended",
        )


class DriverConversation:
    """With a CSI driver itself, by its Identity service."""

    def __init__(self, channel: grpc.aio.Channel, path: str, timeouts: Timeouts) -> None:
        self._stub: csi_services.IdentityAsyncStub = csi_services.IdentityStub(channel)
        self._path = path
        self._timeouts = timeouts

    async def ask(self, at: Callable[[Step], None]) -> Offered:
        at(Step.GET_INFO)
        info = await call(
            self._stub.GetPluginInfo,
            csi.GetPluginInfoRequest(),
            timeout=self._timeouts.get_info,
            what="cannot ask for the driver's name",
        )
        at(Step.PROBE)
        await self._probe()
        return Offered(type=CSI_PLUGIN, name=info.name, endpoint=self._path, versions=_STATIC_VERSIONS)

    async def _probe(self) -> None:
        """Return when the driver is ready, which one is that does not say."""
        what = "cannot use the driver yet"
        try:
            answer = await call(self._stub.Probe, csi.ProbeRequest(), timeout=self._timeouts.probe, what=what)
        except CallFailed as error:
            if error.code is grpc.StatusCode.UNIMPLEMENTED:  # a node with a registrar would never have asked
                return
            raise
        if answer.HasField("ready") and not answer.ready.value:
            raise NotYet(what, why="it says that it is not ready")

    async def tell(self, error: str) -> None:
        """A driver without a registrar is told nothing."""


def _text(words: str) -> str:
    """Words that can be sent: those of an error may hold a path, and a path bytes that are no text."""
    return words.encode(errors="backslashreplace").decode()
