"""The file of the offline view: one row per object, secrets sealed, and nothing in it worth stopping for."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Iterator, Mapping
from pathlib import Path

from mooring.errors import MooringError
from mooring.kube import codec
from mooring.kube.objects.kinds import ALL_KINDS, SECRET, Kind
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.seal import Seal

log = logging.getLogger(__name__)

ObjectKey = tuple[str, str, str]
"""Kind, namespace and name."""

RECORD_VERSION = 1
_APPLICATION_ID = 0x4D4F4F46  # "MOOF", so that it is not taken for the local store
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE objects (
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (kind, namespace, name)
) WITHOUT ROWID;
"""
_REMOVE = "DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?"
_PARTS = ("", "-wal", "-shm")
_KINDS: Mapping[str, Kind[KubernetesObject]] = {kind.name: kind for kind in ALL_KINDS}


class Damaged(MooringError):
    """The file could not be made sense of. It was set aside, and the next call begins a new one."""


class OfflineFile:
    """Objects on disk. Used by one thread at a time; a call raises `OSError`, `sqlite3.Error` or `Damaged`."""

    def __init__(self, path: str, seal: Seal | None) -> None:
        self.path = path
        self._seal = seal
        self._open: sqlite3.Connection | None = None

    def keeps(self, kind: str) -> bool:
        """Whether objects of a kind are written at all: without a seal secrets are not."""
        return self._seal is not None or kind != SECRET.name

    def read(self) -> dict[ObjectKey, KubernetesObject]:
        """All objects that can be read; what cannot is dropped from the file."""
        found: dict[ObjectKey, KubernetesObject] = {}
        lost: list[ObjectKey] = []
        for key, version, body in self._rows():
            obj = self._decode(key, version, body)
            if obj is None:
                lost.append(key)
            else:
                found[key] = obj
        if lost:
            log.warning("dropped %d objects of the last view that cannot be read, %s first", len(lost), lost[0])
            self._drop(lost)
        return found

    def write(self, changes: Mapping[ObjectKey, KubernetesObject | None]) -> None:
        """Put and remove objects in one transaction; all is on the disk when this returns, and undone if it raises."""
        written = [(*key, RECORD_VERSION, self._encode(key, obj)) for key, obj in changes.items() if obj is not None]
        removed = [key for key, obj in changes.items() if obj is None]
        connection = self._connection()
        try:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(_REMOVE, removed)
            connection.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", written)
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.rollback()
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                raise self._set_aside(str(error)) from error
            raise

    def _drop(self, lost: list[ObjectKey]) -> None:
        try:
            self.write(dict.fromkeys(lost))
        except sqlite3.OperationalError as error:  # they are dropped again next time
            log.warning("cannot remove them from %s: %s", self.path, error)

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    # -- rows ----------------------------------------------------------------------------------------------------
    def _rows(self) -> Iterator[tuple[ObjectKey, object, object]]:
        try:
            rows = self._connection().execute("SELECT * FROM objects ORDER BY kind, namespace, name").fetchall()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError as error:
            raise self._set_aside(str(error)) from error
        for kind, namespace, name, version, body in rows:
            yield (kind, namespace, name), version, body

    def _encode(self, key: ObjectKey, obj: KubernetesObject) -> bytes:
        body = codec.encode(obj)
        if key[0] != SECRET.name:
            return body
        assert self._seal is not None, "secrets are not kept without a seal"
        return self._seal.close(body, about=_about(key))

    def _decode(self, key: ObjectKey, version: object, body: object) -> KubernetesObject | None:
        kind = _KINDS.get(key[0])
        if version != RECORD_VERSION or kind is None or not isinstance(body, bytes):
            return None
        try:
            if kind.name == SECRET.name:
                if self._seal is None:
                    return None
                body = self._seal.open(body, about=_about(key))
            return codec.decode(kind, body)
        except MooringError:
            return None

    # -- the file itself -----------------------------------------------------------------------------------------
    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            _create_private_file(self.path)
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=0.2)
            connection.text_factory = lambda text: text.decode(errors="replace")  # a damaged name costs its row only
            try:
                _prepare(connection)
            except sqlite3.OperationalError:
                connection.close()
                raise
            except (sqlite3.DatabaseError, _Strange) as error:
                connection.close()
                raise self._set_aside(str(error)) from error
            self._open = connection
        return self._open

    def _set_aside(self, why: str) -> Damaged:
        self.close()
        kept = f"{self.path}.damaged"
        for part in _PARTS:
            if os.path.exists(self.path + part):
                os.replace(self.path + part, kept + part)
        log.warning("the last view %s is damaged (%s); it was moved to %s, and a new one begins", self.path, why, kept)
        return Damaged(f"cannot read the last view '{self.path}'", why=f"the file is damaged ({why})")


class _Strange(Exception):
    """A database that this version did not write."""


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    if tables:
        marks = tuple(connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
        if marks != (_APPLICATION_ID, _SCHEMA_VERSION):
            raise _Strange("another program or another version wrote it")
    else:
        connection.execute("PRAGMA auto_vacuum = FULL")  # the file shrinks with what it holds
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA journal_size_limit = 4194304")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")
    if not tables:
        marks_of_ours = f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_SCHEMA_VERSION};"
        connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {marks_of_ours} COMMIT;")
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise _Strange(verdict)


def _create_private_file(path: str) -> None:
    directory = Path(path).parent
    if not directory.is_dir():
        directory.mkdir(mode=0o700, parents=True)
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        os.fchmod(descriptor, 0o600)
    finally:
        os.close(descriptor)


def _about(key: ObjectKey) -> bytes:
    """What a sealed record is about: it opens in no other row."""
    return "\0".join((str(RECORD_VERSION), *key)).encode()
