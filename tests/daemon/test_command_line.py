"""The command line without a daemon: usage, exit status, and errors in words."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from tests.daemon.conftest import CommandLine

from mooring import __version__
from mooring.daemon import command_line
from mooring.daemon.options import settings_of

COMMANDS = command_line.cli.list_commands(click.Context(command_line.cli))
TALKING = ("get pods", "describe pod/web", "explain web", "timeline web", "events", "top", "wait web", "run web")


def test_help_lists_every_command_and_each_explains_itself(mooring: CommandLine) -> None:
    listing = mooring("--help")
    assert listing.status == 0
    for command in COMMANDS:
        assert f"\n  {command} " in listing.out
        own = mooring(command, "--help")
        assert (own.status, own.out.startswith(f"Usage: mooring {command}")) == (0, True)


def test_the_version_is_printed(mooring: CommandLine) -> None:
    assert mooring("--version").out == f"mooring, version {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "No such command 'nonsense'."),
        (["get"], "Missing argument"),
        (["get", "nonsense"], "'nonsense' is not one of 'claims', 'drivers', 'events', 'findings', 'operations'"),
        (["get", "pods", "-o", "xml"], "'xml' is not one of 'table', 'wide', 'json', 'yaml'"),
        (["explain"], "Missing argument 'POD[/VOLUME]'."),
        (["describe", "web"], "cannot describe 'web': it is not KIND/NAME. Write pod/NAME or volume/POD/NAME."),
        (["describe", "house/web"], "cannot describe 'house/web': it is not KIND/NAME."),
        (["wait", "web", "--timeout", "soon"], "cannot read the duration 'soon': it is not a number with a unit."),
        (["run", "web", "--with", "docker"], "'docker' is not one of 'podman', 'cri'"),
        (["run", "web", "--with", "podman", "--endpoint", "/s"], "cannot use --endpoint: podman has no socket here."),
        (["run", "web", "--endpoint", "/s", "--ulimit", "nofile=1:1"], "cannot use --ulimit and --option: they are"),
        (["wait", "web", "--for", "rain"], "'rain' is not one of 'mounted', 'unmounted'"),
        (["up"], "Missing argument 'PATH...'."),
        (["apply"], "Missing option '-f'"),
        (["apply", "-f", "/nowhere/x.yaml"], "cannot read '/nowhere/x.yaml': there is no such file or directory."),
        (["plan", "/nowhere"], "cannot read '/nowhere': there is no such file or directory."),
        (
            ["controller", "--kubeconfig", "/nowhere"],
            "/nowhere: cannot read the kubeconfig: No such file",
        ),
        (["controller", "--controllers", "chaos"], "--controllers: cannot run 'chaos': there is no such controller."),
        (
            ["controller", "--controllers", "-*"],
            "--controllers: cannot run nothing: no controller is left",
        ),
        (["controller", "--lease", "mine"], "--lease: cannot use 'mine': NAMESPACE/NAME is expected."),
        (["controller", "--metrics-address", "here"], "--metrics-address: cannot use 'here': HOST:PORT is expected."),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'fish', 'zsh'"),
        (["--config", "/nowhere.toml", "get", "pods"], "/nowhere.toml: cannot read the settings file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_usage_is_status_2_with_one_clear_error(mooring: CommandLine, arguments: list[str], said: str) -> None:
    ended = mooring(*arguments)
    assert (ended.status, ended.out) == (2, "")
    assert said in ended.err


@pytest.mark.parametrize("command", TALKING)
def test_without_a_daemon_a_command_says_how_to_start_one(mooring: CommandLine, command: str) -> None:
    ended = mooring(*command.split())
    assert (ended.status, ended.out) == (1, "")
    assert ended.err == (
        f"mooring: cannot reach mooring at '{mooring.root}': no daemon listens on its control socket. "
        "Start one with `mooring up`, or name its directory with --root or MOORING_ROOT.\n"
    )


def test_grpc_is_loaded_only_where_a_driver_or_a_runtime_is_spoken_to() -> None:
    program = """
import sys
from mooring.daemon import command_line, run_client
command_line.run(["--root", "/nowhere", "get", "pods"])
assert "grpc" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, timeout=60)


def test_a_socket_that_a_killed_daemon_left_is_no_daemon(mooring: CommandLine) -> None:
    mooring.root.mkdir()
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(mooring.root / "mooring.sock"))
    assert "no daemon listens" in mooring("get", "pods").err


@contextmanager
def answering(root: Path, answer: bytes) -> Iterator[None]:
    """Something on the control socket that gives one answer to whoever asks."""
    root.mkdir()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "mooring.sock"))
        listening.listen()

        def serve() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield
        thread.join()


def test_a_daemon_that_goes_away_while_it_is_asked_is_told(mooring: CommandLine) -> None:
    with answering(mooring.root, b""):
        ended = mooring("get", "pods")
    assert (ended.status, "it went away before it answered" in ended.err) == (1, True)


def test_an_answer_that_makes_no_sense_is_told_with_the_log(mooring: CommandLine) -> None:
    with answering(mooring.root, b"HTTP/1.1 500 Oh\r\nContent-Length: 4\r\n\r\nboom"):
        ended = mooring("get", "pods")
    assert ended.status == 1
    assert f"its answer makes no sense (status 500). Its log is {mooring.root}/mooring.log" in ended.err


def test_the_root_directory_is_taken_from_the_environment(
    mooring: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOORING_ROOT", "/from/environment")
    assert command_line.run(["get", "pods"]) == 1
    assert command_line.run(["get", "pods", "--root", ""]) == 1


def test_down_with_nothing_there_has_nothing_to_do(mooring: CommandLine) -> None:
    ended = mooring("down")
    assert (ended.status, ended.out, ended.err) == (0, "", "")
    assert not mooring.root.exists()


def test_entering_an_instance_that_does_not_run_says_so(mooring: CommandLine) -> None:
    ended = mooring("enter", "--", "ls")
    assert (ended.status, f"cannot enter the instance at '{mooring.root}': no daemon runs there" in ended.err) == (
        1,
        True,
    )


def test_output_that_nobody_reads_any_more_ends_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    ended = subprocess.run(
        [sys.executable, "-m", "mooring", "get", "--help"], stdout=writing, stderr=subprocess.PIPE, check=False
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_an_ordinary_user_has_a_root_directory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOORING_ROOT", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", "/home/me/state")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    context = click.Context(command_line.cli)
    assert settings_of(context, None).root == "/home/me/state/mooring"
    assert settings_of(context, "/else").root == "/else"
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert settings_of(context, None).root == "/var/lib/mooring"


# -- up, as far as it goes without mounting ------------------------------------------------------------------------
@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is refused before that")
@pytest.mark.parametrize("more", [[], ["--detach"]], ids=["", "detached"])
def test_up_with_mistakes_names_all_of_them_and_starts_nothing(
    mooring: CommandLine, manifests: Path, more: list[str]
) -> None:
    (manifests / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A}\n")
    (manifests / "b.yaml").write_text("apiVersion: v1\nkind: Pod\nmetadata: {name: b}\n")
    ended = mooring("up", manifests, *more)
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith(f"mooring: {manifests}/a.yaml:3: metadata.name: cannot use ConfigMap")
    assert f"\n{manifests}/b.yaml:1: spec.containers: " in ended.err
    assert ended.err.endswith("mooring: nothing was started.\n")
    assert not mooring.root.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is refused before that")
@pytest.mark.parametrize("more", [[], ["--detach"]], ids=["", "detached"])
def test_up_refuses_a_root_directory_that_cannot_be_one(mooring: CommandLine, manifests: Path, more: list[str]) -> None:
    mooring.root.touch()
    ended = mooring("up", manifests, *more)
    assert ended.status == 1
    assert f"cannot use '{mooring.root}' as root directory: File exists at {mooring.root}" in ended.err


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is refused before that")
def test_up_refuses_a_root_directory_whose_socket_would_have_too_long_a_path(
    mooring: CommandLine, manifests: Path
) -> None:
    mooring.root = mooring.root / ("x" * 100)
    ended = mooring("up", manifests, "--detach")
    assert (ended.status, "longer than 107 bytes. Choose a shorter one with --root" in ended.err) == (1, True)


def test_up_of_a_path_that_is_not_there_is_unusable_input(mooring: CommandLine, tmp_path: Path) -> None:
    ended = mooring("up", tmp_path / "missing", "--rootless")
    assert (ended.status, "there is no such file or directory" in ended.err) == (2, True)


# -- completion ----------------------------------------------------------------------------------------------------
def test_the_completion_script_for_bash_is_good_bash(mooring: CommandLine) -> None:
    script = mooring("completion", "bash")
    assert script.status == 0
    checked = subprocess.run(["bash", "-n"], input=script.out, text=True, capture_output=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "mooring" in script.out


@pytest.mark.parametrize(
    ("shell", "part"), [("zsh", "#compdef mooring"), ("fish", "complete --no-files --command mooring")]
)
def test_the_other_shells_have_a_completion_script_too(mooring: CommandLine, shell: str, part: str) -> None:
    script = mooring("completion", shell)
    assert (script.status, part in script.out) == (0, True)


def test_what_the_completion_script_asks_for_is_answered() -> None:
    asked = {**os.environ, "_MOORING_COMPLETE": "bash_complete", "COMP_WORDS": "mooring ex", "COMP_CWORD": "1"}
    ended = subprocess.run([sys.executable, "-m", "mooring"], env=asked, text=True, capture_output=True, check=False)
    assert ended.stdout == "plain,explain\n"


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("mooring.daemon.instance", ("grpc._cython", "google.protobuf", "cryptography", "aiohttp")),
        ("mooring.daemon.agent", ("grpc._cython", "google.protobuf", "cryptography")),
    ],
)
def test_a_daemon_loads_nothing_that_only_drivers_or_clusters_need(program: str, heavy: tuple[str, ...]) -> None:
    asked = f"""
import sys, mooring.daemon.serve, mooring.daemon.command_line, {program}
print([name for name in {heavy} if name in sys.modules])
"""
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout == "[]\n"
