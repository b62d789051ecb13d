"""The mounts of this node that should be there, and what they looked like when they were set up.

Kept from what operations tell: each costs one statx, and a new mount one statmount. What is under way is known too, so
that nobody takes our own work for somebody else's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping

from mooring.errors import NotYet
from mooring.host.interface import Host, MountFacts
from mooring.host.mount_facts import shown_by
from mooring.host.mount_table import MountTable
from mooring.manager.container_mounts import ContainerView, MountedVolume, SubPath
from mooring.manager.mount_verdicts import (
    ExpectedMount,
    Owner,
    described,
    shows_the_same,
    still_shows_the_same,
)
from mooring.world.changes import Change, Finished, Started
from mooring.world.names import PodUid
from mooring.world.operations import Mount, PodOperation, Stage, Unmount, Unstage, pod_of

_MOST_LAYERS = 16
_MANY = 32  # mounts that are asked about one by one, before all are looked at together


class ExpectedMounts:
    """What should be mounted where, by path and by id. Places outside of the root directory are nobody's business."""

    def __init__(self, host: Host, root: str) -> None:
        self._host = host
        self._prefix = f"{root}/"
        self.by_path: dict[str, ExpectedMount] = {}
        self.by_id: dict[int, str] = {}
        self.suspects: dict[str, None] = {}  # paths at which something may have been changed by others
        self.on_disk: dict[str, ExpectedMount] = {}  # whose file system may become read-only by itself
        self._paths: dict[Owner, tuple[str, ...]] = {}  # nearly always one
        self._holders: set[int] = set()  # ids of mounts that hold places of ours, and are not at one
        self._under_way: dict[Owner, int] = {}
        self._preparing: dict[PodUid, int] = {}
        self._unknown = 0  # places looked at of which nothing was known
        self._alone: dict[str, int] = {}  # once these were many: each place with a single mount, and its id
        self.wake: Callable[[], None] = lambda: None

    # -- what is told --------------------------------------------------------------------------------------------
    def listen(self, change: Change) -> None:
        if isinstance(change, Started):
            if not isinstance(change.operation, PodOperation):
                owner = Owner(change.operation.volume, pod_of(change.operation))
                self._under_way[owner] = self._under_way.get(owner, 0) + 1
        elif isinstance(change, Finished) and not isinstance(change.operation, PodOperation):
            self._finished(change, Owner(change.operation.volume, pod_of(change.operation)))

    def _finished(self, change: Finished, owner: Owner) -> None:
        left = self._under_way.pop(owner, 1) - 1
        if left:
            self._under_way[owner] = left
        if change.outcome.succeeded:
            if isinstance(change.operation, Mount | Stage):
                self.expect(change.outcome.path, owner)
            elif isinstance(change.operation, Unmount | Unstage):
                self.forget(owner)
        if self.suspects:
            self.wake()

    def expect(self, path: str, owner: Owner, sub_path: SubPath | None = None) -> None:
        """Take note of what was set up at a path just now."""
        if not path.startswith(self._prefix):
            return
        identity = self._host.mount_id_at(path)
        before = self.by_path.get(path)
        if before is not None:
            if before.id == identity and before.owner == owner:
                return
            if identity is None and before.id is not None:
                self.suspects[path] = None  # it went while it was looked at
                return
            self._drop(path)
        shown = self._host.shown_by(identity) if identity is not None else None
        if shown is not None and shown.parent_id not in self._holders:
            lowest = self._lowest(path, shown.parent_id)
            if lowest is not None:  # an earlier process set it up, and somebody mounted over it since
                identity, shown = lowest.id, shown_by(lowest)
                self._suspect(path)
        elif shown is None and identity is not None:
            self._suspect(path)
        self._put(ExpectedMount(path, identity, owner, shown, sub_path))

    def _suspect(self, path: str) -> None:
        self.suspects[path] = None
        self.wake()

    def _put(self, expected: ExpectedMount) -> None:
        self.by_path[expected.path] = expected
        others = self._paths.get(expected.owner, ())
        self._paths[expected.owner] = (*others, expected.path)
        if expected.id is not None:
            self.by_id[expected.id] = expected.path
        if expected.shown is not None and not expected.shown.is_in_memory:
            if not self.on_disk:
                self.wake()
            self.on_disk[expected.path] = expected

    def _lowest(self, path: str, holder: int) -> MountFacts | None:
        """The lowest of the mounts below the one at a path, if several are stacked there.

        What is no mount at a place of ours but holds some is asked about once.
        """
        lowest = None
        for _ in range(_MOST_LAYERS):
            below = self._host.mount_by_id(holder)
            if below is None or below.path != path:
                self._holders.add(holder)
                break
            lowest, holder = below, below.parent_id
        return lowest

    def sub_paths_shown(
        self, uid: PodUid, mounted: Mapping[str, MountedVolume], views: Iterable[ContainerView]
    ) -> None:
        """Take note of the sub-paths that the containers of a pod were given."""
        for view in views:
            for mount in view.mounts:
                if mount.sub_path is not None:
                    self.expect(mount.sub_path.target, Owner(mounted[mount.name].name, uid), mount.sub_path)

    def take_instead(self, expected: ExpectedMount, mount: MountFacts) -> None:
        """Somebody put another mount in the place of one, and it shows the same."""
        self._drop(expected.path)
        self._put(expected._replace(id=mount.id, shown=shown_by(mount)))

    def forget(self, owner: Owner) -> None:
        """What was a pod's of a volume, or the volume's stage, is gone."""
        for path in self._paths.get(owner, ()):
            self._drop(path)

    def forget_path(self, path: str) -> None:
        """What was at a path is gone, and nothing is expected there for now."""
        if path in self.by_path:
            self._drop(path)

    def _drop(self, path: str) -> None:
        expected = self.by_path.pop(path)
        others = tuple(other for other in self._paths[expected.owner] if other != path)
        if others:
            self._paths[expected.owner] = others
        else:
            del self._paths[expected.owner]
        if expected.id is not None and self.by_id.get(expected.id) == path:
            del self.by_id[expected.id]
        self.suspects.pop(path, None)
        self.on_disk.pop(path, None)

    @contextlib.contextmanager
    def preparing(self, uid: PodUid) -> Iterator[None]:
        """While the sub-paths of a pod are being made, nothing of the pod is suspicious."""
        self._preparing[uid] = self._preparing.get(uid, 0) + 1
        try:
            yield
        finally:
            self._preparing[uid] -= 1
            if not self._preparing[uid]:
                del self._preparing[uid]
            if self.suspects:
                self.wake()

    def is_busy(self) -> bool:
        return bool(self._under_way)

    def is_worked_on(self, owner: Owner) -> bool:
        """Whether an operation of our own may be changing the mounts of an owner now."""
        if owner in self._under_way or owner.pod in self._preparing:
            return True
        return Owner(owner.volume, None) in self._under_way

    # -- before something is set up or taken down ----------------------------------------------------------------
    def refuse_foreign(self, path: str, owner: Owner, what: str) -> None:
        """Refuse for now to take down a place, or sub-paths of it, where somebody else's mount lies or hides ours."""
        for known in self._paths.get(owner, ()):
            self._refuse_other(self.by_path[known], what)
        if path not in self.by_path and path.startswith(self._prefix):
            self._refuse_mixed(path, what)

    def refuse_cover(self, path: str, what: str) -> None:
        """The same for a place that is set up again. What is there the first time is taken as it is."""
        expected = self.by_path.get(path)
        if expected is not None:
            self._refuse_other(expected, what)

    def refuse_lost_stage(self, path: str, what: str) -> None:
        """Refuse for now to bind a stage that is not mounted any more: a pod would get the empty directory below it."""
        expected = self.by_path.get(path)
        if expected is None or expected.id is None or self._host.mount_id_at(path) == expected.id:
            return
        self._suspect(path)
        raise NotYet(what, why=f"what the node mounts for it at {path} was unmounted or hidden by somebody else")

    def _refuse_other(self, expected: ExpectedMount, what: str) -> None:
        path = expected.path
        if self._host.mount_id_at(path) == expected.id:
            return
        ours = self._host.mount_by_id(expected.id) if expected.id is not None else None
        top = self._host.mount_at(path)
        if top is None:
            if ours is not None and ours.path == path:
                _refuse(what, MountTable(self._host.mounts()).holding(path), "hides it")
            return
        if ours is not None:
            is_ours = shows_the_same(top, ours)
        else:
            is_ours = expected.shown is not None and still_shows_the_same(top, expected.shown)
        if not is_ours:
            is_over = ours is not None or expected.id is None
            _refuse(what, top, f"is mounted over it at {path}" if is_over else f"is mounted in its place at {path}")

    def _was_alone(self, path: str, identity: int) -> bool:
        """Whether a mount had its place for itself when all were looked at, which is done once many are asked about.

        An id is never used again: as long as it is on top nobody has mounted anything over it.
        """
        self._unknown += 1
        if self._unknown == _MANY:
            self._alone = _lone_mounts(self._host.mounts())
        return self._alone.pop(path, None) == identity

    def _refuse_mixed(self, path: str, what: str) -> None:
        """Of a place of which nothing is known, such as after a restart: several layers must all show the same."""
        identity = self._host.mount_id_at(path)
        if identity is None or self._was_alone(path, identity):
            return
        shown = self._host.shown_by(identity)
        if shown is None or shown.parent_id in self._holders:
            return  # nothing is mounted there, or a single mount
        lower = top = self._host.mount_at(path)
        for _ in range(_MOST_LAYERS):
            lower = self._host.mount_by_id(lower.parent_id) if lower is not None else None
            if top is None or lower is None:
                return
            if lower.path != path:
                self._holders.add(lower.id)
                return
            if not shows_the_same(lower, top):
                _refuse(what, top, f"is mounted over it at {path}")


def _lone_mounts(mounts: Iterable[MountFacts]) -> dict[str, int]:
    """The ids of mounts that share their place with no other."""
    found: dict[str, int] = {}
    several: set[str] = set()
    for mount in mounts:
        if found.setdefault(mount.path, mount.id) != mount.id:
            several.add(mount.path)
    return {path: identity for path, identity in found.items() if path not in several}


def _refuse(what: str, mount: MountFacts | None, how: str) -> None:
    where = f" with `umount {mount.path}`" if mount is not None else ""
    raise NotYet(
        what,
        why=f"{described(mount)} {how}, and somebody else mounted that",
        next_step=f"Unmount it{where}; it is tried again by itself",
    )
