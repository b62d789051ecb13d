"""Records are whole, or told to be damaged; never taken for what they are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mooring.host.linux import LinuxHost
from mooring.host.records import Records, decode, encode, record_name

HOST = LinuxHost()
BODY = {"path": "/a", "number": 3}


def records_in(directory: Path) -> Records:
    return Records(HOST, str(directory))


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    records = records_in(tmp_path / "intents")
    records.write({"one": BODY, "two": {}})
    assert [(each.name, each.body) for each in records.read().records] == [("one", BODY), ("two", {})]
    assert records.read().damaged == ()


def test_nothing_is_made_for_nothing(tmp_path: Path) -> None:
    records_in(tmp_path / "intents").write({})
    assert os.listdir(tmp_path) == []
    assert records_in(tmp_path / "intents").read().records == ()


def test_only_the_owner_may_look(tmp_path: Path) -> None:
    records_in(tmp_path / "intents").write({"one": BODY})
    assert (tmp_path / "intents").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "intents" / "one.record").stat().st_mode & 0o777 == 0o600


def test_a_second_one_of_a_name_replaces_the_first(tmp_path: Path) -> None:
    records = records_in(tmp_path)
    records.write({"one": BODY})
    records.write({"one": {"path": "/b"}})
    assert [each.body for each in records.read().records] == [{"path": "/b"}]


def test_what_is_removed_is_gone_and_may_have_been_before(tmp_path: Path) -> None:
    records = records_in(tmp_path)
    records.write({"one": BODY, "two": BODY})
    records.remove(["one", "never"])
    assert [each.name for each in records.read().records] == ["two"]


@pytest.mark.parametrize("length", range(len(encode(BODY))))
def test_a_record_cut_short_anywhere_is_damaged(tmp_path: Path, length: int) -> None:
    (tmp_path / "one.record").write_bytes(encode(BODY)[:length])
    (damage,) = records_in(tmp_path).read().damaged
    assert damage.path == str(tmp_path / "one.record")


@pytest.mark.parametrize("place", range(len(encode(BODY))))
def test_a_record_with_one_bit_turned_is_damaged(place: int) -> None:
    data = bytearray(encode(BODY))
    data[place] ^= 1
    with pytest.raises(ValueError, match="checksum"):
        decode(bytes(data))


def test_a_record_of_another_version_is_told_as_such() -> None:
    with pytest.raises(ValueError, match="version 2"):
        decode(encode({**BODY, "version": 2}))


def test_foreign_files_are_damage_and_half_written_ones_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "one.new").write_bytes(encode(BODY)[:5])
    (tmp_path / "two.record").mkdir()
    (tmp_path / "three.record").write_bytes(b"\xff\xfe")
    (tmp_path / "four.record").symlink_to("notes.txt")
    reading = records_in(tmp_path).read()
    assert [os.path.basename(each.path) for each in reading.damaged] == [
        "four.record",
        "notes.txt",
        "three.record",
        "two.record",
    ]
    assert reading.records == ()


def test_names_of_records_differ_and_fit_any_file_system() -> None:
    assert record_name("a") != record_name("b")
    assert len(record_name("x" * 10_000)) == 32
