"""Who owns the files of a `MemoryHost`: walks that take as long as a test wants, and mounts that show other groups."""

from __future__ import annotations

import asyncio
import errno
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from mooring.host import mount_options
from mooring.host.interface import Risk
from mooring.host.ownership_calls import GroupSwap, Ownership, OwnershipReport, OwnershipWalk
from mooring.testing.memory_files import MemoryFiles
from mooring.testing.memory_mounts import MemoryMounts
from mooring.testing.memory_tree import failure

T = TypeVar("T")


class MemoryOwnershipCalls:
    """What `MemoryHost` inherits. `seconds_per_owned_entry` slows walks over trees down, in the loop's own time."""

    _files: MemoryFiles
    _mounts: MemoryMounts

    def __init__(self) -> None:
        self.seconds_per_owned_entry = 0.0
        self.swaps_groups = True  # whether its file systems have idmapped mounts

    @abstractmethod
    async def run(self, call: Callable[[], T], *, risk: Risk, what: str, at: str = "") -> T: ...

    @abstractmethod
    def _before(self, method: str, path: str) -> None: ...

    @abstractmethod
    def _after(self, method: str, path: str) -> None: ...

    def set_ownership(self, path: str, ownership: Ownership) -> OwnershipReport:
        self._before("set_ownership", path)
        *_, report = self._files.own(path, ownership)
        self._after("set_ownership", path)
        return report

    async def own_tree(self, path: str, ownership: Ownership, walk: OwnershipWalk) -> OwnershipReport:
        walk.begin(ownership.gid)
        if walk.stopped:
            raise failure(errno.ECANCELED, path)
        if not self.seconds_per_owned_entry:
            what = f"give {path} to group {ownership.gid}"
            report = await self.run(lambda: self.set_ownership(path, ownership), risk=Risk.HANGING, what=what)
            walk.count(report.visited, report.changed, report.failed)
            return report
        self._before("set_ownership", path)
        for report in self._files.own(path, ownership):
            walk.count(report.visited, report.changed, report.failed)
            await asyncio.sleep(self.seconds_per_owned_entry)
            if walk.stopped:
                raise failure(errno.ECANCELED, path)
        self._after("set_ownership", path)
        return report

    def bind_swapped(
        self, source: str, target: str, swap: GroupSwap, *, read_only: bool = False, flags: Sequence[str] = ()
    ) -> None:
        self._before("bind", target)
        if not self.swaps_groups:
            raise failure(errno.EINVAL, source)
        chosen = mount_options.parse(flags).mount_flags
        self._mounts.bind_swapped(source, target, swap, read_only or "ro" in chosen, chosen)
        self._after("bind", target)
