"""Durable files of a `MemoryHost`: what its disk holds outlives every crash, so they are ordinary files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress

from mooring.host.durable_files import NEW
from mooring.host.interface import FileKind, NewFile
from mooring.testing.memory_files import MemoryFiles
from mooring.testing.memory_storage import MemoryStorageCalls


class MemoryDurableCalls(MemoryStorageCalls):
    """What `MemoryHost` inherits. A crash may come after each file that was written and each that was renamed."""

    _files: MemoryFiles

    def __init__(self) -> None:
        super().__init__()
        self.boots = 1

    def write_durably(self, directory: str, files: Mapping[str, bytes]) -> None:
        self._before("write_durably", directory)
        with suppress(FileExistsError):
            self._files.make(directory, FileKind.DIRECTORY, 0o700)
        try:
            self._write_new(directory, files)
        except OSError:
            self._remove_new(directory, files)
            raise
        for name in files:
            self._files.rename(f"{directory}/{name}{NEW}", f"{directory}/{name}")
            self._between("write_durably", f"{directory}/{name}")
        self._after("write_durably", directory)

    def _write_new(self, directory: str, files: Mapping[str, bytes]) -> None:
        self._remove_new(directory, files)
        for name, data in files.items():
            self._files.write(directory, [NewFile(path=f"{name}{NEW}", data=data, mode=0o600)])

    def _remove_new(self, directory: str, names: Iterable[str]) -> None:
        for name in names:
            with suppress(FileNotFoundError):
                self._files.remove_file(f"{directory}/{name}{NEW}")

    def boot_id(self) -> str:
        return f"boot-{self.boots}"
