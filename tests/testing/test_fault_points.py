"""A process dies exactly at the named point it was told to die at."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.errors import InvalidInput
from mooring.host.linux import LinuxHost
from mooring.testing.fault_points import CALLS, FAULT, FAULT_LOG, FaultPoints

PROGRAM = """
import os, sys
from mooring.host.linux import LinuxHost
from mooring.testing.fault_points import FaultPoints

host = FaultPoints(os.environ).watch(LinuxHost())
for name in ("one", "two", "three"):
    host.make_directory(f"{sys.argv[1]}/{name}", 0o755)
"""


def run(place: Path, **environment: str) -> int:
    return subprocess.run([sys.executable, "-c", PROGRAM, str(place)], env=environment, check=False).returncode


@pytest.mark.parametrize(
    ("fault", "left"),
    [
        ("make_directory:before:1", []),
        ("make_directory:after:1", ["one"]),
        ("make_directory:before:3", ["one", "two"]),
        ("make_directory:after:3", ["one", "three", "two"]),
    ],
)
def test_the_process_is_killed_at_the_point(tmp_path: Path, fault: str, left: list[str]) -> None:
    assert run(tmp_path, **{FAULT: fault}) == -signal.SIGKILL
    assert sorted(path.name for path in tmp_path.iterdir()) == left


def test_a_point_that_is_never_passed_kills_nobody(tmp_path: Path) -> None:
    assert run(tmp_path, **{FAULT: "bind:before:1"}) == 0
    assert len(list(tmp_path.iterdir())) == 3


def test_the_points_passed_can_be_logged(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    assert run(place, **{FAULT_LOG: str(tmp_path / "log")}) == 0
    assert (tmp_path / "log").read_text().split() == ["make_directory:before", "make_directory:after"] * 3


@pytest.mark.parametrize("text", ["bind:1", "bind:during:1", "nothing:before:1", "bind:before:x"])
def test_what_is_no_point_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="The calls are: make_directories"):
        FaultPoints({FAULT: text})


def test_every_call_exists() -> None:
    assert all(callable(getattr(LinuxHost, name)) for name in CALLS)
