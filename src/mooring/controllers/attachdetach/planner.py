"""What is to be done about one volume in the cluster, and why what is not done has to wait. Pure."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mooring.controllers.attachdetach.actual import AttachedVolume, Attachment, Use, WrittenStatus
from mooring.controllers.attachdetach.desired import WantedVolume
from mooring.controllers.attachdetach.pod_volumes import may_attach_to_many
from mooring.world.names import VolumeName
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec

_EARLY = 1e-3
"""Seconds that a timer may fire before its time."""


class Forced(enum.Enum):
    """Why a volume is detached although its node may still use it; the label of the metric."""

    TIMEOUT = "timeout"
    OUT_OF_SERVICE = "out-of-service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attach:
    volume: VolumeName
    node: str
    spec: VolumeSpec
    exclusive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdraw:
    """The node is to be told no more that it has the volume; what follows when that is written is a detach."""

    volume: VolumeName
    node: str
    exclusive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """The volume is wanted again before it was detached: the node may be told so again."""

    volume: VolumeName
    node: str
    exclusive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Detach:
    volume: VolumeName
    node: str
    spec: VolumeSpec | None
    exclusive: bool
    verify: bool  # the Node is read once more, and has the last word
    forced: Forced | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TellMultiAttach:
    """The pods that wait are told once that another node has the volume."""

    volume: VolumeName
    node: str
    others: tuple[str, ...]
    exclusive: bool = True


VolumeOperation = Attach | Withdraw | Restore | Detach | TellMultiAttach


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """A node as far as one of its volumes is concerned."""

    use: Use = Use.FREE
    ready: bool = False  # a node without an object is not
    out_of_service: bool = False
    on_its_own: bool = False  # it attaches and detaches by itself, and nothing is done for it
    written: WrittenStatus = field(default_factory=WrittenStatus)
    writing: bool = False  # its status is being written this moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    max_wait_for_unmount: float = 360.0
    force_detach_on_timeout: bool = True


@dataclass(frozen=True, slots=True)
class Wait:
    """Why nothing is done about a volume on a node."""

    node: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    operations: Sequence[VolumeOperation] = ()
    waits: Sequence[Wait] = ()
    wake_at: float | None = None  # when a wait has been long enough, on the loop's clock


def plan(
    name: VolumeName,
    wanted: Mapping[str, WantedVolume],
    held: AttachedVolume | None,
    nodes: Mapping[str, NodeView],
    *,
    policy: Policy,
    now: float,
) -> Plan:
    """The operations that are due now for one volume: what releases it first, so that it can go elsewhere.

    Only the next step is planned. The outcome of that step changes what is known, and planning runs again.
    """
    planning = _Planning(name, wanted, held, nodes, policy, now)
    for node in sorted(planning.attachments.keys() - wanted.keys()):
        planning.release(planning.attachments[node])
    for node in sorted(wanted):
        planning.obtain(wanted[node])
    return Plan(operations=planning.operations, waits=planning.waits, wake_at=planning.wake_at)


class _Planning:
    """One run of the planner: what it looks at, and what it has decided so far."""

    def __init__(
        self,
        name: VolumeName,
        wanted: Mapping[str, WantedVolume],
        held: AttachedVolume | None,
        nodes: Mapping[str, NodeView],
        policy: Policy,
        now: float,
    ) -> None:
        self.name, self.wanted, self.nodes, self.policy, self.now = name, wanted, nodes, policy, now
        self.attachments: Mapping[str, Attachment] = held.nodes if held is not None else {}
        first = wanted[min(wanted)].spec if wanted else None
        self.spec = first or (held.spec if held is not None else None)
        self.exclusive = not may_attach_to_many(self.spec)
        self.operations: list[VolumeOperation] = []
        self.waits: list[Wait] = []
        self.wake_at: float | None = None
        self.stuck: set[str] = set(wanted)  # nodes that will not let go of it soon

    def release(self, attachment: Attachment) -> None:
        """A node that nobody wants the volume on lets go of it, step by step."""
        node = self.nodes.get(attachment.node, NodeView())
        if node.on_its_own:
            self._wait(attachment.node, "the node attaches volumes by itself, and has not let go of this one")
            self.stuck.add(attachment.node)
            return
        since = attachment.detach_requested_at if attachment.detach_requested_at is not None else self.now
        ends = since + self.policy.max_wait_for_unmount
        expired = self.policy.force_detach_on_timeout and self.now + _EARLY >= ends
        forced = node.out_of_service or (expired and not node.ready)
        if node.use is Use.IN_USE and not forced:
            self._wait_for_unmount(attachment.node, ends if not expired else None)
        elif attachment.reported and node.written.failed:
            self._wait(attachment.node, "the status of the node cannot be written")
            self.stuck.add(attachment.node)
        elif attachment.reported:
            self.operations.append(Withdraw(volume=self.name, node=attachment.node, exclusive=self.exclusive))
        elif node.writing or not node.written.sure or node.written.lists(self.name):
            self._wait(attachment.node, "the node has not been told yet that the volume will go")
        else:
            if attachment.kept:
                self.stuck.add(attachment.node)
            counted = Forced.TIMEOUT if expired else Forced.OUT_OF_SERVICE if node.out_of_service else None
            # On a node that is ready, only a live look proves that nothing is mounted; after the longest wait, too.
            self.operations.append(
                Detach(
                    volume=self.name,
                    node=attachment.node,
                    spec=self.spec,
                    exclusive=self.exclusive,
                    verify=not forced,
                    forced=counted,
                )
            )

    def _wait_for_unmount(self, node: str, ends: float | None) -> None:
        self._wait(node, "the node still uses the volume")
        self.stuck.add(node)
        if ends is not None and self.policy.force_detach_on_timeout:
            self.wake_at = ends if self.wake_at is None else min(self.wake_at, ends)

    def obtain(self, wanted: WantedVolume) -> None:
        """A node that pods want the volume on gets it, unless only one node may have it and another one does."""
        held = self.attachments.get(wanted.node)
        if held is not None and held.presence is Presence.PRESENT:
            if not held.reported:
                self.operations.append(Restore(volume=self.name, node=wanted.node, exclusive=self.exclusive))
            return
        others = tuple(sorted(self.attachments.keys() - {wanted.node}))
        if self.exclusive and others and not (held is not None and self._all_in_doubt()):
            # In doubt counts as attached: nothing proves yet that the other node cannot write to it.
            self._wait(wanted.node, f"the volume is or may be attached to node {others[0]!r}")
            if not wanted.multi_attach_told and self.stuck & set(others):
                self.operations.append(TellMultiAttach(volume=self.name, node=wanted.node, others=others))
        elif self.exclusive and held is None and any(isinstance(each, Attach) for each in self.operations):
            self._wait(wanted.node, "the volume is being attached to another node")
        else:
            self.operations.append(
                Attach(volume=self.name, node=wanted.node, spec=wanted.spec, exclusive=self.exclusive)
            )

    def _all_in_doubt(self) -> bool:
        """Whether all that may have it want it, and none is known to: then none lets go, and each is asked in turn."""
        held = self.attachments.values()
        return all(each.presence is Presence.UNCERTAIN and each.node in self.wanted for each in held)

    def _wait(self, node: str, why: str) -> None:
        self.waits.append(Wait(node, why))
