"""Settings: where they come from, and what is said about wrong ones."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from mooring.errors import InvalidInput
from mooring.settings import Settings, load_settings, parse_duration


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "mooring.toml"


def test_without_anything_the_defaults_hold() -> None:
    assert load_settings({}, {}) == Settings()


def test_flags_win_over_environment_over_file_over_defaults(file: Path) -> None:
    file.write_text('root = "/file"\nnode_name = "file"\nlog_level = "error"\n')
    environment = {"MOORING_ROOT": "/environment", "MOORING_NODE_NAME": "environment"}
    settings = load_settings(
        {"root": "/flag", "node_name": None}, environment, file=str(file), defaults={"history_length": 5, "root": "/d"}
    )
    assert (settings.root, settings.node_name, settings.log_level) == ("/flag", "environment", "error")
    assert (settings.history_length, settings.running_operations) == (5, Settings().running_operations)


def test_a_variable_set_to_nothing_counts_as_not_set() -> None:
    assert load_settings({}, {"MOORING_ROOT": "", "MOORING_HISTORY_LENGTH": ""}) == Settings()


def test_other_variables_are_left_alone() -> None:
    assert load_settings({}, {"MOORING_CONFIG": "x", "MOORING_NONSENSE": "y", "PATH": "/bin"}) == Settings()


def test_times_may_be_written_with_units_everywhere(file: Path) -> None:
    file.write_text('wait_timeout = "2m3s"\nresync_interval = 5\n')
    settings = load_settings({}, {"MOORING_STOP_TIMEOUT": "500ms"}, file=str(file))
    assert (settings.wait_timeout, settings.resync_interval, settings.stop_timeout) == (123.0, 5.0, 0.5)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("2m3s", 123), ("500ms", 0.5), ("1.5", 1.5), ("1h", 3600), ("0", 0), ("1h30m", 5400), ("0.5m", 30)],
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "5x", "-1s", "1 s", "s", "1s2x", "inf", "nan", "1e3"])
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidInput, match="Write it like 60s or 2m") as caught:
        parse_duration(text)
    assert repr(text) in caught.value.what


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("MOORING_HISTORY_LENGTH", "many", "cannot read 'many': a whole number is expected."),
        ("MOORING_HISTORY_LENGTH", "0", "cannot use 0: 1 is the least."),
        ("MOORING_RUNNING_OPERATIONS", "-3", "cannot use -3: 1 is the least."),
        ("MOORING_WAIT_TIMEOUT", "later", "cannot read the duration 'later': it is not a number with a unit."),
        ("MOORING_LOG_LEVEL", "loud", "cannot use 'loud': it is not known. Write one of debug, info, warning, error."),
    ],
)
def test_a_wrong_variable_is_named(variable: str, value: str, said: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        load_settings({}, {variable: value})
    assert str(caught.value).startswith(f"environment variable {variable}: {said}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense = 1\n", "{file}: unknown setting 'nonsense': mooring has no such setting. Known are: root, "),
        ("root = 5\n", "{file}: root: cannot read 5: a text is expected."),
        ('wait_timeout = "x"\n', "{file}: wait_timeout: cannot read the duration 'x'"),
        ("history_length = true\n", "{file}: history_length: cannot read True: a whole number is expected."),
        ("root = \n", "{file}: cannot read the settings file: it is not TOML (Invalid value (at line 1, column 8))."),
        ("root = '\\xff'\n", "{file}: cannot read the settings file: it is not TOML"),
    ],
)
def test_a_wrong_file_is_named_with_the_place(file: Path, text: str, said: str) -> None:
    file.write_bytes(text.encode("latin-1").replace(b"\\xff", b"\xff"))
    with pytest.raises(InvalidInput) as caught:
        load_settings({}, {}, file=str(file))
    assert str(caught.value).startswith(said.format(file=file))


def test_a_missing_file_is_named(file: Path) -> None:
    with pytest.raises(InvalidInput, match=r"mooring\.toml: cannot read the settings file: No such file or directory"):
        load_settings({}, {}, file=str(file))


def test_every_setting_says_what_it_means() -> None:
    assert all(field.metadata["says"] for field in dataclasses.fields(Settings))
