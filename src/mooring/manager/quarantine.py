"""What was found on disk and cannot be made sense of: kept apart, told, tried again, and never touched in doubt."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from mooring.host.interface import FileKind, Host
from mooring.manager.reconstruction import Leftover, Reconstruction
from mooring.world.actual import ActualStateOfWorld
from mooring.world.changes import Change, ForceCleaned
from mooring.world.names import PodUid, VolumeName


class Quarantine:
    """Leftovers of volumes. They go when they are understood, when they are gone, or when they are provably empty."""

    def __init__(
        self,
        host: Host,
        actual: ActualStateOfWorld,
        *,
        may_clean: Callable[[PodUid], bool],
        tell: Callable[[Change], None],
    ) -> None:
        self._host = host
        self._actual = actual
        self._may_clean = may_clean
        self._tell = tell
        self._reconstruction: Reconstruction | None = None
        self.leftovers: list[Leftover] = []

    def begin(self, reconstruction: Reconstruction) -> None:
        """Find everything for the first time."""
        self._reconstruction = reconstruction
        self.leftovers = reconstruction.run()

    def volumes(self) -> Iterator[VolumeName]:
        """Volumes that a record tells of: they count as in use."""
        return (leftover.intent.volume for leftover in self.leftovers if leftover.intent is not None)

    def look_again(self) -> list[PodUid]:
        """Try once more with each; returns the pods of those that are settled."""
        kept = [leftover for leftover in self.leftovers if not self._is_settled(leftover)]
        settled = {leftover.found.pod for leftover in self.leftovers if leftover not in kept}
        self.leftovers = kept
        return sorted(settled)

    def _is_settled(self, leftover: Leftover) -> bool:
        found = leftover.found
        assert self._reconstruction is not None
        if leftover.intent is not None:  # what it tells of may be anywhere on this node: its plugin must come back
            return self._reconstruction.adopt_again(leftover)
        if self._host.mount_at(leftover.path) is None and self._host.look(leftover.path) is None:
            return True
        if any(mount.spec.name == found.inner_name for _, mount in self._actual.mounts_of_pod(found.pod)):
            return True  # it was mounted anew, and is known now
        if self._reconstruction.adopt_again(leftover):
            return True
        return self._may_clean(found.pod) and self._cleaned(leftover)

    def _cleaned(self, leftover: Leftover) -> bool:
        """Remove an empty directory that nothing is mounted on, or a link; anything else may be somebody's data."""
        path = leftover.path
        try:
            if self._host.mount_at(path) is not None:
                return self._counted(path, "something is mounted there")
            facts = self._host.look(path)
            if facts is not None and facts.kind is FileKind.DIRECTORY:
                self._host.remove_directory(path)
            elif facts is not None and facts.kind is FileKind.LINK and leftover.found.block:
                self._host.remove_file(path)
            elif facts is not None:
                return self._counted(path, "it is neither an empty directory nor a link to a device")
        except OSError as error:
            return self._counted(path, error.strerror or str(error))
        return self._counted(path, "")

    def _counted(self, path: str, why: str) -> bool:
        self._tell(ForceCleaned(path=path, why=why))
        return not why
