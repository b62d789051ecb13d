"""VolumeAttachments: what they say about a volume on this node, and what is written to get one."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

from mooring.csi.names import attachment_name, identity_of, persistent_source
from mooring.kube.objects.meta import ObjectMeta
from mooring.kube.objects.storage import VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec
from mooring.world.names import PodUid
from mooring.world.spec import VolumeSpec

T = TypeVar("T")

HANDLE = "mooring.dev/volume-handle"
"""Annotation with the handle of the volume, for the PersistentVolume may be gone when it is detached."""

NODE_ID = "csi.alpha.kubernetes.io/node-id"
"""Annotation with what the driver calls the node, for the CSINode may be gone when the volume is detached."""

LIMIT_EXCEEDED = 8
"""The gRPC code RESOURCE_EXHAUSTED, as attachers note it: the node has all volumes of the driver that it can have."""


class AttachmentOrders(Protocol):
    """Who writes VolumeAttachments, for whoever attaches to carry out."""

    async def order(self, attachment: VolumeAttachment) -> None:
        """Create it; one that is there already is fine."""
        ...

    async def cancel(self, name: str) -> None:
        """Delete it; one that is gone already is fine."""
        ...

    async def until(self, name: str, answer: Callable[[VolumeAttachment | None], T | None], timeout: float) -> T:
        """The first answer that is not None, asked for at each change; TimeoutError when none comes."""
        ...


class Verdict(enum.Enum):
    """What a VolumeAttachment says."""

    MISSING = "missing"
    LEAVING = "leaving"  # it is being deleted
    FAILED = "failed"
    OPEN = "open"  # nobody has answered yet
    ATTACHED = "attached"


def verdict(attachment: VolumeAttachment | None) -> Verdict:
    if attachment is None:
        return Verdict.MISSING
    if attachment.metadata.deletion_timestamp is not None:
        return Verdict.LEAVING
    if attachment.status.attached:
        return Verdict.ATTACHED
    return Verdict.FAILED if attachment.status.attach_error is not None else Verdict.OPEN


def is_limit_exceeded(attachment: VolumeAttachment) -> bool:
    error = attachment.status.attach_error
    return error is not None and error.error_code == LIMIT_EXCEEDED


def error_words(attachment: VolumeAttachment) -> str:
    """Why a volume could not be attached, for a person."""
    error = attachment.status.attach_error
    words = error.message if error is not None else ""
    if is_limit_exceeded(attachment):
        return f"attach limit exceeded: this node cannot have more volumes of {attachment.spec.attacher!r} ({words})"
    return words or "it could not be attached"


def name_of(spec: VolumeSpec, node: str) -> str:
    """The VolumeAttachment of a PersistentVolume on a node."""
    return attachment_name(identity_of(spec, PodUid("")), node)


def finalizer(driver: str) -> str:
    """What keeps a VolumeAttachment until its volume is detached."""
    return f"external-attacher/{driver.replace('.', '-')}"


def attachment_for(spec: VolumeSpec, node: str) -> VolumeAttachment:
    """The order to attach a volume to a node. One that has no PersistentVolume of its own is written into it."""
    source, volume = persistent_source(spec), spec.persistent_volume
    assert volume is not None
    if spec.written_in_pod:
        origin = VolumeAttachmentSource(inline_volume_spec=volume.spec)
    else:
        origin = VolumeAttachmentSource(persistent_volume_name=volume.metadata.name)
    return VolumeAttachment(
        metadata=ObjectMeta(
            name=name_of(spec, node),
            annotations={HANDLE: source.volume_handle},
            finalizers=(finalizer(source.driver),),
        ),
        spec=VolumeAttachmentSpec(attacher=source.driver, node_name=node, source=origin),
    )


def node_that_has_it(spec: VolumeSpec, node: str, known: Iterable[VolumeAttachment]) -> str | None:
    """Another node that a volume which only one can have is attached to, if there is one."""
    volume = spec.persistent_volume
    if volume is None or not spec.is_for_one_node:
        return None
    handle, driver = persistent_source(spec).volume_handle, persistent_source(spec).driver
    for each in sorted(known, key=lambda each: each.metadata.name):
        same = each.spec.attacher == driver and (
            each.metadata.annotations.get(HANDLE) == handle
            or each.spec.source.persistent_volume_name == volume.metadata.name
        )
        if same and each.spec.node_name != node and each.status.attached:
            return each.spec.node_name
    return None
