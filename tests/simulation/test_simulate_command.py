"""The `mooring simulate` command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mooring.daemon.command_line import run
from mooring.testing.simulation.history import make_script
from mooring.testing.simulation.script import to_json


def test_histories_that_hold_end_with_one_line_and_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--histories", "5", "--seed", "20"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("5 histories, ")
    assert printed.out.count("\n") == 1
    assert printed.err == ""


def test_more_crashes_can_be_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--histories", "3", "--crashes", "6"]) == 0
    assert "crashes (at least 6 each)" in capsys.readouterr().out


def test_a_violation_is_told_with_seed_rule_and_short_script_and_status_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--plant", "unheard-unmount"]) == 1
    told = capsys.readouterr().err
    assert "violates I1: " in told
    assert "\n  1. " in told
    assert "mooring simulate --seed " in told
    assert "--plant unheard-unmount" in told


def test_the_json_document_is_the_same_each_time(capsys: pytest.CaptureFixture[str]) -> None:
    run(["simulate", "--histories", "3", "-o", "json"])
    first = capsys.readouterr().out
    run(["simulate", "--histories", "3", "-o", "json"])
    assert capsys.readouterr().out == first
    document = json.loads(first)
    assert [each["script"]["seed"] for each in document["histories"]] == [0, 1, 2]
    assert document["failure"] is None
    assert document["histories"][0]["log"][0].keys() == {"at", "event", "detail"}


def test_a_violation_in_the_json_document_comes_with_its_short_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--plant", "disk-forgotten", "-o", "json"]) == 1
    failure = json.loads(capsys.readouterr().out)["failure"]
    assert failure.keys() == {"seed", "invariant", "what", "shrunk"}


def test_a_script_is_run_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "script.json"
    file.write_text(to_json(make_script(4)))
    assert run(["simulate", "--script", str(file)]) == 0
    assert capsys.readouterr().out.startswith("1 histories, ")


def test_a_script_that_cannot_be_read_names_file_and_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "script.json"
    file.write_text('{"seed": 1, "steps": [{"step": "dance"}]}')
    assert run(["simulate", "--script", str(file)]) == 2
    told = capsys.readouterr().err
    assert str(file) in told
    assert "dance" in told


@pytest.mark.parametrize(
    "arguments", [["--histories", "0"], ["--crashes", "-1"], ["--plant", "nothing"], ["--script", "/no/such/file"]]
)
def test_wrong_usage_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", *arguments]) == 2
    assert capsys.readouterr().err != ""
