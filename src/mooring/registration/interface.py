"""What plugin registration asks of those who serve a kind of plugin, and what it tells of the sockets it knows."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

CSI_PLUGIN = "CSIPlugin"
"""The type that CSI drivers register with."""


class PluginHandler(Protocol):
    """Serves all plugins of one type. Calls for one socket, and for one name, never overlap.

    What it raises as `MooringError` is told to the plugin, and tried again after a pause.
    """

    def type(self) -> str:
        """The type that these plugins register with, such as `CSIPlugin`."""
        ...

    async def validate(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """`MooringError` when a plugin could not be registered. Changes nothing."""
        ...

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> None:
        """Take a plugin in; when this raises, nothing of it is left."""
        ...

    async def deregister(self, name: str, endpoint: str) -> None:
        """Let a plugin go. The process behind it may be gone already, so this waits for no answer of it."""
        ...


class Step(enum.Enum):
    """The steps of a registration, in their order."""

    DIAL = "dial"
    GET_INFO = "get info"
    PROBE = "probe"  # only of a driver that has no registrar
    TYPE = "type"
    VALIDATE = "validate"
    REGISTER = "register"
    NOTIFY = "notify"  # only of a driver that has a registrar


class SocketState(enum.Enum):
    """How far a socket is."""

    WAITING = "waiting"  # it is not there yet, or its turn has not come
    REGISTERING = "registering"
    REGISTERED = "registered"
    FAILED = "failed"  # it is tried again after a pause, or when the socket is made anew
    UNREGISTERING = "unregistering"


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketView:
    """A socket as people see it. What the plugin has not told yet is empty."""

    path: str
    static: bool  # named in the settings, and so the driver itself; else a registrar in the registry directory
    state: SocketState
    type: str = ""
    name: str = ""
    endpoint: str = ""
    versions: tuple[str, ...] = ()
    failing_step: Step | None = None
    why: str = ""  # what the step failed with, or what is waited for
    attempts: int = 0  # since the socket was made


class WorldName(enum.Enum):
    """The worlds by the names that the kubelet's metrics have for them."""

    DESIRED = "desired_state_of_world"
    ACTUAL = "actual_state_of_world"


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginCount:
    """One sample of `plugin_manager_total_plugins`: this socket is in this world."""

    socket_path: str
    state: WorldName
