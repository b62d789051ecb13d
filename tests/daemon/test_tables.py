"""Rows as people and programs get them."""

from __future__ import annotations

import json

import pytest
import yaml

from mooring.daemon.tables import Row, show, table, text

ROWS: list[Row] = [{"name": "a", "state": "mounted", "count": 1}, {"name": "longer", "state": None, "count": 22}]
COLUMNS = [("NAME", "name"), ("COUNT", "count"), ("STATE", "state")]


def test_columns_are_as_wide_as_their_widest_text() -> None:
    assert table([ROWS[1]], COLUMNS) == ["NAME     COUNT   STATE", "longer   22      -"]


def test_a_state_has_its_colour() -> None:
    assert "\033[32mmounted" in table(ROWS, COLUMNS)[1]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        ("", "-"),
        (True, "yes"),
        (False, "no"),
        ([], "-"),
        (["a", "b"], "a,b"),
        (0, "0"),
        (8e-5, "0.000080"),
    ],
)
def test_values_are_shown_as_people_read_them(value: object, shown: str) -> None:
    assert text(value) == shown


def test_json_and_yaml_hold_the_whole_rows(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, [("NAME", "name")], "json", empty="none")
    assert json.loads(capsys.readouterr().out) == ROWS
    show(ROWS, [("NAME", "name")], "yaml", empty="none")
    assert yaml.safe_load(capsys.readouterr().out) == ROWS


def test_an_empty_answer_is_an_empty_list_for_programs_and_a_word_for_people(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nothing: list[Row] = []
    show(nothing, COLUMNS, "json", empty="no volumes")
    assert capsys.readouterr().out == "[]\n"
    show(nothing, COLUMNS, "table", empty="no volumes")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "no volumes\n")
