"""The wheel: complete, typed, and working where nothing else of the repository is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from mooring import __version__

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the wheel, is not installed")
    place = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, timeout=60)
    (built,) = place.glob("*.whl")
    return built


def test_every_module_and_the_mark_of_types_are_in_it(wheel: Path) -> None:
    source = REPOSITORY / "src"
    modules = {str(path.relative_to(source)) for path in source.rglob("*.py")}
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {*modules, "mooring/py.typed", "mooring/stubs/cri_pb2.py", "mooring/stubs/cri_pb2.pyi"} <= names
    assert not [name for name in names if not name.startswith(("mooring/", f"mooring-{__version__}.dist-info/"))]


def test_it_runs_where_it_is_unpacked(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path[1:]])}

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout

    assert run("-c", "import mooring; print(mooring.__file__)") == f"{tmp_path}/mooring/__init__.py\n"
    assert run("-m", "mooring", "--version") == f"mooring, version {__version__}\n"
