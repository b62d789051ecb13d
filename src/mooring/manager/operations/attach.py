"""Attaching a volume to this node, and detaching it."""

from __future__ import annotations

from mooring.errors import Refused
from mooring.manager.operations.context import OperationContext
from mooring.world.operations import Attach, Detach
from mooring.world.outcomes import Outcome
from mooring.world.presence import Result


async def attach(context: OperationContext, operation: Attach) -> Outcome:
    _, spec, offer = context.wish(operation.volume)
    if offer.attacher is None:
        raise Refused(f"cannot attach {operation.volume!r}", why="its plugin does not attach volumes")
    await context.note(operation, offer, spec, path="")
    device_path = await offer.attacher.attach(spec) or context.told_device(operation.volume)
    return Outcome(result=Result.DONE, device_path=device_path, spec=spec)


async def detach(context: OperationContext, operation: Detach) -> Outcome:
    volume, offer = context.holding(operation.volume)
    if offer.attacher is None:
        raise Refused(f"cannot detach {operation.volume!r}", why="its plugin does not attach volumes")
    await offer.attacher.detach(volume.spec)
    return Outcome(result=Result.DONE)
