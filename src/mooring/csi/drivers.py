"""The CSI drivers that have registered on this node."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mooring.csi.client import CALL_TIMEOUT, DriverClient
from mooring.csi.controller import ControllerCapabilities, ControllerClient
from mooring.errors import MooringError, NotYet, Refused
from mooring.rpc import csi

Version = tuple[int, ...]

_VERSION = re.compile(r"\s*v?((?:0|[1-9]\d*)(?:\.(?:0|[1-9]\d*))+)(?!\d).*", re.DOTALL)
_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9.]{0,61}[A-Za-z0-9])?")
_TAKEN = frozenset(("volumeDevices",))  # a directory beside those that are named after drivers


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the node part of a driver can do."""

    stages: bool = False
    stats: bool = False
    expands: bool = False
    condition: bool = False
    multi_writer: bool = False
    mount_group: bool = False
    health: bool = False


class Driver:
    """A registered driver. What it can do is asked once per registration."""

    def __init__(self, name: str, endpoint: str, version: Version, client: DriverClient) -> None:
        self.name = name
        self.endpoint = endpoint
        self.version = version
        self.client = client
        self.node_capabilities: Capabilities | None = None  # None: nobody has asked yet
        self.node_info: csi.NodeGetInfoResponse | None = None
        self.known: Callable[[], None] = lambda: None  # told when it has said what it can do
        self.controller = ControllerClient(client)
        self._controller_capabilities: ControllerCapabilities | None = None

    async def capabilities(self) -> Capabilities:
        """What the driver can do; `CallFailed`, of kind transient, when it does not say."""
        if self.node_capabilities is None:
            self.node_capabilities = capabilities_of(await self.client.get_capabilities())
            self.known()
        return self.node_capabilities

    async def controller_capabilities(self) -> ControllerCapabilities:
        """What its controller part can do, asked once as well."""
        if self._controller_capabilities is None:
            self._controller_capabilities = await self.controller.capabilities()
        return self._controller_capabilities


class Drivers:
    """The drivers by name. `changed` is told the name of each that comes, goes or is replaced."""

    def __init__(self, *, timeout: float = CALL_TIMEOUT) -> None:
        self._drivers: dict[str, Driver] = {}
        self.timeout = timeout
        self.changed: Callable[[str], None] = lambda _: None
        self.abilities_known: Callable[[str], None] = lambda _: None
        self.limit_reached: Callable[[str], None] = lambda _: None  # told when it takes no more volumes on this node
        self.observe: Callable[[str, str, str, float], None] = lambda driver, method, code, seconds: None

    def get(self, name: str) -> Driver | None:
        return self._drivers.get(name)

    def names(self) -> list[str]:
        return sorted(self._drivers)

    def require(self, name: str, what: str) -> Driver:
        """The driver of a volume, or the wait for it: `changed` tells when that is over."""
        driver = self._drivers.get(name)
        if driver is None:
            known = ", ".join(self.names())
            raise NotYet(
                what,
                why=f"it waits for driver {name!r} to register",
                next_step=f"Start the driver; registered are: {known or 'none'}",
            )
        return driver

    def validate(self, name: str, versions: Sequence[str]) -> Version:
        """The version that a driver would be registered with, or `Refused`."""
        what = f"cannot register CSI driver {name!r}"
        if not _NAME.fullmatch(name) or name in _TAKEN:
            raise Refused(what, why="the name of a driver has up to 63 letters, digits, '-' and '.'")
        highest = highest_version(versions)
        if highest is None:
            told = ", ".join(repr(version) for version in versions) or "none"
            raise Refused(what, why=f"it needs a version 1.x of CSI, and its versions are: {told}")
        known = self._drivers.get(name)
        if known is not None and highest <= known.version:
            why = f"another driver with the same name is already registered, at {known.endpoint}"
            version = ".".join(map(str, known.version))
            next_step = f"Remove that one first: only a version higher than {version} takes its place"
            raise Refused(what, why=why, next_step=next_step)
        return highest

    async def register(self, name: str, endpoint: str, versions: Sequence[str]) -> Driver:
        """Take a driver in. It serves volumes at once, and is dropped again when it cannot tell about the node."""
        version = self.validate(name, versions)
        driver = Driver(name, endpoint, version, self._client(name, endpoint))
        driver.known = lambda: self.abilities_known(name)
        before = self._drivers.get(name)
        self._drivers[name] = driver
        self.changed(name)
        try:
            if before is not None:
                await before.client.retire()
            driver.node_info = await driver.client.get_info()
        except BaseException as error:
            await self._drop(driver)
            if isinstance(error, MooringError):
                raise Refused(f"cannot register CSI driver {name!r}", why=f"{error.what}: {error.why}") from error
            raise
        return driver

    def _client(self, name: str, endpoint: str) -> DriverClient:
        return DriverClient(
            endpoint,
            timeout=self.timeout,
            observe=lambda method, code, seconds: self.observe(name, method, code, seconds),
        )

    async def deregister(self, name: str, endpoint: str = "") -> bool:
        """Let a driver go; with an endpoint only the one that is there, for another may have taken its place."""
        driver = self._drivers.get(name)
        if driver is None or endpoint not in ("", driver.endpoint):
            return False
        await self._drop(driver)
        return True

    async def _drop(self, driver: Driver) -> None:
        if self._drivers.get(driver.name) is driver:
            del self._drivers[driver.name]
            self.changed(driver.name)
        await driver.client.retire()

    async def close(self) -> None:
        """Let all drivers go, telling nobody: the process ends."""
        drivers, self._drivers = list(self._drivers.values()), {}
        for driver in drivers:
            await driver.client.retire()


def highest_version(versions: Iterable[str]) -> Version | None:
    """The highest version 1.x of those that can be read; None when there is none."""
    readable = (found for version in versions if (found := _parsed(version)) is not None and found[0] <= 1)
    highest = max(readable, default=None)
    return highest if highest is not None and highest[0] == 1 else None


def _parsed(text: str) -> Version | None:
    found = _VERSION.fullmatch(text)
    if found is None:
        return None
    numbers = [int(part) for part in found[1].split(".")]
    while len(numbers) > 2 and not numbers[-1]:  # 1.0 and 1.0.0 are the same
        numbers.pop()
    return tuple(numbers)


def capabilities_of(answer: csi.NodeGetCapabilitiesResponse) -> Capabilities:
    """What an answer tells; kinds that nobody knows, and entries without one, count for nothing."""
    ability = csi.NodeServiceCapability.RPC
    types = {each.rpc.type for each in answer.capabilities if each.HasField("rpc")}
    return Capabilities(
        stages=ability.STAGE_UNSTAGE_VOLUME in types,
        stats=ability.GET_VOLUME_STATS in types,
        expands=ability.EXPAND_VOLUME in types,
        condition=ability.VOLUME_CONDITION in types,
        multi_writer=ability.SINGLE_NODE_MULTI_WRITER in types,
        mount_group=ability.VOLUME_MOUNT_GROUP in types,
        health=ability.GET_VOLUME_HEALTH in types,
    )
