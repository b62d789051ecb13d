"""What somebody else did to a mount of ours: decided from what should be there and the mount table, and worded."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mooring.host.interface import MountFacts
from mooring.host.mount_events import Shown
from mooring.host.mount_facts import shown_by
from mooring.host.mount_table import MountTable
from mooring.manager.container_mounts import SubPath
from mooring.world.names import PodUid, VolumeName

_NO_DEVICE = 0


class Owner(NamedTuple):
    """Whose a mount is: a pod's of a volume, or with None the volume's stage for all of them."""

    volume: VolumeName
    pod: PodUid | None


class ExpectedMount(NamedTuple):
    """What should be at a path below the root directory: the mount with this id, or with None a plain directory."""

    path: str
    id: int | None
    owner: Owner
    shown: Shown | None = None  # None until it was looked at closely
    sub_path: SubPath | None = None  # what it is bound from, if it is a sub-path of the volume


class ForeignChange(enum.Enum):
    """What can be done to a mount by somebody else, as the label of the metric has it."""

    UNMOUNTED = "unmounted"
    MOVED = "moved"
    REPLACED = "replaced"  # ours is gone, and another one is at its place
    REMADE = "remade"  # ours is gone, and another one that shows the same is at its place
    COVERED = "covered"  # ours is there, and something else is seen at its place
    DOUBLED = "doubled"  # the same was mounted once more on top of ours
    READ_ONLY = "read_only"
    FILE_SYSTEM_READ_ONLY = "file_system_read_only"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What became of a mount; `now` is what is there instead, over it, or it itself as it is now."""

    change: ForeignChange
    now: MountFacts | None = None


def shows_the_same(mount: MountFacts, other: MountFacts) -> bool:
    """Whether two mounts that are both there show the same directory of the same file system."""
    return (mount.device, mount.root) == (other.device, other.root)


def still_shows_the_same(mount: MountFacts, shown: Shown) -> bool:
    """Whether it shows what one that is gone did. Without a device the number may be another file system's by now."""
    return os.major(shown.device) != _NO_DEVICE and (mount.device, mount.root) == (shown.device, shown.root)


def judge(expected: ExpectedMount, table: MountTable) -> Verdict | None:
    """What somebody else did to a mount; None when it is as it should be.

    Something mounted below it is no business of ours: a container may have done so with Bidirectional propagation.
    """
    top = table.at(expected.path)
    if expected.id is None:
        return Verdict(change=ForeignChange.COVERED, now=top) if top is not None else None
    ours = table.by_id(expected.id)
    if ours is None:
        return _gone(expected, top)
    if ours.path != expected.path:
        return Verdict(change=ForeignChange.MOVED, now=ours)
    if top is None or top.id != ours.id:
        is_double = top is not None and shows_the_same(top, ours)
        change = ForeignChange.DOUBLED if is_double else ForeignChange.COVERED
        return Verdict(change=change, now=top or table.holding(expected.path))
    return _flags(expected, ours)


def _gone(expected: ExpectedMount, top: MountFacts | None) -> Verdict:
    if top is None:
        return Verdict(change=ForeignChange.UNMOUNTED)
    is_same = expected.shown is not None and still_shows_the_same(top, expected.shown)
    return Verdict(change=ForeignChange.REMADE if is_same else ForeignChange.REPLACED, now=top)


def _flags(expected: ExpectedMount, ours: MountFacts) -> Verdict | None:
    before, now = expected.shown, shown_by(ours)
    if before is None or before.read_only or before.is_file_system_read_only:
        return None
    if now.is_file_system_read_only:
        return Verdict(change=ForeignChange.FILE_SYSTEM_READ_ONLY, now=ours)
    return Verdict(change=ForeignChange.READ_ONLY, now=ours) if now.read_only else None


def judge_all(
    expected: Iterable[ExpectedMount], mounts: Iterable[MountFacts]
) -> list[tuple[ExpectedMount, Verdict | None]]:
    table = MountTable(mounts)
    return [(each, judge(each, table)) for each in expected]


def described(mount: MountFacts | None) -> str:
    """A mount in words for people: what is mounted, and its type."""
    return f"{mount.source!r} ({mount.fs_type})" if mount is not None else "something"
