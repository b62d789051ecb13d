"""What a daemon needs after thousands of pods have come and gone: `python -m bench.cycles` prints its memory."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from bench import arena
from mooring.daemon.client import Client
from mooring.errors import MooringError

AT_ONCE = 200


def main() -> int:
    """Let batches of pods follow one another on a real daemon."""
    parser = argparse.ArgumentParser(prog="bench.cycles", description=__doc__)
    parser.add_argument("--pods", type=int, default=10_000, help="how many pods come and go [10000]")
    pods = parser.parse_args().pods
    arena.enter()
    with arena.fresh_file_system() as place:
        manifests = Path(place, "manifests")
        manifests.mkdir()
        (manifests / "content.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n")
        command = [sys.executable, "-m", "mooring", "--root", f"{place}/root", "up", str(manifests)]
        daemon = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _cycle(daemon, Client(f"{place}/root"), manifests, pods)
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait()
    return 0


def _cycle(daemon: subprocess.Popen[bytes], client: Client, manifests: Path, pods: int) -> None:
    batches = max(1, pods // AT_ONCE)
    print(f"{'pods':>8} {'MiB':>6}")
    for batch in range(batches):
        _replace(manifests / "pods.yaml", "".join(_pod(f"p{batch}-{number}") for number in range(AT_ONCE)))
        _until_ready(client, f"default/p{batch}-")
        if batch in (0, batches - 1) or (batch + 1) % max(1, batches // 10) == 0:
            print(f"{(batch + 1) * AT_ONCE:>8} {_resident(daemon.pid) / 1024:>6.1f}", flush=True)
    (manifests / "pods.yaml").unlink()
    while client.get("/v1/volumes"):
        time.sleep(0.05)
    print(f"{'none':>8} {_resident(daemon.pid) / 1024:>6.1f}")


def _until_ready(client: Client, prefix: str) -> None:
    while True:
        try:
            rows = client.get("/v1/pods")
        except MooringError:
            rows = []  # it is starting
        if len(rows) == AT_ONCE and all(row["ready"] and row["pod"].startswith(prefix) for row in rows):
            return
        time.sleep(0.05)


def _resident(pid: int) -> int:
    """Kibibytes of memory that a process has."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def _replace(path: Path, text: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(text)
    os.rename(new, path)


def _pod(name: str) -> str:
    mounts = ", ".join(f"{{name: {volume}, mountPath: /{volume}}}" for volume in "abc")
    return (
        f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n"
        f"  containers: [{{name: main, volumeMounts: [{mounts}]}}]\n"
        "  volumes: [{name: a, emptyDir: {}}, {name: b, configMap: {name: c}}, {name: c, emptyDir: {medium: Memory}}]\n"
        "---\n"
    )


if __name__ == "__main__":
    sys.exit(main())
