"""A machine in memory whose disk may fail to be read."""

from __future__ import annotations

from collections.abc import Callable

from mooring.testing.memory_host import MemoryHost


class UnreliableHost(MemoryHost):
    """`reading(path)` is called before each read of a file or a directory, and may raise an OSError."""

    reading: Callable[[str], None] | None = None

    def names_in(self, path: str) -> list[str]:
        if self.reading is not None:
            self.reading(path)
        return super().names_in(path)

    def read_file(self, path: str) -> bytes:
        if self.reading is not None:
            self.reading(path)
        return super().read_file(path)
