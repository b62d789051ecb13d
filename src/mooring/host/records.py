"""Small files that must be whole or absent: each is versioned, checksummed, and replaced in one step.

A record is one JSON object in one line with a checksum before it. What cannot be read as such is told as damaged and
never taken for something it is not, nor removed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from mooring.host.durable_files import NEW, RecordFiles

VERSION = 1
_SUFFIX = ".record"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record as it was read."""

    name: str
    body: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """A file among the records that is none, or no whole one."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """All that a directory of records holds."""

    records: tuple[Record, ...] = ()
    damaged: tuple[Damage, ...] = ()


def record_name(key: str) -> str:
    """A name for the record of anything, however long and odd its key."""
    return hashlib.sha256(key.encode()).hexdigest()[:32]


def encode(body: Mapping[str, object]) -> bytes:
    """A record's bytes."""
    text = json.dumps({"version": VERSION, **body}, sort_keys=True, separators=(",", ":"))
    return f"{_checksum(text)} {text}\n".encode()


def decode(data: bytes) -> dict[str, object]:
    """The body in a record's bytes; ValueError says what is wrong with them."""
    try:
        line = data.decode()
    except UnicodeDecodeError:
        raise ValueError("it is not text") from None
    checksum, _, text = line.removesuffix("\n").partition(" ")
    if not line.endswith("\n") or checksum != _checksum(text):
        raise ValueError("its checksum is wrong: it is cut short, was changed, or is no record")
    body = json.loads(text)
    if not isinstance(body, dict):
        raise ValueError("it holds no object")
    version = body.pop("version", None)
    if version != VERSION:
        raise ValueError(f"it has version {version!r}, and only {VERSION} is known")
    return body


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Records:
    """The records in one directory, which is made, for its owner only, when the first one is written."""

    def __init__(self, host: RecordFiles, directory: str) -> None:
        self._host = host
        self.directory = directory

    def path(self, name: str) -> str:
        """Where a record lies."""
        return f"{self.directory}/{name}{_SUFFIX}"

    def name(self, path: str) -> str:
        """The name of the record that lies at a path."""
        return path.removeprefix(f"{self.directory}/").removesuffix(_SUFFIX)

    def write(self, bodies: Mapping[str, Mapping[str, object]]) -> None:
        """Make records of these names durable, old ones of the same names replaced."""
        if bodies:
            self._host.write_durably(
                self.directory, {f"{name}{_SUFFIX}": encode(body) for name, body in bodies.items()}
            )

    def remove(self, names: Iterable[str]) -> None:
        """Forget records. Not synced: one that comes back after a crash is only looked at once more."""
        for name in names:
            with suppress(FileNotFoundError):
                self._host.remove_file(self.path(name))

    def sweep(self) -> None:
        """Remove what a crash left half written; only whoever writes the records may do so."""
        with suppress(OSError):  # it is passed over anyway, and is tried again at the next start
            for file in self._host.names_in(self.directory):
                if file.endswith(NEW):
                    self._host.remove_file(f"{self.directory}/{file}")

    def read(self) -> Reading:
        """Every record, and what cannot be read as one. What a crash left half written is passed over."""
        records: list[Record] = []
        damaged: list[Damage] = []
        try:
            names = self._host.names_in(self.directory)
        except FileNotFoundError:
            return Reading()
        except OSError as error:
            return Reading(damaged=(Damage(path=self.directory, why=str(error)),))
        for file in names:
            if file.endswith(NEW):
                continue
            path = f"{self.directory}/{file}"
            try:
                if not file.endswith(_SUFFIX):
                    raise ValueError("it is no record")
                records.append(Record(name=file.removesuffix(_SUFFIX), body=decode(self._host.read_file(path))))
            except (OSError, ValueError) as error:
                damaged.append(Damage(path=path, why=str(error)))
        return Reading(records=tuple(records), damaged=tuple(damaged))
