"""`python -m rig up`: a real Kubernetes control plane on the loopback, until it is told to end."""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
from pathlib import Path

from rig import control_plane

_BUILD = Path(__file__).parents[1] / "tools" / "build-strangers"


def main() -> int:
    """Start it, print the path of an administrator's kubeconfig, and stay until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="rig", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up = commands.add_parser("up", help="start a control plane and stay")
    up.add_argument("--directory", type=Path, default=None, help="where its files lie [a temporary directory]")
    up.add_argument("--node", action="append", default=[], help="also print the kubeconfig of this node's kubelet")
    options = parser.parse_args()
    built = subprocess.run([_BUILD, *control_plane.PROGRAMS, "kubectl"], check=False).returncode
    if built != 0:
        return built
    return_code = 0
    try:
        asyncio.run(_stay(options.directory, options.node))
    except* (control_plane.NotReady, OSError) as errors:
        print(f"rig: {errors.exceptions[0]}", file=sys.stderr)
        return_code = 1
    return return_code


async def _stay(directory: Path | None, nodes: list[str]) -> None:
    asked_to_end = asyncio.Event()
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(each, asked_to_end.set)
    async with asyncio.TaskGroup() as tasks:
        staying = tasks.create_task(_serve(directory, nodes))
        await asked_to_end.wait()
        staying.cancel()


async def _serve(directory: Path | None, nodes: list[str]) -> None:
    async with control_plane.running(directory) as plane:
        print(plane.kubeconfig, flush=True)
        for node in nodes:
            print(plane.node_kubeconfig(node), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    sys.exit(main())
