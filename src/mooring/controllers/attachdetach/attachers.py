"""Who attaches volumes to nodes for the controller: external attachers, by way of VolumeAttachments, or nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import structs

from mooring.controllers.attachdetach.pod_volumes import plugin_of
from mooring.csi import names
from mooring.csi.attachments import AttachmentOrders, Verdict, attachment_for, verdict
from mooring.errors import Doubtful, MooringError, Refused
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import VolumeAttachment
from mooring.plugins import fc_disks, iscsi_disk
from mooring.plugins.iscsi_places import NAME as ISCSI
from mooring.world.names import VolumeName, split_volume_name
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec


class DanglingAttachment(MooringError):
    """The volume is not attached as asked for, because it hangs on another node."""

    def __init__(self, what: str, *, why: str, node: str) -> None:
        self.node = node
        super().__init__(what, why=why)


class VolumeAttacher(Protocol):
    """Attaches and detaches. Each call may run twice; the second finds the work done."""

    async def attach(self, spec: VolumeSpec, node: str) -> str:
        """The device path, if there is one. Whatever is raised leaves open whether it is attached."""
        ...

    async def detach(self, name: VolumeName, node: str) -> None:
        """Returns only when the volume is proven to be detached."""
        ...

    def look(self, name: VolumeName, node: str) -> Presence | None:
        """Whether it is attached, at once; None when that cannot be said."""
        ...


class CSIVolumeAttacher:
    """Writes VolumeAttachments, and awaits what an external attacher or our own says in them."""

    def __init__(
        self,
        orders: AttachmentOrders,
        known: Callable[[str], VolumeAttachment | None],
        *,
        timeout: float,
    ) -> None:
        self._orders, self._known, self._timeout = orders, known, timeout

    async def attach(self, spec: VolumeSpec, node: str) -> str:
        driver = spec.csi_driver
        wanted = attachment_for(spec, node)
        # Whoever attaches puts its own finalizer on it before it begins: ours would stay where nobody does.
        wanted = structs.replace(wanted, metadata=ObjectMeta(name=wanted.metadata.name))
        what = f"cannot attach volume {spec.name!r} to node {node!r}"
        await self._orders.order(wanted)
        try:
            found = await self._orders.until(wanted.metadata.name, _answered, self._timeout)
        except TimeoutError:
            handle = names.persistent_source(spec).volume_handle
            why = f"timed out waiting for external-attacher of {driver} CSI driver to attach volume {handle}"
            raise Doubtful(what, why=why, next_step=f"Check that an attacher of {driver!r} runs") from None
        match verdict(found):
            case Verdict.ATTACHED:
                return ""
            case Verdict.LEAVING:
                raise Doubtful(what, why="volume attachment is being deleted")
            case _:
                error = found.status.attach_error
                raise Doubtful(what, why=error.message if error is not None else "it could not be attached")

    async def detach(self, name: VolumeName, node: str) -> None:
        what, order = f"cannot detach volume {name!r} from node {node!r}", attachment_name(name, node)
        if order is None:
            raise Refused(what, why="it is no volume of a CSI driver")
        await self._orders.cancel(order)
        try:
            words = await self._orders.until(order, _gone_or_why, self._timeout)
        except TimeoutError:
            why = "timed out waiting for the external-attacher of its CSI driver to detach it"
            raise Doubtful(what, why=why) from None
        if words:
            raise Doubtful(what, why=words)

    def look(self, name: VolumeName, node: str) -> Presence | None:
        order = attachment_name(name, node)
        if order is None:
            return None
        found = self._known(order)
        if found is None:
            return Presence.ABSENT
        # One that waits for an answer, or that somebody else deletes, may be attached all the same.
        return Presence.PRESENT if found.status.attached else Presence.UNCERTAIN


class NetworkDiskAttacher:
    """Disks on a network are attached by each node that mounts them. There is nothing to do, and nothing to see."""

    async def attach(self, spec: VolumeSpec, node: str) -> str:
        return ""

    async def detach(self, name: VolumeName, node: str) -> None:
        return

    def look(self, name: VolumeName, node: str) -> Presence | None:
        return None


class AttacherByType:
    """Leaves disks on a network to one attacher, and all other volumes to another."""

    def __init__(self, others: VolumeAttacher, disks: VolumeAttacher) -> None:
        self._others, self._disks = others, disks

    async def attach(self, spec: VolumeSpec, node: str) -> str:
        is_disk = iscsi_disk.source_of(spec) is not None or fc_disks.source_of(spec) is not None
        return await (self._disks if is_disk else self._others).attach(spec, node)

    async def detach(self, name: VolumeName, node: str) -> None:
        await self._of(name).detach(name, node)

    def look(self, name: VolumeName, node: str) -> Presence | None:
        return self._of(name).look(name, node)

    def _of(self, name: VolumeName) -> VolumeAttacher:
        return self._disks if plugin_of(name) in (ISCSI, fc_disks.NAME) else self._others


def attachment_name(name: VolumeName, node: str) -> str | None:
    """The VolumeAttachment of a volume on a node; None for what is no volume of a CSI driver."""
    try:
        plugin, backing = split_volume_name(name)
        if plugin != names.NAME:
            return None
        return names.attachment_name(names.split_volume_name(backing), node)
    except ValueError:
        return None


def _answered(found: VolumeAttachment | None) -> VolumeAttachment | None:
    return found if found is not None and verdict(found) is not Verdict.OPEN else None


def _gone_or_why(found: VolumeAttachment | None) -> str | None:
    """Nothing once it is gone, else the reason why it cannot be detached; None while nobody has said."""
    if found is None:
        return ""
    return found.status.detach_error.message if found.status.detach_error is not None else None
