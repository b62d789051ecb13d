"""The files that hold blocks, on the file system that tests have: sparse, whole or absent, and never shorter."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mooring.loop_driver.backing import LinuxBackingFiles

MEBIBYTE = 1 << 20


@pytest.fixture
def files() -> LinuxBackingFiles:
    return LinuxBackingFiles()


def test_a_new_file_takes_no_room(files: LinuxBackingFiles, tmp_path: Path) -> None:
    files.create(str(tmp_path / "disk"), 64 * MEBIBYTE)
    found = os.stat(tmp_path / "disk")
    assert found.st_size == 64 * MEBIBYTE
    assert found.st_blocks == 0
    assert found.st_mode & 0o777 == 0o600


def test_a_copy_holds_the_same_with_its_holes_and_may_be_larger(files: LinuxBackingFiles, tmp_path: Path) -> None:
    source, copy = tmp_path / "source", tmp_path / "copy"
    files.create(str(source), 64 * MEBIBYTE)
    with source.open("r+b") as file:
        for place in (0, 10 * MEBIBYTE + 5, 63 * MEBIBYTE):
            file.seek(place)
            file.write(os.urandom(100_000))
    files.copy(str(source), str(copy), 80 * MEBIBYTE)
    content = copy.read_bytes()
    assert content[: 64 * MEBIBYTE] == source.read_bytes()
    assert content[64 * MEBIBYTE :] == bytes(16 * MEBIBYTE)
    assert os.stat(copy).st_blocks * 512 < 2 * MEBIBYTE


def test_a_copy_that_fails_leaves_nothing(files: LinuxBackingFiles, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.copy(str(tmp_path / "missing"), str(tmp_path / "copy"), MEBIBYTE)
    files.create(str(tmp_path / "source"), MEBIBYTE)
    with pytest.raises(OSError, match=r"Invalid argument|too large"):
        files.copy(str(tmp_path / "source"), str(tmp_path / "copy"), (1 << 63) - 1)
    assert os.listdir(tmp_path) == ["source"]


def test_a_file_grows_and_never_shrinks(files: LinuxBackingFiles, tmp_path: Path) -> None:
    path = tmp_path / "disk"
    files.create(str(path), MEBIBYTE)
    for size, expected in ((4 * MEBIBYTE, 4 * MEBIBYTE), (MEBIBYTE, 4 * MEBIBYTE)):
        files.grow(str(path), size)
        assert path.stat().st_size == expected
