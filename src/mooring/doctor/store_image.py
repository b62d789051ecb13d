"""Reads the store's database without opening it: no lock is taken, and no file beside it is made or changed.

A database in write-ahead mode is its file and the committed pages of its log (sqlite.org/fileformat2.html, section
4). Both are put together in memory, and SQLite is given that.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from contextlib import closing

from mooring.doctor.snapshot import StoreFacts

_MOST_BYTES = 256 * 1024 * 1024
_LOG_HEADER = struct.Struct(">IIIIIIII")
_FRAME_HEADER = struct.Struct(">IIIIII")
_LOG_MAGIC = 0x377F0682  # the lowest bit says that checksums are made of big-endian words
_PLAIN_JOURNAL = b"\x01\x01"  # what the header says, at 18, of a database without a write-ahead log
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WORD = 0xFFFF_FFFF


def read_store(path: str) -> StoreFacts:
    """The pods in a store, or why they cannot be told."""
    try:
        image = _image(path)
    except FileNotFoundError:
        return StoreFacts()
    except (OSError, ValueError) as error:
        return StoreFacts(exists=True, trouble=str(error))
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(image)
            (verdict,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            if verdict != "ok":
                return StoreFacts(exists=True, trouble=f"the file is damaged ({verdict})")
            rows = connection.execute("SELECT namespace, name, body FROM objects WHERE kind = 'Pod'").fetchall()
        return StoreFacts(exists=True, pods={_uid(body): f"{namespace}/{name}" for namespace, name, body in rows})
    except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
        return StoreFacts(exists=True, trouble=f"the file is damaged ({error})")


def _uid(body: bytes) -> str:
    uid = json.loads(body)["metadata"]["uid"]
    if not isinstance(uid, str):
        raise TypeError("a pod in it has no UID")
    return uid


def _image(path: str) -> bytes:
    pages = bytearray(_read(path))
    if not pages:
        raise ValueError("the file is empty")
    try:
        log = _read(f"{path}-wal")
    except FileNotFoundError:
        log = b""
    if log:
        _apply(pages, log)
    pages[18:20] = _PLAIN_JOURNAL
    return bytes(pages)


def _read(path: str) -> bytes:
    descriptor = os.open(path, _READ)
    with open(descriptor, "rb") as file:
        data = file.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ValueError(f"{path} is larger than {_MOST_BYTES >> 20} MiB")
    return data


def _apply(pages: bytearray, log: bytes) -> None:
    """Put the pages of every whole transaction of a log where they belong."""
    if len(log) < _LOG_HEADER.size:
        return
    magic, _, size, _, salt, second_salt, first, second = _LOG_HEADER.unpack_from(log)
    if magic & ~1 != _LOG_MAGIC or size == 0:
        return
    order = ">" if magic & 1 else "<"
    sums = _checksum(log[:24], (0, 0), order)
    if sums != (first, second):
        return
    waiting: list[tuple[int, bytes]] = []
    frame = _FRAME_HEADER.size + size
    for start in range(_LOG_HEADER.size, len(log) - frame + 1, frame):
        number, length, one, two, first, second = _FRAME_HEADER.unpack_from(log, start)
        page = log[start + _FRAME_HEADER.size : start + frame]
        sums = _checksum(page, _checksum(log[start : start + 8], sums, order), order)
        if (one, two) != (salt, second_salt) or sums != (first, second):
            return
        waiting.append((number, page))
        if length:
            _commit(pages, waiting, length * size, size)
            waiting = []


def _commit(pages: bytearray, waiting: list[tuple[int, bytes]], length: int, size: int) -> None:
    pages.extend(bytes(max(0, length - len(pages))))
    for number, page in waiting:
        pages[(number - 1) * size : number * size] = page
    del pages[length:]


def _checksum(data: bytes, sums: tuple[int, int], order: str) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) & _WORD
        second = (second + words[at + 1] + first) & _WORD
    return first, second
