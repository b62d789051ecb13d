"""The ownership calls of `LinuxHost`: walks here and now, walks that take long, and mounts that need none."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from abc import abstractmethod
from collections.abc import Sequence

from mooring.errors import Doubtful
from mooring.host import idmaps, mount_options
from mooring.host import ownership as walks
from mooring.host.features import KernelFeatures
from mooring.host.hanging_calls import tell
from mooring.host.interface import MountFacts
from mooring.host.ownership_calls import GroupSwap, Ownership, OwnershipReport, OwnershipWalk

_LOOKS = 8  # at a walk's figures within the time in which it must get on


class LinuxOwnershipCalls:
    """What `LinuxHost` inherits. A walk that does not get on for `deadline` seconds is not waited for any more."""

    features: KernelFeatures

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline

    @abstractmethod
    def mount_at(self, path: str) -> MountFacts | None: ...

    def set_ownership(self, path: str, ownership: Ownership) -> OwnershipReport:
        return walks.set_ownership(path, ownership, self.features)

    async def own_tree(self, path: str, ownership: Ownership, walk: OwnershipWalk) -> OwnershipReport:
        answer: asyncio.Future[OwnershipReport] = asyncio.get_running_loop().create_future()
        arguments = (path, ownership, walk, answer)
        threading.Thread(target=self._own, args=arguments, name="mooring-ownership", daemon=True).start()
        try:
            await self._until_done_or_stuck(answer, walk)
            if answer.done():
                return answer.result()
        finally:
            answer.cancel()
            walk.stop()  # whatever the thread may come back from has no further effect
        why = f"the walk over its files has not got on for {self._deadline:g} s, at entry {walk.visited:,}"
        raise Doubtful(f"cannot give {path!r} to group {ownership.gid}", why=why)

    async def _until_done_or_stuck(self, answer: asyncio.Future[OwnershipReport], walk: OwnershipWalk) -> None:
        seen, idle = -1, 0
        while not answer.done() and idle < _LOOKS:
            await asyncio.wait({answer}, timeout=self._deadline / _LOOKS)
            idle = idle + 1 if walk.visited == seen else 0
            seen = walk.visited

    def _own(self, path: str, wanted: Ownership, walk: OwnershipWalk, answer: asyncio.Future[OwnershipReport]) -> None:
        loop = answer.get_loop()
        try:
            self._estimate(path, walk)
            report = walks.own_tree(path, wanted, self.features, walk)
        except BaseException as error:  # whatever it is belongs to the one who waits
            failure = error
            tell(loop, lambda: None if answer.done() else answer.set_exception(failure))
        else:
            tell(loop, lambda: None if answer.done() else answer.set_result(report))

    def _estimate(self, path: str, walk: OwnershipWalk) -> None:
        """A whole file system tells how many files it holds, about: it may keep a few for itself, or not tell."""
        mounted = self.mount_at(path)
        if mounted is not None and mounted.root == "/":
            facts = os.statvfs(path)
            walk.expected = facts.f_files - facts.f_ffree or walk.expected

    def bind_swapped(
        self, source: str, target: str, swap: GroupSwap, *, read_only: bool = False, flags: Sequence[str] = ()
    ) -> None:
        if not self.features.detached_mounts:
            raise OSError(errno.EOPNOTSUPP, "this kernel has no idmapped mounts", target)
        chosen = mount_options.parse([*flags, *(("ro",) if read_only else ())])
        idmaps.bind_swapped(source, target, swap, chosen.for_fsmount())
