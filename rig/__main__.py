"""`python -m rig up`: a real Kubernetes control plane on the loopback, until it is told to end."""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from rig import control_plane

_BUILD = Path(__file__).parents[1] / "tools" / "build-strangers"


def main() -> int:
    """Start it, print paths of kubeconfigs, the administrator's first, and stay until SIGTERM or Ctrl-C.

    The paths go to stdout, one a line, for scripts; what to do with them goes to stderr, for people.
    """
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
    print("rig: starting etcd, kube-apiserver and kube-controller-manager", file=sys.stderr)
    async with control_plane.running(directory) as plane:
        paths = {node: plane.node_kubeconfig(node) for node in nodes}
        print(instructions(plane.server, plane.kubeconfig, paths), file=sys.stderr, flush=True)
        print(plane.kubeconfig, *paths.values(), sep="\n", flush=True)
        await asyncio.Event().wait()


def instructions(server: str, administrator: Path, nodes: Mapping[str, Path]) -> str:
    """What a person can do with a control plane that serves now."""
    lines = [
        f"rig: Kubernetes serves at {server}, for an administrator with",
        f"         export KUBECONFIG={administrator}",
        f"         {control_plane.BINARIES / 'kubectl'} get namespaces",
    ]
    for node, path in nodes.items():
        lines += [f"     and for the node {node} with", f"         mooring agent --kubeconfig {path} --node {node}"]
    if not nodes:
        lines.append("     Nodes get kubeconfigs with --node NAME.")
    return "\n".join([*lines, "     Ctrl-C ends it and removes all of its files."])


if __name__ == "__main__":
    sys.exit(main())
