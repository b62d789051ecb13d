"""Mounts that somebody else changed: noticed by the kernel's events, repaired when provably ours, else told.

Own mounts cost next to nothing here: events of this process are not passed on, and all others are looked at together
when operations have ended, a tenth of a second after the first. On an idle node nothing runs.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

from mooring.errors import MooringError
from mooring.host.interface import Host, MountFacts, Risk
from mooring.host.mount_events import MountNews
from mooring.host.mount_limits import MountRoom
from mooring.manager import foreign_words
from mooring.manager.container_mounts import SubPath
from mooring.manager.expected_mounts import ExpectedMounts
from mooring.manager.mount_verdicts import (
    ExpectedMount,
    ForeignChange,
    Owner,
    Verdict,
    judge_all,
)
from mooring.world.actual import ActualStateOfWorld
from mooring.world.changes import Change, Noticed
from mooring.world.desired import DesiredMount, DesiredStateOfWorld
from mooring.world.findings import Finding
from mooring.world.names import PodUid, VolumeName
from mooring.world.outcomes import in_doubt_after_loss
from mooring.world.presence import Presence

log = logging.getLogger(__name__)

_PAUSE = 0.1  # seconds in which changes are collected before they are looked at
_EARLY = 1e-6  # seconds that a timer may fire before its time; what is due by then is due
_LONGEST_PAUSE = 1.0  # and as long as operations of our own are under way
_FLAGS_PAUSE = 5.0  # seconds after which flags are looked at that may have changed among other things
_MOST_REPAIRS = 5  # of one mount: somebody who insists has reasons that a person should find out
_LOST = (ForeignChange.UNMOUNTED, ForeignChange.MOVED, ForeignChange.REPLACED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trouble:
    """What was found at a path and lasts."""

    verdict: Verdict
    finding: Finding
    volume: VolumeName


class MountWatch:
    """Compares what should be mounted with what is, whenever somebody else mounts, unmounts or remounts."""

    def __init__(
        self,
        host: Host,
        root: str,
        expected: ExpectedMounts,
        desired: DesiredStateOfWorld,
        actual: ActualStateOfWorld,
        *,
        interval: float,
        tell: Callable[[Change], None],
        remake: Callable[[Owner, SubPath], Awaitable[None]],
    ) -> None:
        self._host, self._root, self._expected = host, root, expected
        self._desired, self._actual = desired, actual
        self._interval = interval
        self._tell = tell
        self._remake = remake
        self.resume: Callable[[VolumeName], None] = lambda _: None
        self.pod_moved: Callable[[PodUid], None] = lambda _: None
        self.counts: dict[ForeignChange, int] = dict.fromkeys(ForeignChange, 0)
        self._news = asyncio.Event()
        self._troubles: dict[str, _Trouble] = {}
        self._blockers: dict[int, dict[str, None]] = {}  # paths of troubles, by the mount that makes them
        self._repairs: dict[str, int] = {}
        self._flags_at: float | None = None  # when flags that may have changed unseen are looked at
        self._disks_at: float | None = None  # when file systems are asked whether they became read-only
        self._room = MountRoom(used=0, limit=0)
        expected.wake = self._news.set

    def findings(self) -> Iterator[Finding]:
        for path in sorted(self._troubles.keys() & self._expected.by_path.keys()):
            yield self._troubles[path].finding
        yield from foreign_words.crowded(self._room)

    # -- waiting -------------------------------------------------------------------------------------------------
    async def run(self) -> None:
        """Look whenever something changed, until cancelled."""
        events = self._host.watch_mounts(self._news.set)
        try:
            async with asyncio.TaskGroup() as tasks:
                while True:
                    if await self._until_news():
                        await self._until_quiet()
                        self._news.clear()
                        self._suspect(events.take())
                        self._room = self._host.mount_room()
                    self._suspect_flags(asyncio.get_running_loop().time() + _EARLY)
                    await self._examine(tasks)
        finally:
            events.close()

    async def _until_news(self) -> bool:
        """Wait for news; false when instead it was time to look at what no event tells of."""
        loop = asyncio.get_running_loop()
        if self._disks_at is None and self._expected.on_disk:
            self._disks_at = loop.time() + self._interval
        due = min((at for at in (self._disks_at, self._flags_at) if at is not None), default=None)
        try:
            async with asyncio.timeout_at(due):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    async def _until_quiet(self) -> None:
        waited = 0.0
        while waited == 0.0 or (waited < _LONGEST_PAUSE and self._expected.is_busy()):
            await asyncio.sleep(_PAUSE)
            waited += _PAUSE

    # -- what is worth a look ------------------------------------------------------------------------------------
    def _suspect(self, news: MountNews) -> None:
        suspects, by_id = self._expected.suspects, self._expected.by_id
        if news.flags_unseen and self._flags_at is None:
            self._flags_at = asyncio.get_running_loop().time() + min(self._interval, _FLAGS_PAUSE)
        if news.everything:
            self._flags_at = None
            suspects.update(dict.fromkeys((*self._expected.by_path, *self._troubles)))
            return
        for identity in (*news.detached, *news.attached):
            suspects.update(self._blockers.get(identity, {}))
            if identity in by_id:
                suspects[by_id[identity]] = None
        for identity in news.attached:
            mount = self._host.mount_by_id(identity)
            if mount is not None:
                suspects.update(dict.fromkeys(self._hidden_by(mount)))

    def _hidden_by(self, mount: MountFacts) -> list[str]:
        """The places of ours that a mount lies on, or above."""
        path = mount.path
        if path in self._expected.by_path:
            return [path]
        if not path.startswith(f"{self._root}/") and not f"{self._root}/".startswith(f"{path.rstrip('/')}/"):
            return []
        above = f"{path.rstrip('/')}/"
        return [place for place in self._expected.by_path if place.startswith(above)]

    def _suspect_flags(self, now: float) -> None:
        """Suspect what no event tells of: a disk that failed, and flags that changed among many other things."""
        if self._flags_at is not None and self._flags_at <= now:
            self._suspect(MountNews(everything=True))
        if self._disks_at is None or self._disks_at > now:
            return
        self._disks_at = None
        failed: dict[int, bool] = {}
        for path, expected in self._expected.on_disk.items():
            if expected.shown is None or expected.id is None:
                continue
            device = expected.shown.device
            if device not in failed:
                shown = self._host.shown_by(expected.id)
                failed[device] = shown is None or shown.is_file_system_read_only
            if failed[device] or path in self._troubles:
                self._expected.suspects[path] = None

    # -- what was found ------------------------------------------------------------------------------------------
    async def _examine(self, tasks: asyncio.TaskGroup) -> None:
        suspects, by_path = self._expected.suspects, self._expected.by_path
        for path in [path for path in self._troubles if path not in by_path]:
            self._clear(path)
        for path in [path for path in suspects if path not in by_path]:
            del suspects[path]
        chosen = [by_path[path] for path in suspects]
        chosen = [each for each in chosen if not self._expected.is_worked_on(each.owner)]
        if not chosen:
            return
        try:
            verdicts = await self._host.run(
                lambda: judge_all(chosen, self._host.mounts()), risk=Risk.BULKY, what="look at the mount table"
            )
        except (MooringError, OSError) as error:  # it changes too fast to be read, or cannot be read now
            log.info("the mount table is looked at again in a moment: %s", error)
            asyncio.get_running_loop().call_later(_LONGEST_PAUSE, self._news.set)
            return
        for expected, verdict in verdicts:
            if by_path.get(expected.path) is expected and not self._expected.is_worked_on(expected.owner):
                suspects.pop(expected.path, None)
                self._apply(expected, verdict, tasks)

    def _apply(self, expected: ExpectedMount, verdict: Verdict | None, tasks: asyncio.TaskGroup) -> None:
        known = self._troubles.get(expected.path)
        if known is not None and known.verdict == verdict:
            return
        if known is not None:
            self._clear(expected.path)
        if verdict is None or self._presence(expected.owner) is not Presence.PRESENT:
            return
        self.counts[verdict.change] += 1
        repaired = self._repair(expected, verdict)
        self._say(expected, verdict, repaired)
        if not repaired and verdict.change not in (ForeignChange.UNMOUNTED, ForeignChange.MOVED):
            self._remember(expected, verdict)
        if verdict.change in _LOST:
            self._lose(expected, verdict.change, tasks)

    def _say(self, expected: ExpectedMount, verdict: Verdict, repaired: bool) -> None:
        for wish in self._wishes(expected.owner):
            said = foreign_words.message(
                expected,
                verdict,
                wish.outer_names[0],
                repaired=repaired,
                lost=expected.sub_path is None and _is_in_memory_alone(wish),
            )
            log.warning("pod %s: %s (%s)", wish.pod.key, said, expected.path)
            if verdict.change is not ForeignChange.REMADE:
                reason = foreign_words.reason(verdict)
                self._tell(Noticed(pod=wish.pod, volume=wish.spec.name, reason=reason, message=said))

    def _repair(self, expected: ExpectedMount, verdict: Verdict) -> bool:
        """Undo what can be undone without a doubt; short calls that no file system can hold up."""
        path, mount = expected.path, verdict.now
        if verdict.change is ForeignChange.REMADE and mount is not None:
            self._expected.take_instead(expected, mount)
            return True
        if verdict.change not in (ForeignChange.DOUBLED, ForeignChange.READ_ONLY) or mount is None:
            return False
        self._repairs[path] = self._repairs.get(path, 0) + 1
        if self._repairs[path] > _MOST_REPAIRS or self._host.mount_id_at(path) != mount.id:
            return False
        try:
            if verdict.change is ForeignChange.DOUBLED:
                self._host.unmount(path)
                self._expected.suspects[path] = None  # there may be more of them
                self._news.set()
            else:
                self._host.make_writable(path)
        except OSError as error:
            log.warning("cannot undo what was done to %s: %s", path, error)
            return False
        return True

    def _lose(self, expected: ExpectedMount, change: ForeignChange, tasks: asyncio.TaskGroup) -> None:
        """What was unmounted is in doubt, and so it is set up again if somebody wants it."""
        name, pod = expected.owner
        if expected.sub_path is not None:
            if change is not ForeignChange.REPLACED:
                self._expected.forget_path(expected.path)
                tasks.create_task(self._remake_sub_path(expected.owner, expected.sub_path), name="sub-path")
            return
        self._actual.put(in_doubt_after_loss(self._actual.volumes[name], pod))
        self.resume(name)
        if pod is not None:
            self.pod_moved(pod)

    async def _remake_sub_path(self, owner: Owner, sub_path: SubPath) -> None:
        try:
            await self._remake(owner, sub_path)
        except (OSError, MooringError) as error:  # the next start of the container makes it, or tells why not
            log.warning("cannot make the sub-path at %s again: %s", sub_path.target, error)

    def _remember(self, expected: ExpectedMount, verdict: Verdict) -> None:
        wish = next(self._wishes(expected.owner), None)
        volume = wish.outer_names[0] if wish is not None else self._actual.volumes[expected.owner.volume].spec.name
        finding = foreign_words.finding(expected, verdict, volume)
        self._troubles[expected.path] = _Trouble(verdict=verdict, finding=finding, volume=expected.owner.volume)
        if verdict.now is not None:
            self._blockers.setdefault(verdict.now.id, {})[expected.path] = None

    def _clear(self, path: str) -> None:
        trouble = self._troubles.pop(path)
        if trouble.verdict.now is not None:
            blocked = self._blockers[trouble.verdict.now.id]
            del blocked[path]
            if not blocked:
                del self._blockers[trouble.verdict.now.id]
        self.resume(trouble.volume)

    # -- what is known -------------------------------------------------------------------------------------------
    def _presence(self, owner: Owner) -> Presence:
        volume = self._actual.volumes.get(owner.volume)
        if volume is None:
            return Presence.ABSENT
        if owner.pod is None:
            return volume.stage
        mount = volume.mounts.get(owner.pod)
        return mount.presence if mount is not None else Presence.ABSENT

    def _wishes(self, owner: Owner) -> Iterator[DesiredMount]:
        volume = self._desired.volumes.get(owner.volume)
        for pod in sorted(volume.mounts) if volume is not None else ():
            if volume is not None and owner.pod in (None, pod):
                yield volume.mounts[pod]


def _is_in_memory_alone(wish: DesiredMount) -> bool:
    """Whether a volume has its content from nowhere else."""
    source = wish.spec.volume.empty_dir if wish.spec.volume is not None else None
    return source is not None and bool(source.medium)
