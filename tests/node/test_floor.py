"""The floors must do the work that mooring does, or nothing is learned from comparing with them."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench.node import uid
from bench.programs import c_program

from bench import floor, mooring_side

pytestmark = pytest.mark.node


@pytest.fixture(autouse=True)
def _usual_modes() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def _tree(root: str) -> dict[str, tuple[str, object]]:
    """Every entry with its mode, its content and whether it is a mount; what is stamped with a time has one name."""
    found: dict[str, tuple[str, object]] = {}
    for place, directories, files in os.walk(f"{root}/pods"):
        for name in (*directories, *files):
            path = Path(place, name)
            facts = path.lstat()
            content: object = os.path.ismount(path)
            if stat.S_ISREG(facts.st_mode):
                content = path.read_bytes()
            elif stat.S_ISLNK(facts.st_mode):
                content = "data" if name == "..data" else os.readlink(path)
            parts = ("..stamp" if part.startswith("..2") else part for part in path.relative_to(root).parts)
            found["/".join(parts)] = (stat.filemode(facts.st_mode), content)
    return found


def _made_in_python(root: str) -> dict[str, tuple[str, object]]:
    os.makedirs(f"{root}/pods", 0o750)
    floor.set_up_pod(root, uid(0))
    return _tree(root)


def test_the_loop_in_c_leaves_what_the_loop_in_python_leaves(node_root: str) -> None:
    with c_program("floor") as program:
        if program is None:
            pytest.skip("no C compiler")
        os.makedirs(f"{node_root}/c/pods", 0o750)
        subprocess.run([program, "prepare", f"{node_root}/c", "1"], check=True, capture_output=True)
    assert _tree(f"{node_root}/c") == _made_in_python(f"{node_root}/python")


async def test_mooring_leaves_what_the_loops_leave(node_root: str) -> None:
    await mooring_side.prepare(f"{node_root}/mooring", 1)
    assert _tree(f"{node_root}/mooring") == _made_in_python(f"{node_root}/python")
