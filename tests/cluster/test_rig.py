"""`python -m rig up`: the control plane that `make cluster` runs."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rig import control_plane
from rig.__main__ import instructions
from tests.cluster.conftest import Program, Strangers, line_of

_REPOSITORY = Path(__file__).parents[2]
_WHO = ("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")


def test_a_person_is_told_what_to_do_with_it() -> None:
    said = instructions("https://127.0.0.1:1", Path("/rig/admin.kubeconfig"), {"one": Path("/rig/node-one.kubeconfig")})
    assert "export KUBECONFIG=/rig/admin.kubeconfig" in said
    assert "mooring agent --kubeconfig /rig/node-one.kubeconfig --node one" in said
    assert "Ctrl-C" in said


@pytest.mark.cluster
def test_it_serves_administrators_and_nodes_and_leaves_nothing_behind(strangers: Strangers, place: Path) -> None:
    for name in (*control_plane.PROGRAMS, "kubectl"):
        strangers(name)
    files = place / "rig"
    with _up("--directory", str(files), "--node", "one") as rig:
        administrator, node = line_of(rig, seconds=120), line_of(rig)
        assert _kubectl(strangers, administrator, *_WHO) == "admin"
        assert _kubectl(strangers, node, *_WHO) == "system:node:one"
        assert _processes(files) == {"python", *control_plane.PROGRAMS}
        rig.terminate()
        assert rig.wait(timeout=60) == 0
    assert not files.exists()
    assert not _processes(files)


@contextlib.contextmanager
def _up(*arguments: str) -> Iterator[Program]:
    command = [sys.executable, "-m", "rig", "up", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, bufsize=0, cwd=_REPOSITORY) as rig:
        try:
            yield rig
        finally:
            rig.kill()  # its programs die with it


def _processes(files: Path) -> set[str]:
    """The names of the programs that were started with this place in their command."""
    found = set()
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = each.read_bytes().split(b"\0")
            if any(str(files).encode() in argument for argument in command):
                found.add(Path(command[0].decode()).name)
    return found


def _kubectl(strangers: Strangers, kubeconfig: str, *arguments: str) -> str:
    command = [str(strangers("kubectl")), "--kubeconfig", kubeconfig, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
