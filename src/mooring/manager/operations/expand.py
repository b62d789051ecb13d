"""Letting a volume grow: while a pod uses it, or right after it was mounted and before the pod does."""

from __future__ import annotations

import msgspec

from mooring.errors import Doubtful, Infeasible, InUse, MooringError, NotYet, Refused, Unsupported
from mooring.kube.objects.storage import PersistentVolumeClaim
from mooring.kube.quantity import parse_quantity
from mooring.manager.operations.context import OperationContext
from mooring.plugins.interface import Growing, Offer
from mooring.world import growth
from mooring.world.changes import Noticed
from mooring.world.desired import DesiredMount
from mooring.world.names import PodUid, VolumeName
from mooring.world.operations import Expand
from mooring.world.outcomes import Outcome
from mooring.world.presence import Result


class Grown(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a volume's size afterwards."""

    size: int = 0
    stays_small: bool = False


async def expand(context: OperationContext, operation: Expand) -> Outcome:
    """Grow a volume that a pod uses. It stays mounted, whatever comes of it."""
    wish = context.desired.mount(operation.pod, operation.volume)
    held = context.actual.volumes.get(operation.volume)
    if wish is None or held is None or operation.pod not in held.mounts:
        raise NotYet("nothing to grow", why="the pod does not want the volume any more")
    offer = context.plugins.find_by_name(held.plugin).offer(wish.spec)
    grown = await grow(context, operation.volume, operation.pod, wish, offer, before=held.size)
    return Outcome(result=Result.DONE, size=grown.size, stays_small=grown.stays_small)


async def grow_before_use(
    context: OperationContext, volume: VolumeName, pod: PodUid, wish: DesiredMount, offer: Offer
) -> Grown:
    """Bring a volume that was just mounted to its size; one that fails is mounted all the same, so it is in doubt."""
    held = context.actual.volumes.get(volume)
    known = held.size if held is not None else 0
    if wish.growth.wanted <= max(wish.growth.held, known):
        return Grown(size=known or wish.growth.held)
    try:
        return await grow(context, volume, pod, wish, offer, before=wish.growth.held)
    except (Refused, NotYet) as error:
        raise Doubtful(error.what, why=error.why, next_step=error.next_step) from error


async def grow(
    context: OperationContext, volume: VolumeName, pod: PodUid, wish: DesiredMount, offer: Offer, *, before: int
) -> Grown:
    """Let the plugin grow a volume to the size its claim should have, and keep the claim up with it."""
    wanted = wish.growth.wanted
    if offer.expander is None or wanted <= before:
        return Grown(size=before)
    if wish.growth.settled:
        return Grown(size=wanted)
    claim = _claim_of(context, wish)
    tracked = wish.growth.tracked and wish.growth.held < wanted
    if tracked:
        claim = await context.claim_status.patch(claim, growth.begun(claim))
    try:
        await offer.expander.expand(_request(context, volume, pod, wish, offer, before))
    except InUse as error:
        await _note_failure(context, volume, claim, error, tracked=tracked)
        return Grown(stays_small=True)
    except Unsupported as error:
        if not tracked:
            return Grown(size=wanted)
        await _note_failure(context, volume, claim, error, tracked=tracked)
        raise
    except Refused as error:
        await _note_failure(context, volume, claim, error, tracked=tracked)
        raise
    context.growth_failures.discard(volume)
    _tell(context, wish, claim)
    if wish.growth.held < wanted:
        await context.claim_status.patch(claim, growth.finished(claim, wanted))
    return Grown(size=wanted)


def _claim_of(context: OperationContext, wish: DesiredMount) -> PersistentVolumeClaim:
    namespace, _, name = wish.spec.claim.partition("/")
    claim = context.claims.claim(namespace, name)
    if claim is None:
        why = f"its claim {wish.spec.claim!r} cannot be found"
        raise NotYet(f"cannot grow volume {wish.spec.name!r}", why=why)
    return claim


def _request(
    context: OperationContext, volume: VolumeName, pod: PodUid, wish: DesiredMount, offer: Offer, before: int
) -> Growing:
    held = context.actual.volumes.get(volume)
    return Growing(
        spec=wish.spec,
        uid=pod,
        path=offer.mounter.path(pod, wish.spec),
        stage_path=held.stage_path if held is not None else "",
        device_path=held.device_path if held is not None else "",
        size=wish.growth.wanted,
        before=before,
    )


async def _note_failure(
    context: OperationContext, volume: VolumeName, claim: PersistentVolumeClaim, error: Refused, *, tracked: bool
) -> None:
    """Tell the claim. A size that failed before and that nobody asks for any more counts as one that cannot be had."""
    if not tracked:
        return
    failed_before = volume in context.growth_failures
    context.growth_failures.intersection_update(context.actual.volumes)  # others have left the node since
    context.growth_failures.add(volume)
    infeasible = isinstance(error, Infeasible) or (failed_before and _asks_for_another(claim))
    patch = growth.failed(claim, error.why, infeasible=infeasible, now=context.claim_status.now())
    try:
        await context.claim_status.patch(claim, patch)
    except MooringError:
        return  # the error itself is told; the claim is told with the next try


def _asks_for_another(claim: PersistentVolumeClaim) -> bool:
    asked = claim.spec.resources.requests.get(growth.STORAGE)
    worked_on = claim.status.allocated_resources.get(growth.STORAGE)
    return asked is not None and worked_on is not None and parse_quantity(asked) != parse_quantity(worked_on)


def _tell(context: OperationContext, wish: DesiredMount, claim: PersistentVolumeClaim) -> None:
    message = f'MountVolume.NodeExpandVolume succeeded for volume "{wish.spec.name}" {context.node().name}'
    reason = "FileSystemResizeSuccessful"
    context.tell(Noticed(pod=wish.pod, volume=wish.outer_names[0], reason=reason, message=message, warning=False))
    context.claim_status.tell(claim, reason, message)
