"""The store is read as SQLite would read it, and stays as it is."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.doctor.store_image import read_store

ROW = "INSERT INTO objects VALUES (?, ?, ?, ?)"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A database in write-ahead mode that is open, so that nothing is moved out of its log."""
    made = sqlite3.connect(tmp_path / "objects.db", isolation_level=None)
    made.execute("PRAGMA journal_mode = WAL")
    made.execute("PRAGMA wal_autocheckpoint = 0")
    made.execute("CREATE TABLE objects (kind, namespace, name, body)")
    yield made
    made.close()


def pod(name: str) -> tuple[str, str, str, bytes]:
    return "Pod", "default", name, f'{{"metadata": {{"uid": "uid-of-{name}"}}}}'.encode()


def test_pods_that_are_only_in_the_log_are_found(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute(ROW, pod("web"))
    assert os.path.getsize(tmp_path / "objects.db-wal") > 0
    assert read_store(str(tmp_path / "objects.db")).pods == {"uid-of-web": "default/web"}


def test_pods_that_were_moved_out_of_the_log_are_found(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute(ROW, pod("web"))
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.execute(ROW, pod("more"))
    assert set(read_store(str(tmp_path / "objects.db")).pods) == {"uid-of-web", "uid-of-more"}


def test_frames_of_an_earlier_round_of_the_log_do_not_count(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.executemany(ROW, [pod(f"old-{number}") for number in range(500)])
    database.execute("PRAGMA wal_checkpoint(RESTART)")
    database.execute("DELETE FROM objects")
    database.execute(ROW, pod("new"))
    assert set(read_store(str(tmp_path / "objects.db")).pods) == {"uid-of-new"}


def test_a_transaction_that_was_cut_short_does_not_count(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute(ROW, pod("whole"))
    database.execute(ROW, pod("torn"))
    log = tmp_path / "objects.db-wal"
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "objects.db").write_bytes((tmp_path / "objects.db").read_bytes())
    (copy / "objects.db-wal").write_bytes(log.read_bytes()[:-10])
    assert set(read_store(str(copy / "objects.db")).pods) == {"uid-of-whole"}


def test_nothing_beside_the_store_is_made_or_changed(tmp_path: Path, database: sqlite3.Connection) -> None:
    database.execute(ROW, pod("web"))
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")}
    read_store(str(tmp_path / "objects.db"))
    assert {path: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")} == before


@pytest.mark.parametrize(
    "data", [b"", b"SQLite format 3\0", b"no database at all" * 300], ids=["empty", "cut", "other"]
)
def test_a_damaged_store_is_trouble_and_not_a_store_without_pods(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "objects.db").write_bytes(data)
    assert read_store(str(tmp_path / "objects.db")).trouble


def test_no_store_is_no_trouble(tmp_path: Path) -> None:
    facts = read_store(str(tmp_path / "objects.db"))
    assert (facts.exists, facts.trouble) == (False, "")
