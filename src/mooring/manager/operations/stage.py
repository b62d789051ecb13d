"""Mounting a device once for the node, and taking it away again."""

from __future__ import annotations

import errno

from mooring.errors import Doubtful, Refused
from mooring.manager.mount_verdicts import Owner
from mooring.manager.operations.context import OperationContext
from mooring.manager.operations.mount import check_spec, refuse_mounts_below
from mooring.plugins.interface import StageWishes
from mooring.world.operations import Stage, Unstage
from mooring.world.outcomes import Outcome
from mooring.world.pod_facts import fs_group
from mooring.world.presence import Presence, Result


async def stage(context: OperationContext, operation: Stage) -> Outcome:
    volume, spec, offer = context.wish(operation.volume)
    if offer.stager is None:
        raise Refused(f"cannot stage {operation.volume!r}", why="its plugin does not stage volumes")
    held = context.actual.volumes.get(operation.volume)
    try:
        check_spec(spec, offer, context.node())
    except Refused as error:
        if held is None or held.stage is Presence.ABSENT:
            raise
        # The plugin was not asked, so this says nothing of what an earlier try may have left.
        raise Doubtful(error.what, why=error.why, next_step=error.next_step) from error
    await context.note(operation, offer, spec, path=held.stage_path if held is not None else "")
    context.expected.refuse_cover(held.stage_path if held is not None else "", f"cannot stage volume {spec.name!r}")
    wishes = StageWishes(fs_group=fs_group(volume.mounts[min(volume.mounts)].pod), label=volume.label or "")
    path = await offer.stager.stage(spec, held.device_path if held is not None else "", wishes)
    return Outcome(result=Result.DONE, path=path, spec=spec)


async def unstage(context: OperationContext, operation: Unstage) -> Outcome:
    volume, offer = context.holding(operation.volume)
    if offer.stager is None:
        raise Refused(f"cannot unstage {operation.volume!r}", why="its plugin does not stage volumes")
    what = f"cannot unmount the device of volume {volume.spec.name!r}"
    context.expected.refuse_foreign(volume.stage_path, Owner(operation.volume, None), what)
    try:
        await offer.stager.unstage(volume.spec, volume.stage_path)
    except OSError as error:
        if error.errno == errno.EBUSY and volume.stage_path:
            refuse_mounts_below(context.host, volume.stage_path, what)
        raise
    return Outcome(result=Result.DONE)
