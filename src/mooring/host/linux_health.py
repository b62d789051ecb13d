"""The health calls of `LinuxHost`: asking file systems, debts, and calls that do not return."""

from __future__ import annotations

import errno
import os
from abc import abstractmethod
from collections.abc import Callable, Hashable, Sequence

from mooring.host import answers
from mooring.host.debts import Debts
from mooring.host.durable_files import LinuxDurableCalls
from mooring.host.health import PATIENCE, Answer, Debt, Stall
from mooring.host.interface import MountFacts
from mooring.host.mount_table import MountTable
from mooring.host.threads import Threads


class LinuxHealthCalls(LinuxDurableCalls):
    """What `LinuxHost` inherits. Without `debts_directory` no mount is ever taken away from under its users."""

    threads: Threads

    def __init__(self, debts_directory: str | None) -> None:
        self._asking = answers.Asking()
        self._debts = Debts(self, debts_directory) if debts_directory is not None else None

    @abstractmethod
    def mounts(self) -> Sequence[MountFacts]: ...

    @abstractmethod
    def names_in(self, path: str) -> list[str]: ...

    @abstractmethod
    def read_file(self, path: str) -> bytes: ...

    @abstractmethod
    def remove_file(self, path: str) -> None: ...

    def answers(self, path: str, patience: float = PATIENCE) -> Answer:
        return self._asking.ask(path, patience)

    def server_of(self, path: str) -> str:
        mount = MountTable(self.mounts()).holding(path)
        return "" if mount is None else answers.server_of(mount)

    def owe(self, debt: Debt) -> None:
        if self._debts is None:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), debt.path)
        self._debts.add(debt)

    def debts(self) -> Sequence[Debt]:
        return self._debts.open() if self._debts is not None else ()

    def stalls(self) -> Sequence[Stall]:
        return self.threads.hanging.stalls()

    def give_up(self, work: Hashable, why: str) -> None:
        self.threads.hanging.give_up(work, why)

    def watch_stalls(self, watcher: Callable[[], None]) -> None:
        self.threads.hanging.watch = watcher
