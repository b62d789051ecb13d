"""Servers of a `MemoryHost`'s file systems: they answer, or are gone, or say nothing, as a test wants it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from mooring.host.answers import has_server
from mooring.host.health import PATIENCE, Answer, Debt, Stall
from mooring.testing.memory_tree import FileSystem, Mount, resolve


class MemoryHealthCalls:
    """What `MemoryHost` inherits. Calls never stall here: `MemoryHost.scheduler` decides when they take place."""

    _root: Mount

    def __init__(self) -> None:
        self._answers: dict[FileSystem, Answer] = {}
        self._owed: list[Debt] = []

    def answers(self, path: str, patience: float = PATIENCE) -> Answer:
        return self._answers.get(resolve(self._root, path)[0].file_system, Answer.WELL)

    def server_of(self, path: str) -> str:
        file_system = resolve(self._root, path)[0].file_system
        return f"the server of {file_system.source!r}" if has_server(file_system.type) else ""

    def owe(self, debt: Debt) -> None:
        self._owed.append(debt)

    def debts(self) -> Sequence[Debt]:
        return tuple(self._owed)

    def stalls(self) -> Sequence[Stall]:
        return ()

    def give_up(self, work: Hashable, why: str) -> None:
        return

    def watch_stalls(self, watcher: Callable[[], None]) -> None:
        return

    def let_server(self, path: str, answer: Answer) -> None:
        """Let the server of the file system at a path behave like this from now on."""
        self._answers[resolve(self._root, path)[0].file_system] = answer
