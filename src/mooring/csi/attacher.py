"""Attaching CSI volumes: by whoever answers VolumeAttachments, which this node awaits or, if told so, orders itself."""

from __future__ import annotations

from mooring.csi.attachments import (
    AttachmentOrders,
    Verdict,
    attachment_for,
    error_words,
    is_limit_exceeded,
    name_of,
    node_that_has_it,
    verdict,
)
from mooring.csi.surroundings import Surroundings
from mooring.errors import Doubtful, NotYet
from mooring.kube.objects.storage import VolumeAttachment
from mooring.world.spec import VolumeSpec


class CSIAttacher:
    """Returns once a VolumeAttachment says that a volume is attached. Without `orders` others must write it."""

    def __init__(self, around: Surroundings, orders: AttachmentOrders | None) -> None:
        self._around = around
        self._orders = orders

    async def attach(self, spec: VolumeSpec) -> str:
        what, node = f"cannot attach volume {spec.name!r}", self._around.node().name
        if not await self._around.needs_attaching(spec, what):
            return ""
        name = name_of(spec, node)
        if self._orders is None:
            self._check_awaited(self._around.attachments.volume_attachment(name), name, spec, what)
        else:
            await self._order(self._orders, spec, node, what)
        return name

    def _check_awaited(self, found: VolumeAttachment | None, name: str, spec: VolumeSpec, what: str) -> None:
        """Attaching is up to somebody else: until it is done there is nothing to do but to wait for an event."""
        said = verdict(found)
        if said is Verdict.ATTACHED:
            return
        if found is not None and said is Verdict.FAILED:
            self._note_limit(found)
            raise NotYet(what, why=error_words(found), next_step="It goes on by itself when it is attached")
        why = {
            Verdict.MISSING: f"there is no VolumeAttachment {name!r} yet, which whoever attaches must create",
            Verdict.LEAVING: f"VolumeAttachment {name!r} is being deleted",
        }.get(said, f"VolumeAttachment {name!r} is not attached yet")
        next_step = (
            f"Run an attacher for {spec.csi_driver!r}, set `attach` to `local` to let mooring attach, or create a"
            f" CSIDriver object {spec.csi_driver!r} with attachRequired: false if it needs no attaching"
        )
        raise NotYet(what, why=why, next_step=next_step)

    async def _order(self, orders: AttachmentOrders, spec: VolumeSpec, node: str, what: str) -> None:
        """Write the VolumeAttachment and await its answer: from then on it must be deleted before it is forgotten."""
        self._around.drivers.require(spec.csi_driver, what)  # else nobody would answer
        wanted, timeout = attachment_for(spec, node), self._around.drivers.timeout
        name = wanted.metadata.name
        other = node_that_has_it(spec, node, self._around.attachments.volume_attachments())
        if other is not None:
            why = f"Volume is already exclusively attached to one node ({other!r}), waiting on detach before it"
            raise NotYet(what, why=f"{why} can be attached to another node")
        await orders.order(wanted)
        try:
            found = await orders.until(name, _answered, timeout)
        except TimeoutError:
            why = f"timed out waiting for CSI driver {spec.csi_driver!r} to attach it"
            raise Doubtful(what, why=why, next_step="Look what its driver says") from None
        match verdict(found):
            case Verdict.ATTACHED:
                return
            case Verdict.FAILED:
                self._note_limit(found)
                raise Doubtful(what, why=error_words(found))
            case _:
                raise Doubtful(what, why=f"VolumeAttachment {name!r} is being deleted")

    def _note_limit(self, found: VolumeAttachment) -> None:
        if is_limit_exceeded(found):
            self._around.drivers.limit_reached(found.spec.attacher)

    async def detach(self, spec: VolumeSpec) -> None:
        """Take the order back, if it was this node's to give, and await that the volume is detached."""
        if self._orders is None:
            return
        what, name = f"cannot detach volume {spec.name!r}", name_of(spec, self._around.node().name)
        if self._around.attachments.volume_attachment(name) is not None:
            self._around.drivers.require(spec.csi_driver, what)
        await self._orders.cancel(name)
        try:
            words = await self._orders.until(name, _gone_or_why, self._around.drivers.timeout)
        except TimeoutError:
            why = f"timed out waiting for CSI driver {spec.csi_driver!r} to detach it"
            raise Doubtful(what, why=why) from None
        if words:
            raise Doubtful(what, why=words)


def _answered(found: VolumeAttachment | None) -> VolumeAttachment | None:
    return found if found is not None and verdict(found) is not Verdict.OPEN else None


def _gone_or_why(found: VolumeAttachment | None) -> str | None:
    """Nothing once it is gone, else the reason why it cannot be detached; None while nobody has said."""
    if found is None:
        return ""
    return found.status.detach_error.message if found.status.detach_error is not None else None
