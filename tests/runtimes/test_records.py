"""Records of runs on disk: whole, versioned, and a finding when they cannot be read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from mooring.host.paths import Paths
from mooring.runtimes.interface import Role
from mooring.runtimes.processes import process_of
from mooring.runtimes.records import RecordedContainer, RunRecord, RunRecords, RuntimeOptions

OWN = process_of(os.getpid())
assert OWN is not None
RECORD = RunRecord(
    uid="uid-web",
    pod="default/web",
    run="run1",
    runtime="cri",
    client=OWN,
    containers=(RecordedContainer(name="log", role=Role.SIDECAR), RecordedContainer(name="main", role=Role.REGULAR)),
    options=RuntimeOptions(endpoint="/run/c.sock", ulimits=("nofile=1:2",)),
    sandbox="web_default_uid-web_0",
)


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    return Paths(str(tmp_path))


def test_what_was_written_is_read_again(paths: Paths) -> None:
    RunRecords(paths).begin(RECORD)
    assert RunRecords(paths).load() == ([RECORD], [])
    assert RunRecords(paths).read("uid-web") == RECORD
    assert RECORD.sidecars == {"log"}


def test_only_its_owner_can_look_at_a_record(paths: Paths) -> None:
    RunRecords(paths).begin(RECORD)
    assert os.stat(paths.runs_dir).st_mode & 0o777 == 0o700
    assert os.stat(paths.run_record("uid-web")).st_mode & 0o777 == 0o600


def test_a_changed_record_takes_the_place_of_the_earlier_one(paths: Paths) -> None:
    records = RunRecords(paths)
    records.begin(RECORD)
    records.write(replace(RECORD, stopping=True))
    assert records.load() == ([replace(RECORD, stopping=True)], [])


def test_a_draft_that_a_crash_left_is_no_record(paths: Paths) -> None:
    records = RunRecords(paths)
    records.begin(RECORD)
    Path(f"{paths.run_record('uid-web')}.new").write_text("{")
    assert records.load() == ([RECORD], [])


def test_logs_of_an_earlier_run_are_not_shown_again(paths: Paths) -> None:
    old = Path(paths.run_logs_dir("uid-web"), "main", "0.log")
    old.parent.mkdir(parents=True)
    old.write_text("old")
    RunRecords(paths).begin(RECORD)
    assert sorted(os.listdir(paths.run_logs_dir("uid-web"))) == ["log", "main"]
    assert not old.exists()


def test_a_forgotten_record_leaves_nothing(paths: Paths) -> None:
    records = RunRecords(paths)
    records.begin(RECORD)
    records.forget("uid-web")
    records.forget("uid-web")
    assert os.listdir(paths.runs_dir) == []
    assert records.read("uid-web") is None


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "truncated"),
        ("{", "truncated"),
        ('{"version": 1}', "missing required field"),
        ('{"version": 2}', "it has version 2, and this mooring reads version 1"),
        ("\0" * 64, "malformed"),
    ],
)
def test_a_record_that_cannot_be_read_is_told_and_hides_no_other(paths: Paths, text: str, why: str) -> None:
    records = RunRecords(paths)
    records.begin(RECORD)
    Path(paths.run_record("uid-odd")).write_text(text)
    good, [broken] = records.load()
    assert good == [RECORD]
    assert (broken.uid, broken.path) == ("uid-odd", paths.run_record("uid-odd"))
    assert why in broken.why


def test_a_record_under_the_name_of_another_pod_is_not_believed(paths: Paths) -> None:
    records = RunRecords(paths)
    records.begin(RECORD)
    os.rename(paths.run_record("uid-web"), paths.run_record("uid-other"))
    good, [broken] = records.load()
    assert (good, broken.uid) == ([], "uid-other")


def test_without_a_directory_there_are_no_records(paths: Paths) -> None:
    assert RunRecords(paths).load() == ([], [])
