"""A real daemon over a directory of manifests: what it costs when nothing happens, and how soon it answers."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.programs import Figures
from mooring.daemon.client import Client
from mooring.errors import MooringError

SETTLING = 12.0
"""Seconds after which a daemon has also looked once at what others may have changed while it was busy."""
ASKED = 10

_OBJECTS = """apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{{config}}}
---
apiVersion: v1
kind: Secret
metadata: {{name: passwords}}
stringData: {{{secret}}}
"""

_POD = """---
apiVersion: v1
kind: Pod
metadata: {{name: pod-{number}, labels: {{app: bench}}}}
spec:
  containers:
  - name: main
    volumeMounts:
    - {{name: config, mountPath: /config}}
    - {{name: secret, mountPath: /secret}}
    - {{name: projected, mountPath: /projected}}
    - {{name: memory, mountPath: /memory}}
  volumes:
  - {{name: config, configMap: {{name: settings}}}}
  - {{name: secret, secret: {{secretName: passwords}}}}
  - name: projected
    projected:
      sources:
      - configMap: {{name: settings}}
      - downwardAPI: {{items: [{{path: labels, fieldRef: {{fieldPath: metadata.labels}}}}]}}
  - {{name: memory, emptyDir: {{medium: Memory}}}}
"""


@contextmanager
def _running(root: str, pods: int) -> Iterator[subprocess.Popen[bytes]]:
    manifests = Path(root, "manifests")
    manifests.mkdir()
    config, secret = (", ".join(f"key-{number}: {'x' * 100}" for number in range(keys)) for keys in (5, 3))
    text = _OBJECTS.format(config=config, secret=secret) + "".join(_POD.format(number=number) for number in range(pods))
    (manifests / "pods.yaml").write_text(text)
    command = [sys.executable, "-m", "mooring", "--root", f"{root}/node", "up", str(manifests)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as daemon:
        try:
            yield daemon
        finally:
            daemon.send_signal(signal.SIGTERM)


def idle(root: str, pods: int, window: float) -> Figures:
    """The daemon's processor time in a window with one full resync, its memory, and answers to commands."""
    with _running(root, pods) as daemon:
        _until_ready(Client(f"{root}/node"), pods)
        time.sleep(SETTLING)
        before, began = processor_time(daemon.pid), time.perf_counter()
        time.sleep(window)
        spent, minutes = processor_time(daemon.pid) - before, (time.perf_counter() - began) / 60
        return {"cpu_per_minute": spent / minutes, "resident": _resident(daemon.pid)}


def get(root: str, pods: int) -> Figures:
    """How long `mooring get pods` takes, from the start of its process to its end."""
    command = [str(Path(sys.executable).parent / "mooring"), "--root", f"{root}/node", "get", "pods"]
    with _running(root, pods):
        _until_ready(Client(f"{root}/node"), pods)
        return {"seconds": _timed(command)}


def bare_start(root: str, pods: int) -> Figures:
    """What the interpreter needs to start and to do nothing."""
    return {"seconds": _timed([sys.executable, "-c", "pass"])}


def _timed(command: list[str]) -> float:
    times = []
    for _ in range(ASKED):
        began = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def _until_ready(client: Client, pods: int) -> None:
    deadline = time.monotonic() + 120.0
    while time.monotonic() < deadline:
        try:
            rows = client.get("/v1/pods")
        except MooringError:
            rows = None  # it is starting
        if rows is not None and len(rows) == pods and all(row["ready"] for row in rows):
            return
        time.sleep(0.2)
    raise RuntimeError("the daemon's pods did not become ready")


def processor_time(pid: int) -> float:
    """Seconds that all threads of a process have run, to the nanosecond."""
    tasks = os.listdir(f"/proc/{pid}/task")
    return sum(int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0]) for task in tasks) / 1e9


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
