"""Programs that measure: each is a process of its own and ends its output with one line of JSON."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mooring.errors import Refused

PEER = Path(__file__).parent.parent / ".strangers" / "bin" / "kubelet-peer"
DRIVER = "stub.csi.example"
OTHERS = "others"
"""The figure under which a run tells which share of the machine all other processes, and the kernel, took."""

Figures = dict[str, float]


def run(command: Sequence[str]) -> Any:
    """What the program tells in its last line."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        complaint = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        raise Refused(f"cannot measure with {' '.join(command[:5])!r}", why=complaint)
    return json.loads(done.stdout.splitlines()[-1])


@contextmanager
def watched(figures: Figures) -> Iterator[None]:
    """Adds to the figures how busy the machine was with other work than ours."""
    began, busy, ours = time.perf_counter(), _machine_busy(), _our_own()
    yield
    capacity = (time.perf_counter() - began) * (os.cpu_count() or 1)
    others = (_machine_busy() - busy) - (_our_own() - ours)
    figures[OTHERS] = max(0.0, others) / capacity


def _our_own() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def _machine_busy() -> float:
    """Processor seconds since boot in which some processor was neither idle nor waiting for a disk."""
    with open("/proc/stat", encoding="ascii") as stream:
        user, nice, system, _, _, *rest = (int(word) for word in stream.readline().split()[1:9])
    return (user + nice + system + sum(rest)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def csi_driver(root: str) -> Iterator[str]:
    """A CSI driver at work, the same for every side; its volumes are directories below the one returned."""
    data, socket = f"{root}/driver", f"{root}/driver.sock"
    command = [str(PEER), "csi-stub", "--socket", socket, "--data", data, "--name", DRIVER]
    driver = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + 10.0
        while not os.path.exists(socket):
            if driver.poll() is not None or time.monotonic() > deadline:
                raise Refused("cannot start the CSI driver", why=f"{socket} did not appear")
            time.sleep(0.005)
        yield data
    finally:
        driver.terminate()
        driver.wait()


@contextmanager
def c_program(name: str) -> Iterator[str | None]:
    """The program of bench/NAME.c, compiled; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as work:
        source = Path(__file__).parent / f"{name}.c"
        subprocess.run([compiler, "-O2", "-o", f"{work}/{name}", str(source)], check=True)
        yield f"{work}/{name}"
