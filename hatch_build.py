"""Makes the Python stubs of all `.proto` files when mooring is built or installed; by hand: `python hatch_build.py`."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROTOS = Path("src/mooring/protos")
STUBS = Path("src/mooring/stubs")
PACKAGE = "mooring/stubs"
"""Where the compiler believes the `.proto` files to be, so that stubs import each other as modules of this package."""

MARK = '"""Made from src/mooring/protos when mooring is built; changes here are lost."""\n'


class StubsHook(BuildHookInterface[Any]):
    """Runs before a wheel is put together, and before an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        generate(Path(self.root))


def generate(root: Path) -> None:
    """Write the stubs anew. A file is replaced as a whole, and only when its content differs."""
    sources = sorted((root / PROTOS).glob("*.proto"))
    with tempfile.TemporaryDirectory() as place:
        _compile(root / PROTOS, sources, place)
        made = Path(place) / PACKAGE
        (made / "__init__.py").write_text(MARK, encoding="utf-8")
        wanted = {path.name for path in made.iterdir()}
        (root / STUBS).mkdir(exist_ok=True)
        for old in (root / STUBS).iterdir():
            if old.is_file() and old.name not in wanted:
                old.unlink()
        for path in made.iterdir():
            _put(path, root / STUBS / path.name)


def _compile(directory: Path, sources: list[Path], place: str) -> None:
    from grpc_tools import protoc  # noqa: PLC0415 - reading this file must not need it

    included = Path(protoc.__file__).parent / "_proto"
    outputs = [f"--{name}={place}" for name in ("python_out", "grpc_python_out", "mypy_out", "mypy_grpc_out")]
    plugins = [f"--plugin={name}={_plugin(name)}" for name in ("protoc-gen-mypy", "protoc-gen-mypy_grpc")]
    names = [f"{PACKAGE}/{source.name}" for source in sources]
    command = ["protoc", f"-I{PACKAGE}={directory}", f"-I{included}", *plugins, *outputs, *names]
    if protoc.main(command) != 0:
        raise RuntimeError(f"protoc failed on {', '.join(names)}")


def _plugin(name: str) -> str:
    """Where a plugin of the compiler is: beside this interpreter, also when its environment is not activated."""
    places = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        raise RuntimeError(f"{name} is missing; install mypy-protobuf")
    return found


def _put(source: Path, target: Path) -> None:
    content = source.read_bytes()
    if target.exists() and target.read_bytes() == content:
        return
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    beside.write_bytes(content)
    beside.replace(target)


if __name__ == "__main__":
    generate(Path(__file__).parent)
