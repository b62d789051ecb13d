"""The record that containers of a pod were started: written before the first one is, gone after the last one went."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from mooring.host.durable_files import write_durably
from mooring.host.features import probe
from mooring.host.paths import Paths
from mooring.host.removal import remove_tree
from mooring.runtimes.interface import Role
from mooring.runtimes.processes import ClientProcess

VERSION = 1


class RuntimeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a runtime is reached and used; all of it is needed again to stop what was started."""

    oci_runtime: str = ""  # podman's --runtime; for CRI the name of a runtime handler
    ulimits: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # of every podman call
    endpoint: str = ""  # CRI's socket


class RunRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a client tells about itself: the runtime it will use, and what that one can do."""

    runtime: str
    options: RuntimeOptions = RuntimeOptions()
    recursive_read_only: bool = False
    images: bool = False


class RecordedContainer(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    role: Role


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one pod. Everything it started carries `run` in a label and, where it has one, in its name."""

    uid: str
    pod: str  # `namespace/name`
    run: str
    runtime: str  # `podman` or `cri`
    client: ClientProcess
    containers: tuple[RecordedContainer, ...]
    options: RuntimeOptions = RuntimeOptions()
    sandbox: str = ""  # name of what the containers share; empty where the runtime has no such thing
    grace_seconds: int = 30
    stopping: bool = False  # no container is started any more
    version: int = VERSION

    @property
    def sidecars(self) -> frozenset[str]:
        return frozenset(each.name for each in self.containers if each.role is Role.SIDECAR)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRecord:
    """A record that cannot be made sense of. Whether containers of its pod run is not known."""

    uid: str
    path: str
    why: str


class RunRecords:
    """The records of one root directory, one file each."""

    def __init__(self, paths: Paths) -> None:
        self._paths = paths

    def load(self) -> tuple[list[RunRecord], list[BrokenRecord]]:
        """All records, and those that cannot be used; sorted by UID."""
        records: list[RunRecord] = []
        broken: list[BrokenRecord] = []
        for name in self._names():
            uid, path = name.removesuffix(".json"), f"{self._paths.runs_dir}/{name}"
            try:
                records.append(_decoded(uid, path))
            except (OSError, ValueError) as error:
                broken.append(BrokenRecord(uid=uid, path=path, why=str(error)))
        return records, broken

    def _names(self) -> Sequence[str]:
        with contextlib.suppress(FileNotFoundError):
            return sorted(name for name in os.listdir(self._paths.runs_dir) if name.endswith(".json"))
        return ()

    def read(self, uid: str) -> RunRecord | None:
        """The record of a pod; None when there is none. ValueError when it cannot be used."""
        try:
            return _decoded(uid, self._paths.run_record(uid))
        except FileNotFoundError:
            return None

    def exists(self, uid: str) -> bool:
        return os.path.lexists(self._paths.run_record(uid))

    def begin(self, record: RunRecord) -> None:
        """Write the first record of a run, with all that it needs beside it."""
        os.makedirs(self._paths.runs_dir, 0o700, exist_ok=True)
        self._remove_logs(record.uid)
        for container in record.containers:
            os.makedirs(f"{self._paths.run_logs_dir(record.uid)}/{container.name}", 0o700)
        os.close(os.open(self._paths.run_lock(record.uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self.write(record)

    def write(self, record: RunRecord) -> None:
        """Replace a record; after a crash there is the old one or the new one, whole."""
        directory, name = os.path.split(self._paths.run_record(record.uid))
        write_durably(directory, {name: msgspec.json.format(msgspec.json.encode(record)) + b"\n"})

    def forget(self, uid: str) -> None:
        """Remove a record and what lies beside it. The record goes first: without it the rest means nothing."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._paths.run_record(uid))
            self._sync()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._paths.run_lock(uid))
        self._remove_logs(uid)

    def _remove_logs(self, uid: str) -> None:
        with contextlib.suppress(OSError):
            remove_tree(self._paths.run_logs_dir(uid), probe())

    def _sync(self) -> None:
        descriptor = os.open(self._paths.runs_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class _Versioned(msgspec.Struct, frozen=True):
    version: int


def _decoded(uid: str, path: str) -> RunRecord:
    with open(path, "rb") as stream:
        text = stream.read()
    version = msgspec.json.decode(text, type=_Versioned).version
    if version != VERSION:
        raise ValueError(f"it has version {version}, and this mooring reads version {VERSION}")
    record = msgspec.json.decode(text, type=RunRecord)
    if record.uid != uid:
        raise ValueError(f"it is the record of pod {record.uid!r}")
    return record
