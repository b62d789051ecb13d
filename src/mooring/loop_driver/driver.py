"""What the services of the driver share: how it was started, the machine, its memory, and who is being worked on."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from google.protobuf.message import Message
from grpc import StatusCode

from mooring.host.interface import Host, Risk
from mooring.loop_driver.backing import BackingFiles
from mooring.loop_driver.failures import Failure
from mooring.loop_driver.shelf import Shelf
from mooring.loop_driver.volume_locks import VolumeLocks
from mooring.stubs import csi_pb2 as csi

T = TypeVar("T")

Calls = Mapping[type[Message], Callable[[Any], Awaitable[Message]]]
"""The calls of a service, by the type of what is asked; the method is named after it."""

NAME = "loop.mooring.dev"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a driver was started."""

    state: str  # a directory of its own
    node_id: str
    other_nodes: tuple[str, ...] = ()  # further ones that volumes can be attached to; each has a socket of its own
    name: str = NAME
    attach: bool = False  # volumes are published to the node by the controller before they are staged
    max_volumes: int = 0  # how many may be attached; 0 is no limit
    capacity: int | None = None  # bytes for all volumes and snapshots; None: as many as are asked for

    @property
    def nodes(self) -> tuple[str, ...]:
        return (self.node_id, *self.other_nodes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Driver:
    """One driver on one machine, as one of the nodes sees it that it serves there."""

    options: Options
    host: Host
    backing: BackingFiles
    shelf: Shelf
    locks: VolumeLocks = field(default_factory=VolumeLocks)
    now: Callable[[], int] = time.time_ns

    @property
    def topology(self) -> csi.Topology:
        """The one place where volumes of this driver are; all of its nodes are there."""
        return csi.Topology(segments={f"topology.{self.options.name}/node": min(self.options.nodes)})

    def seen_by(self, node: str) -> Driver:
        """The same driver and the same volumes, on another of its nodes."""
        others = tuple(each for each in self.options.nodes if each != node)
        return replace(self, options=replace(self.options, node_id=node, other_nodes=others))

    async def on_host(self, call: Callable[[], T], what: str) -> T:
        """Run a batch of host calls where devices and file systems cannot keep the event loop waiting."""
        return await self.host.run(call, risk=Risk.HANGING, what=what)

    def require_room(self, what: str, size: int) -> None:
        """Refuse what would go beyond the capacity; room on the disk is taken when it is written to, and no sooner."""
        capacity = self.options.capacity
        if capacity is None or self.shelf.bytes_promised() + size <= capacity:
            return
        raise Failure(
            StatusCode.RESOURCE_EXHAUSTED,
            f"cannot {what}",
            why=f"{size} bytes more would go beyond the capacity of {capacity}",
            next_step="Delete volumes or snapshots that nobody needs, or start the driver with a greater --capacity",
        )


def make_driver(options: Options, host: Host, backing: BackingFiles) -> Driver:
    return Driver(options=options, host=host, backing=backing, shelf=Shelf(host, options.state))
