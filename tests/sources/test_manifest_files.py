"""Which files are read, and when."""

from __future__ import annotations

import builtins
import os
from pathlib import Path

import pytest
from tests.sources.conftest import config_map

from mooring.sources.manifest_files import ManifestFiles, Reading, scan


def names(reading: Reading) -> list[str]:
    return [key[2] for key in reading.objects]


def those(*files: object) -> frozenset[str]:
    return frozenset(map(str, files))


def test_a_scan_is_sorted_and_names_directories_to_watch(place: Path) -> None:
    (place / "b").mkdir()
    for name in ("z.yaml", "a.json", "b/m.yml"):
        (place / name).touch()
    found = scan([str(place)])
    assert list(found.files) == [f"{place}/a.json", f"{place}/b/m.yml", f"{place}/z.yaml"]
    assert list(found.directories) == [str(place), f"{place}/b"]
    assert list(found.unreadable) == []


def test_a_path_that_is_not_there_is_unreadable_and_its_parent_is_watched(place: Path) -> None:
    found = scan([f"{place}/missing.yaml"])
    assert (list(found.files), list(found.directories)) == ([], [str(place)])
    assert list(found.unreadable) == [(f"{place}/missing.yaml", "there is no such file or directory")]


def test_unchanged_files_are_not_opened_again(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [f"{place}/a.yaml", f"{place}/b.yaml"]
    for file in files:
        Path(file).write_text(config_map(Path(file).stem))
    reader = ManifestFiles("node")
    assert reader.read(files).changed == those(*files)
    opened: list[object] = []
    real = builtins.open

    def watched(path: str, mode: str) -> object:
        opened.append(path)
        return real(path, mode)

    monkeypatch.setattr(builtins, "open", watched)
    Path(files[1]).touch()
    again = reader.read(files)
    assert opened == [files[1]]
    assert (names(again), again.changed) == (["a", "b"], those(files[1]))


def test_files_that_stay_as_they_are_give_the_same_reading(place: Path) -> None:
    files = [f"{place}/a.yaml", f"{place}/b.yaml"]
    for file in files:
        Path(file).write_text(config_map(Path(file).stem))
    reader = ManifestFiles("node")
    assert reader.read(files).changed == those(*files)
    settled = reader.read(files)
    assert settled.changed == those()
    assert reader.read(files) is settled
    Path(files[0]).unlink()
    assert reader.read(files).findings  # it is named and cannot be read
    assert names(reader.read(files[1:])) == ["b"]
    Path(files[0]).write_text(config_map("a", "2"))
    assert (reader.read(files).changed, reader.read(files).changed) == (those(files[0]), those())


def test_a_file_that_somebody_is_writing_is_left_until_they_are_done(place: Path) -> None:
    file = place / "a.yaml"
    file.write_text(config_map("a"))
    reader = ManifestFiles("node")
    reader.read([str(file)])
    with file.open("w") as stream:
        during = reader.read([str(file)])
        assert (names(during), during.changed, during.findings) == (["a"], those(), ())
        stream.write(config_map("a", "2"))
    after = reader.read([str(file)])
    assert (after.changed, after.broken) == (those(file), those())


def test_a_new_file_that_is_being_written_takes_nothing_away_from_the_store(place: Path) -> None:
    file = place / "a.yaml"
    with file.open("w"):
        during = ManifestFiles("node").read([str(file)])
    assert (names(during), during.broken, during.findings) == ([], those(file), ())


def test_warnings_are_findings_that_break_nothing(place: Path) -> None:
    file = place / "a.yaml"
    file.write_text(config_map("a") + "extra: field\n")
    reading = ManifestFiles("node").read([str(file)])
    assert (names(reading), reading.broken) == (["a"], those())
    assert [(finding.kind, finding.where) for finding in reading.findings] == [("warning", f"{file}:7: extra")]


def test_objects_get_their_defaults(place: Path) -> None:
    file = place / "a.yaml"
    file.write_text(config_map("a"))
    ((obj, path),) = ManifestFiles("node").read([str(file)]).objects.values()
    assert (obj.metadata.namespace, bool(obj.metadata.uid), path) == ("default", True, str(file))


def test_a_file_that_vanishes_between_the_scan_and_the_reading_is_a_finding(place: Path) -> None:
    file = place / "a.yaml"
    file.write_text(config_map("a"))
    reader = ManifestFiles("node")
    reader.read([str(file)])
    os.unlink(file)
    reading = reader.read([str(file)])
    assert (names(reading), reading.broken) == (["a"], those(file))
    assert "cannot be read: No such file or directory" in reading.findings[0].what
