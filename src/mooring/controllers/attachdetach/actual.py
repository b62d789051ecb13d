"""ActualStateOfWorld of the cluster: what is or may be attached where, what nodes use and what their statuses say."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from mooring.world.names import VolumeName
from mooring.world.presence import Presence
from mooring.world.spec import VolumeSpec

Report = tuple[tuple[VolumeName, str], ...]
"""What `volumesAttached` of a node says: names and device paths, sorted."""


class Use(enum.Enum):
    """Whether a node has a volume mounted or is about to."""

    FREE = "free"
    ASSUMED = "assumed"  # the node has said nothing since the attachment is known: only a live look can tell
    IN_USE = "in use"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attachment:
    """A volume that is or may be attached to a node. One that nothing is known of has no attachment at all."""

    volume: VolumeName
    node: str
    presence: Presence
    reported: bool = False  # the node may be told that it is attached
    detach_requested_at: float | None = None  # since when nobody wants it there, on the loop's clock
    kept: bool = False  # it was to be detached, and could not be


@dataclass(frozen=True, slots=True, kw_only=True)
class AttachedVolume:
    """A volume with all its attachments. Spec and device path are those that were told last."""

    name: VolumeName
    spec: VolumeSpec | None  # None: known by its name alone, from the status of a node
    device_path: str
    nodes: Mapping[str, Attachment]


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenStatus:
    """What is known of `volumesAttached` of a node in the API: the last report that was acknowledged."""

    report: Report = ()
    sure: bool = True  # nothing else can stand there now
    failed: bool = False  # the last write failed; nothing is withdrawn from the node until one succeeds
    version: int = 0  # of the Node after the write

    def lists(self, name: VolumeName) -> bool:
        return any(name == each for each, _ in self.report)


_EMPTY = WrittenStatus()


class ActualStateOfWorld:
    """Attachments, uses and statuses, by name. The three are independent. Belongs to the event loop."""

    def __init__(self) -> None:
        self._volumes: dict[VolumeName, AttachedVolume] = {}
        self._on_node: dict[str, dict[VolumeName, None]] = {}
        self._in_use: dict[str, frozenset[VolumeName]] = {}
        self._assumed: dict[str, set[VolumeName]] = {}
        self._heard: dict[str, int] = {}  # version of the Node whose uses are known
        self._written: dict[str, WrittenStatus] = {}

    # -- attachments -----------------------------------------------------------------------------------------------
    def mark(
        self, name: VolumeName, spec: VolumeSpec | None, node: str, presence: Presence, *, device_path: str = ""
    ) -> None:
        """Note that a volume is (PRESENT), may be (UNCERTAIN) or is not (ABSENT) attached to a node.

        A new attachment counts as used until the node has been heard. Of a known one the rest stays as it was.
        """
        if presence is Presence.ABSENT:
            self._remove(name, node)
            return
        known = self._volumes.get(name)
        before = known.nodes.get(node) if known is not None else None
        if before is None:
            before = Attachment(volume=name, node=node, presence=presence)
            self._assumed.setdefault(node, set()).add(name)
            self._on_node.setdefault(node, {})[name] = None
        attachment = replace(before, presence=presence, reported=presence is Presence.PRESENT, kept=False)
        nodes = {**(known.nodes if known is not None else {}), node: attachment}
        kept = spec if spec is not None or known is None else known.spec
        self._volumes[name] = AttachedVolume(name=name, spec=kept, device_path=device_path, nodes=nodes)

    def note_kept(self, name: VolumeName, node: str) -> None:
        """It could not be detached: whoever waits for that waits longer than a moment."""
        found = self.attachment(name, node)
        if found is not None:
            self._put(replace(found, kept=True))

    def learn_spec(self, name: VolumeName, spec: VolumeSpec) -> None:
        """What is known by its name alone gets its spec."""
        known = self._volumes.get(name)
        if known is not None and known.spec is None:
            self._volumes[name] = replace(known, spec=spec)

    def _remove(self, name: VolumeName, node: str) -> None:
        known = self._volumes.get(name)
        if known is None or node not in known.nodes:
            return
        nodes = {each: attachment for each, attachment in known.nodes.items() if each != node}
        if nodes:
            self._volumes[name] = replace(known, nodes=nodes)
        else:
            del self._volumes[name]
        self._assumed.get(node, set()).discard(name)
        del self._on_node[node][name]
        if not self._on_node[node]:
            del self._on_node[node]

    def presence(self, name: VolumeName, node: str) -> Presence:
        found = self.attachment(name, node)
        return found.presence if found is not None else Presence.ABSENT

    def attachment(self, name: VolumeName, node: str) -> Attachment | None:
        known = self._volumes.get(name)
        return known.nodes.get(node) if known is not None else None

    def volume(self, name: VolumeName) -> AttachedVolume | None:
        return self._volumes.get(name)

    def volumes(self) -> Iterator[AttachedVolume]:
        return (self._volumes[name] for name in sorted(self._volumes))

    def on_node(self, node: str) -> list[VolumeName]:
        """All that is or may be attached to a node."""
        return sorted(self._on_node.get(node, ()))

    def nodes(self) -> list[str]:
        """All nodes that something is or may be attached to, or whose status tells of something."""
        return sorted({*self._on_node, *(node for node, status in self._written.items() if status != _EMPTY)})

    # -- the wish to detach ----------------------------------------------------------------------------------------
    def request_detach(self, name: VolumeName, node: str, now: float) -> None:
        """Nobody wants it there, since now or since the request that was made before."""
        found = self.attachment(name, node)
        if found is not None and found.detach_requested_at is None:
            self._put(replace(found, detach_requested_at=now))

    def reset_detach(self, name: VolumeName, node: str) -> None:
        found = self.attachment(name, node)
        if found is not None and found.detach_requested_at is not None:
            self._put(replace(found, detach_requested_at=None))

    # -- what nodes use --------------------------------------------------------------------------------------------
    def hear_node(self, node: str, in_use: Iterable[str], version: int) -> bool:
        """Take over what a Node says it uses; false when a newer one was heard before."""
        if version < self._heard.get(node, 0):
            return False
        self._heard[node] = version
        self._in_use[node] = frozenset(map(VolumeName, in_use))
        self._assumed.pop(node, None)
        return True

    def use(self, name: VolumeName, node: str) -> Use:
        if name in self._assumed.get(node, ()):
            return Use.ASSUMED
        return Use.IN_USE if name in self._in_use.get(node, ()) else Use.FREE

    # -- what statuses say -----------------------------------------------------------------------------------------
    def add_to_report(self, name: VolumeName, node: str) -> None:
        """The node may be told again that it is attached; nothing for what is not known to be attached."""
        found = self.attachment(name, node)
        if found is not None and found.presence is Presence.PRESENT:
            self._put(replace(found, reported=True))

    def remove_from_report(self, name: VolumeName, node: str) -> None:
        found = self.attachment(name, node)
        if found is not None:
            self._put(replace(found, reported=False))

    def report(self, node: str) -> Report:
        """What the status of a node should say."""
        found = (self._volumes[name] for name in self.on_node(node))
        return tuple((each.name, each.device_path) for each in found if each.nodes[node].reported)

    def written(self, node: str) -> WrittenStatus:
        return self._written.get(node, _EMPTY)

    def needs_report(self, node: str) -> bool:
        written = self.written(node)
        return not written.sure or written.report != self.report(node)

    def report_written(self, node: str, report: Report, version: int = 0) -> None:
        self._written[node] = WrittenStatus(report=report, version=max(version, self.written(node).version))

    def report_failed(self, node: str) -> None:
        """Whether the write happened is not known. What was to be withdrawn with it is reported again.

        Only that: what an earlier write has withdrawn may be detached this very moment.
        """
        written = self.written(node)
        self._written[node] = replace(written, sure=False, failed=True)
        for name, _ in written.report:
            self.add_to_report(name, node)

    def doubt_report(self, node: str) -> None:
        """Something else stands there, or a new Node has taken the place of the old one: it is to be written again."""
        self._written[node] = replace(self.written(node), sure=False)

    def _put(self, attachment: Attachment) -> None:
        known = self._volumes[attachment.volume]
        nodes = {**known.nodes, attachment.node: attachment}
        self._volumes[attachment.volume] = replace(known, nodes=nodes)
