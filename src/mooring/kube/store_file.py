"""The local store's SQLite file: opened with care, written by one thread, durable before it answers."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from mooring.errors import MooringError
from mooring.kube.garbage import FullKey
from mooring.kube.objects.kinds import ALL_KINDS
from mooring.kube.store_draft import Change, Stored

_APPLICATION_ID = 0x4D4F4F52  # "MOOR", so that `file` and we can tell whose database it is
_SCHEMA_VERSION = 1
_SCHEMA = """
CREATE TABLE objects (
    kind TEXT NOT NULL,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    origin BLOB NOT NULL,
    body BLOB NOT NULL,
    applied BLOB NOT NULL,
    PRIMARY KEY (kind, namespace, name)
);
CREATE TABLE store (resource_version INTEGER NOT NULL);
INSERT INTO store VALUES (1);
"""

Done = Callable[[Exception | None], None]


class StoreFile:
    """An open database. Only one process can have it open; `commit` may be called from any one thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            _create_private_file(path)
            self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=0.2)
        except (OSError, sqlite3.Error) as error:
            raise MooringError(
                f"cannot open the store '{path}'", why=str(error), next_step="Check the path and its permissions"
            ) from error
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def load(self) -> tuple[dict[FullKey, Stored], int]:
        """All stored objects, and the resourceVersion of the last write. The file is closed when it is unreadable."""
        try:
            return self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> tuple[dict[FullKey, Stored], int]:
        decoders = {kind.name: msgspec.json.Decoder(kind.type) for kind in ALL_KINDS}
        objects: dict[FullKey, Stored] = {}
        try:
            (version,) = self._connection.execute("SELECT resource_version FROM store").fetchone()
            rows = self._connection.execute("SELECT kind, namespace, name, origin, body, applied FROM objects")
            for kind, namespace, name, origin, body, applied in rows:
                if kind not in decoders:
                    raise self._newer(f"it holds a {kind}, a kind this version does not know")
                objects[kind, namespace, name] = Stored(decoders[kind].decode(body), _decode_origin(origin), applied)
        except (sqlite3.DatabaseError, msgspec.DecodeError, TypeError, ValueError, AttributeError) as error:
            raise self._corrupt(str(error)) from error
        return objects, version

    def commit(self, changes: Iterable[Change], resource_version: int) -> None:
        """Write one batch as one transaction; it is on the disk when this returns, and undone when it raises."""
        last: dict[FullKey, Stored | None] = {change.key: change.after for change in changes}
        written = [
            (*key, _encode_origin(stored.origin), msgspec.json.encode(stored.object), stored.applied)
            for key, stored in last.items()
            if stored is not None
        ]
        removed = [key for key, stored in last.items() if stored is None]
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.executemany("DELETE FROM objects WHERE kind = ? AND namespace = ? AND name = ?", removed)
            connection.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)", written)
            connection.execute("UPDATE store SET resource_version = ?", (resource_version,))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        self._connection.close()

    def _prepare(self) -> None:
        connection = self._connection
        try:
            # Held from the first read on: a second process would write behind the back of our copy in memory.
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            application, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in _MARKS)
            tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
            if tables and application != _APPLICATION_ID:
                raise MooringError(
                    f"cannot open the store '{self.path}'",
                    why="it is a database of another program",
                    next_step="Choose another path; the file was left as it is",
                )
            if version > _SCHEMA_VERSION:
                raise self._newer(f"its format {version} is newer than {_SCHEMA_VERSION}")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")  # a deleted Secret leaves no free page behind
            if not tables:
                marks = f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {_SCHEMA_VERSION};"
                connection.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {marks} COMMIT;")
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        except sqlite3.OperationalError as error:
            raise self._unusable(error) from error
        except sqlite3.DatabaseError as error:
            raise self._corrupt(str(error)) from error
        if verdict != "ok":
            raise self._corrupt(verdict)

    def _unusable(self, error: sqlite3.OperationalError) -> MooringError:
        if error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return MooringError(
                f"cannot open the store '{self.path}'",
                why="another process has it open",
                next_step="Stop the other mooring that runs on the same root, or use another --root",
            )
        return MooringError(
            f"cannot open the store '{self.path}'",
            why=str(error),
            next_step="Check that its file system is writable and not full",
        )

    def _corrupt(self, why: str) -> MooringError:
        return MooringError(
            f"cannot read the store '{self.path}'",
            why=f"the file is damaged ({why})",
            next_step="It was left as it is. Move it away and start again: manifests are read anew, and volumes that "
            "are mounted are found again; objects made by 'apply' are lost unless a backup is put in its place",
        )

    def _newer(self, why: str) -> MooringError:
        return MooringError(
            f"cannot read the store '{self.path}'", why=why, next_step="Run the version of mooring that wrote it"
        )


_MARKS = ("application_id", "user_version")


def _encode_origin(origin: str) -> bytes:
    """An origin is often a path, and Linux allows paths that are not Unicode; Python spells those with surrogates."""
    return origin.encode(errors="surrogatepass")


def _decode_origin(origin: bytes) -> str:
    return origin.decode(errors="surrogatepass")


def _create_private_file(path: Path) -> None:
    if not path.parent.is_dir():
        path.parent.mkdir(mode=0o700, parents=True)
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


class StoreWriter:
    """The one thread that writes a store's file. It is a daemon: a disk that hangs cannot keep the process alive."""

    def __init__(self, file: StoreFile, loop: asyncio.AbstractEventLoop) -> None:
        self._file = file
        self._loop = loop
        self._jobs: queue.SimpleQueue[tuple[list[Change], int, Done] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="store writer", daemon=True)
        self._thread.start()

    def submit(self, changes: list[Change], resource_version: int, done: Done) -> None:
        """Commit a batch; `done` is called on the event loop when it is on the disk, or with the error."""
        self._jobs.put((changes, resource_version, done))

    def stop(self) -> None:
        """Let the thread end after what it was given so far."""
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            changes, resource_version, done = job
            failure: Exception | None = None
            try:
                self._file.commit(changes, resource_version)
            except Exception as error:  # handed to those who wait for the batch; the thread must live on
                failure = error
            # A closed loop means that nobody is left to tell; what was committed is committed.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(done, failure)
