"""Without root: a refusal with a hint, or a namespace of one's own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.node.daemon.conftest import Daemon, config_map, pod, secret

import mooring

pytestmark = pytest.mark.node

NOBODY = 65534
PLACES = [str(Path(module.__file__ or "").parent.parent) for module in (mooring, msgspec)]


def as_nobody(*command: str, home: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a user without any rights."""
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "PYTHONPATH": ":".join(PLACES),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        command, user=NOBODY, group=NOBODY, extra_groups=[], env=environment, cwd="/", text=True, capture_output=True,
        timeout=30, check=False,
    )  # fmt: skip


@pytest.fixture
def python(daemon: Daemon) -> str:
    """An interpreter that a user without rights can run mooring with."""
    for candidate in (sys.executable, "/usr/bin/python3"):
        try:
            tried = as_nobody(candidate, "-c", "import mooring.daemon.serve, aiohttp, yaml", home="/")
        except OSError:
            continue
        if tried.returncode == 0:
            return candidate
    pytest.skip(f"user {NOBODY} can run no Python with mooring: {sys.executable} or {PLACES} are closed to others")


@pytest.fixture
def home(daemon: Daemon) -> str:
    """The home directory of nobody: in the namespace of the test, where all parents let them pass."""
    place = next(path for path in ("/srv", "/mnt", "/media", "/opt") if os.path.isdir(path) and not _holds_code(path))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"uid={NOBODY},mode=700", "tmpfs", place], check=True)
    return place


def _holds_code(path: str) -> bool:
    """Whether what is tested lies below a directory, and would be hidden by a mount over it."""
    return any(Path(place).is_relative_to(path) for place in PLACES)


def test_up_without_root_is_refused_with_the_way_out(python: str, home: str) -> None:
    ended = as_nobody(python, "-m", "mooring", "up", home, "--detach", home=home)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "mooring: cannot mount volumes: only root may mount on this machine. "
        "Run it as root, or with --rootless to mount in a namespace of your own.\n"
    )


def test_an_ordinary_user_runs_an_instance_of_their_own(python: str, home: str) -> None:
    manifests = Path(home, "manifests")
    manifests.mkdir()
    (manifests / "a.yaml").write_text(
        config_map("c") + secret("s") + pod("web", "c: configMap: {name: c}", "s: secret: {secretName: s}")
    )

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return as_nobody(python, "-m", "mooring", *arguments, home=home)

    started = run("up", str(manifests), "--detach", "--rootless")
    if "cannot make a user namespace" in started.stderr:
        pytest.skip("this kernel gives an ordinary user no namespace")
    assert started.returncode == 0, started.stderr
    try:
        waited = run("wait", "web", "--timeout", "10s")
        assert waited.returncode == 0, waited.stderr
        assert (
            run("enter", "--", "sh", "-c", f"cat {home}/.local/state/mooring/pods/*/volumes/*/s/key").stdout
            == "hunter2"
        )
    finally:
        assert run("down").returncode == 0


def test_root_may_ask_for_a_namespace_too(daemon: Daemon) -> None:
    daemon.write("a.yaml", secret("s") + pod("web", "s: secret: {secretName: s}"))
    daemon.done("up", daemon.manifests, "--detach", "--rootless")
    daemon.mounted("web")
    path = daemon.path("web/s")
    assert (daemon.mounts(), os.listdir(path)) == ({}, [])
    command = [sys.executable, "-m", "mooring", "--root", daemon.root, "enter", "--", "ls", str(path)]
    inside = subprocess.run(command, text=True, capture_output=True, timeout=30, check=False)
    assert (inside.returncode, inside.stdout) == (0, "key\n"), inside.stderr
    pid = daemon.pid
    daemon.done("down")
    daemon.ended(pid)
    assert os.listdir(f"{daemon.root}/pods") == []


def test_an_instance_without_a_namespace_is_entered_by_staying(daemon: Daemon) -> None:
    daemon.write("a.yaml", config_map("c") + pod("web", "c: configMap: {name: c}"))
    daemon.up("web")
    command = [sys.executable, "-m", "mooring", "--root", daemon.root, "enter", "--", "ls", str(daemon.path("web/c"))]
    assert subprocess.run(command, text=True, capture_output=True, timeout=30, check=False).stdout == "key\n"
