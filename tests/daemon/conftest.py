"""Commands run in this process, without a daemon unless a test starts one."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass
from pathlib import Path

import pytest

from mooring.daemon.command_line import run


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit status, and what it wrote."""

    status: int
    out: str
    err: str


class CommandLine:
    """Runs commands on a root directory of a test's own."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __call__(self, *arguments: object) -> Ended:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = run(["--root", str(self.root), *map(str, arguments)])
        ended = Ended(status, out.getvalue(), err.getvalue())
        assert "Traceback" not in ended.err
        return ended


@pytest.fixture
def mooring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    for variable in ("MOORING_ROOT", "MOORING_CONFIG", "MOORING_LOG_LEVEL"):
        monkeypatch.delenv(variable, raising=False)
    return CommandLine(tmp_path / "root")


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    made = tmp_path / "manifests"
    made.mkdir()
    return made
