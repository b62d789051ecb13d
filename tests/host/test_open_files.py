"""How many files may be open, here and in the programs that are started."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import resource
from mooring.host import open_files
from mooring.host.programs import run_program

def limits():
    return resource.getrlimit(resource.RLIMIT_NOFILE)

resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, 512))
open_files.raise_limit()
print(*limits())
# It has its limits back a moment after it was started.
waits = "until [ $(ulimit -Sn) = {soft} ]; do sleep 0.01; done; ulimit -Sn; ulimit -Hn"
print(run_program(["sh", "-c", waits], deadline=30).output)
"""


def limits(soft: int) -> list[int]:
    """Soft and hard limit of a process that began with this soft one, then those of a program that it started."""
    program = [sys.executable, "-c", PROGRAM.format(soft=soft)]
    return [int(word) for word in subprocess.run(program, capture_output=True, text=True, check=True).stdout.split()]


def test_as_many_files_may_be_open_as_the_hard_limit_allows_and_programs_have_the_old_limit() -> None:
    assert limits(soft=100) == [512, 512, 100, 512]


def test_a_limit_that_is_as_high_as_it_may_be_stays() -> None:
    assert limits(soft=512) == [512, 512, 512, 512]
