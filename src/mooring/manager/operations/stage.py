"""Mounting a device once for the node, and taking it away again."""

from __future__ import annotations

from mooring.errors import Refused
from mooring.manager.operations.context import OperationContext
from mooring.manager.operations.mount import check_spec
from mooring.world.operations import Stage, Unstage
from mooring.world.outcomes import Outcome
from mooring.world.presence import Result


async def stage(context: OperationContext, operation: Stage) -> Outcome:
    _, spec, offer = context.wish(operation.volume)
    if offer.stager is None:
        raise Refused(f"cannot stage {operation.volume!r}", why="its plugin does not stage volumes")
    check_spec(spec, offer, context.node())
    held = context.actual.volumes.get(operation.volume)
    await context.note(operation, offer, spec, path=held.stage_path if held is not None else "")
    path = await offer.stager.stage(spec, held.device_path if held is not None else "")
    return Outcome(result=Result.DONE, path=path, spec=spec)


async def unstage(context: OperationContext, operation: Unstage) -> Outcome:
    volume, offer = context.holding(operation.volume)
    if offer.stager is None:
        raise Refused(f"cannot unstage {operation.volume!r}", why="its plugin does not stage volumes")
    await offer.stager.unstage(volume.spec, volume.stage_path)
    return Outcome(result=Result.DONE)
