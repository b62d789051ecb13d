"""Waiting for a pod's volumes, and the words for a wait that ended without them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet

from mooring.engine.waiters import Waiters
from mooring.errors import MooringError
from mooring.world.actual import ActualStateOfWorld
from mooring.world.desired import DesiredStateOfWorld
from mooring.world.names import PodUid, VolumeName
from mooring.world.planner import is_ready
from mooring.world.presence import Attachability, Presence


class NotMounted(MooringError):
    """A pod's volumes are not all usable. The three lists are the kubelet's, sorted."""

    def __init__(
        self, *, unmounted: Sequence[str], unattached: Sequence[str], unprocessed: Sequence[str], cause: str
    ) -> None:
        self.unmounted = sorted(unmounted)
        self.unattached = sorted(unattached)
        self.unprocessed = sorted(unprocessed)
        self.cause = cause
        lists = (
            f"unmounted volumes={_listed(self.unmounted)}, unattached volumes={_listed(self.unattached)}, "
            f"failed to process volumes={_listed(self.unprocessed)}"
        )
        super().__init__(lists, why=cause)

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


class StillMounted(MooringError):
    """Volumes of a pod that should be gone are or may be there."""

    def __init__(self, *, volumes: Sequence[str], cause: str) -> None:
        self.volumes = sorted(volumes)
        self.cause = cause
        super().__init__(f"mounted volumes={_listed(self.volumes)}", why=cause)

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


def _listed(names: Sequence[str]) -> str:
    return f"[{' '.join(names)}]"


DEADLINE = "context deadline exceeded"
_NODE = ""
"""The key of waits for the whole node; no pod has an empty UID."""


class PodWaits:
    """Waits on single pods. Whoever changes something of a pod calls `notify`; nothing is polled."""

    def __init__(
        self,
        desired: DesiredStateOfWorld,
        actual: ActualStateOfWorld,
        mounting: Callable[[PodUid], AbstractSet[VolumeName]],
    ) -> None:
        self._desired = desired
        self._actual = actual
        self._mounting = mounting  # what is under way counts as there
        self._waiters = Waiters()

    def notify(self, uid: PodUid) -> None:
        self._waiters.notify(uid)

    def notify_node(self) -> None:
        """What this node holds has changed."""
        self._waiters.notify(_NODE)

    async def until_mounted(self, uid: PodUid, expected: frozenset[str], *, timeout: float, fail_fast: bool) -> None:
        """Return when the expected volumes are mounted. A problem of the pod ends the wait at once if `fail_fast`."""
        try:
            problem = await self._waiters.until(uid, lambda: self._verdict(uid, expected, fail_fast), timeout=timeout)
        except TimeoutError as error:
            if self.unmounted(uid, expected):
                raise self._not_mounted(uid, expected, DEADLINE) from error
            return
        if problem:
            raise self._not_mounted(uid, expected, problem)

    def _verdict(self, uid: PodUid, expected: frozenset[str], fail_fast: bool) -> str | None:
        """An empty text when all is mounted, the problem that will not go away, or None to wait on."""
        names = self._desired.names_for_pod(uid)
        if all(outer in names and self._is_ready(uid, names[outer]) for outer in expected):
            return ""
        problems = self._desired.problems(uid)
        if problems and fail_fast:
            return "; ".join(sorted({str(problem) for problem in problems.values()}))
        return None

    def unmounted(self, uid: PodUid, expected: Iterable[str]) -> list[str]:
        """The expected volumes that the pod cannot use."""
        names = self._desired.names_for_pod(uid)
        return [outer for outer in expected if outer not in names or not self._is_ready(uid, names[outer])]

    def _is_ready(self, uid: PodUid, name: VolumeName) -> bool:
        return is_ready(self._desired.volumes.get(name), self._actual.volumes.get(name), uid)

    def _not_mounted(self, uid: PodUid, expected: frozenset[str], cause: str) -> NotMounted:
        names = self._desired.names_for_pod(uid)
        return NotMounted(
            unmounted=self.unmounted(uid, expected),
            unattached=[outer for outer, name in names.items() if self._is_unattached(name)],
            unprocessed=[outer for outer in expected if outer not in names],
            cause=cause,
        )

    def _is_unattached(self, name: VolumeName) -> bool:
        held = self._actual.volumes.get(name)
        if held is None:
            return self._desired.volumes[name].attachable
        if held.attachability is Attachability.UNCERTAIN:
            return False  # found on disk: it counts as attached until the contrary is known
        return self._desired.volumes[name].attachable and held.attachment is not Presence.PRESENT

    async def until_unmounted(self, uid: PodUid, *, timeout: float) -> None:
        """Return when nothing of the pod is or may be mounted."""
        try:
            await self._waiters.until(uid, lambda: None if self._held(uid) else True, timeout=timeout)
        except TimeoutError as error:
            raise StillMounted(volumes=sorted(self._held(uid)), cause=DEADLINE) from error

    def _held(self, uid: PodUid) -> set[VolumeName]:
        """Volumes that are, may be or are being mounted for a pod."""
        return {name for name, _ in self._actual.mounts_of_pod(uid)} | self._mounting(uid)

    async def until_nothing_held(self) -> None:
        """Return when no volume of any pod is or may be on this node."""
        await self._waiters.until(_NODE, lambda: None if self._actual.volumes else True, timeout=None)
