"""Broken root directories on a real file system, and the command that examines them."""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from mooring.daemon.command_line import run


@dataclass(frozen=True, slots=True)
class Examined:
    """How `mooring doctor -o json` ended."""

    status: int
    rows: list[dict[str, Any]]
    err: str

    def places(self, state: str | None = None) -> set[str]:
        return {row["where"] for row in self.rows if state is None or row["state"] == state}

    def one(self, kind: str) -> dict[str, Any]:
        (row,) = (row for row in self.rows if row["kind"] == kind)
        return row


def examine(root: Path, *options: str) -> Examined:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = run(["doctor", "--root", str(root), "-o", "json", *options])
    assert "Traceback" not in err.getvalue()
    return Examined(status, json.loads(out.getvalue() or "[]"), err.getvalue())


@pytest.fixture
def root() -> Iterator[Path]:
    """An empty directory with a short path: that of a socket must fit into 108 bytes."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # some trees are large
    with TemporaryDirectory(prefix="doctor-", dir=memory) as place:
        made = Path(place).resolve() / "root"
        made.mkdir()
        yield made
