"""External programs are run without a shell, in the C locale, within a deadline, and with bounded output."""

from __future__ import annotations

import os
import select
import signal
import stat
from pathlib import Path

import pytest

from mooring.errors import Doubtful
from mooring.host import programs
from mooring.host.programs import ProgramFailed, ProgramMissing, ProgramResult, run_program


def run(script: str, *arguments: str, deadline: float = 60.0) -> ProgramResult:
    return run_program(["sh", "-c", script, "sh", *arguments], deadline=deadline)


def test_status_and_both_streams_come_back() -> None:
    assert run("echo out; echo err >&2; exit 3") == ProgramResult(status=3, output="out\nerr")


def test_arguments_are_not_expanded() -> None:
    assert run('printf "%s|" "$@"', "$HOME", "a b", "*").output == "$HOME|a b|*|"


def test_the_environment_is_the_same_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("SECRET", "kept")
    assert run('echo "$LC_ALL ${SECRET-none}"').output == "C none"


def test_there_is_nothing_to_read() -> None:
    assert run("cat; echo done").output == "done"


def test_a_signal_is_a_status_below_zero() -> None:
    result = run("kill -TERM $$")
    assert result.status == -signal.SIGTERM
    assert "killed by SIGTERM" in str(ProgramFailed("sh", "/disk", result))


def test_only_the_end_of_a_long_output_is_kept() -> None:
    output = run("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done").output
    assert len(output) <= 16384
    assert output.endswith("line 19999")


def test_a_program_that_does_not_end_is_killed_with_all_it_started(tmp_path: Path) -> None:
    fifo = f"{tmp_path}/fifo"
    os.mkfifo(fifo)
    descriptor = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(Doubtful, match=r"did not end within 0\.5 s"):
            run('exec 3>"$1"; echo started >&3; sleep 1000 & wait', fifo, deadline=0.5)
        assert os.read(descriptor, 100) == b"started\n"
        ends = select.poll()
        ends.register(descriptor, select.POLLIN)
        assert ends.poll(10_000) == [(descriptor, select.POLLHUP)]  # nobody holds the other end any more
    finally:
        os.close(descriptor)


def test_what_a_program_leaves_behind_is_not_waited_for() -> None:
    result = run("sleep 1000 & echo $!")
    os.kill(int(result.output), signal.SIGKILL)
    assert result.status == 0


def test_programs_are_run_where_the_kernel_has_no_descriptors_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "_descriptor_of", lambda process: None)
    assert run("echo first; exec >&- 2>&-; exit 4") == ProgramResult(status=4, output="first")


def test_a_missing_program_is_named() -> None:
    with pytest.raises(ProgramMissing, match=r"cannot run 'mkfs\.nosuchtype': it is not installed"):
        run_program(["mkfs.nosuchtype"], deadline=1.0)


def test_programs_are_not_looked_for_where_path_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "mkfs.planted"
    program.write_text("#!/bin/sh\n")
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs.find_program("mkfs.planted") is None
