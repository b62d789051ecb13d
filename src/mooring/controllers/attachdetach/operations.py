"""Carrying out what the planner decided: API calls and attaching, in one thin layer. Nothing here writes to a world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from mooring.controllers.attachdetach.actual import Report
from mooring.controllers.attachdetach.attachers import VolumeAttacher
from mooring.controllers.attachdetach.planner import (
    Attach,
    Detach,
    Restore,
    TellMultiAttach,
    VolumeOperation,
    Withdraw,
)
from mooring.errors import InUse, MooringError
from mooring.kube.api import Api, NotFound
from mooring.kube.objects.kinds import NODE
from mooring.kube.objects.node import Node


@dataclass(frozen=True, slots=True)
class WriteReport:
    """The status of a node is to say what is attached to it."""

    node: str
    report: Report


Operation = VolumeOperation | WriteReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What is known after an operation."""

    error: MooringError | None = None
    device_path: str = ""
    node: Node | None = None  # the Node as it was seen on the way
    asked: bool = True  # whoever attaches was asked, so that something may have changed
    seconds: float = 0.0


def kind_of(operation: Operation) -> str:
    match operation:
        case Attach():
            return "volume_attach"
        case Detach():
            return "volume_detach"
        case Withdraw():
            return "withdraw"
        case Restore():
            return "restore"
        case TellMultiAttach():
            return "tell_multi_attach"
        case WriteReport():
            return "write_report"
        case _:
            assert_never(operation)


class Operations:
    """Runs operations; what goes wrong is part of the outcome."""

    def __init__(self, api: Api, attacher: VolumeAttacher, known_node: Callable[[str], Node | None]) -> None:
        self._api, self._attacher, self._known_node = api, attacher, known_node

    async def execute(self, operation: Operation) -> Outcome:
        match operation:
            case Attach():
                return await self._attach(operation)
            case Detach():
                return await self._detach(operation)
            case WriteReport():
                return await self._write(operation)
            case Withdraw() | Restore() | TellMultiAttach():
                return Outcome()  # a decision, and nothing but
            case _:
                assert_never(operation)

    async def _attach(self, operation: Attach) -> Outcome:
        clock = asyncio.get_running_loop().time
        begun = clock()
        try:
            device_path = await self._attacher.attach(operation.spec, operation.node)
        except MooringError as error:
            return Outcome(error=error, seconds=clock() - begun)
        return Outcome(device_path=device_path, seconds=clock() - begun)

    async def _detach(self, operation: Detach) -> Outcome:
        """The last look and the detach. A node that has said meanwhile that it uses the volume keeps it."""
        clock = asyncio.get_running_loop().time
        begun, seen = clock(), None
        try:
            if operation.verify:
                seen = await self._look(operation.node)
        except MooringError as error:
            return Outcome(error=error, asked=False, seconds=clock() - begun)
        if seen is not None and operation.volume in seen.status.volumes_in_use:
            what = f"cannot detach volume {operation.volume!r} from node {operation.node!r}"
            kept = InUse(what, why="the node says that it is still in use")
            return Outcome(error=kept, node=seen, asked=False, seconds=clock() - begun)
        try:
            await self._attacher.detach(operation.volume, operation.node)
        except MooringError as error:
            return Outcome(error=error, node=seen, seconds=clock() - begun)
        return Outcome(node=seen, seconds=clock() - begun)

    async def _look(self, node: str) -> Node | None:
        try:
            return await self._api.get(NODE, "", node)
        except NotFound:
            return None  # a node that does not exist mounts nothing

    async def _write(self, operation: WriteReport) -> Outcome:
        """A node that does not exist needs no status; one that comes is compared with what was written last."""
        if self._known_node(operation.node) is None:
            return Outcome()
        attached = [{"name": name, "devicePath": path} for name, path in operation.report]
        merge = {"status": {"volumesAttached": attached}}
        try:
            written = await self._api.patch(NODE, "", operation.node, merge, subresource="status")
        except NotFound:
            return Outcome()
        except MooringError as error:
            return Outcome(error=error)
        return Outcome(node=written)
