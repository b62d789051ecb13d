"""`mooring run`: the containers of a pod on its volumes, with podman or a CRI runtime."""

from __future__ import annotations

import os
from collections.abc import Sequence

import click

from mooring.daemon.client import Client
from mooring.daemon.commands.explain import report_unfinished_wait
from mooring.daemon.options import root_option, settings_of, timeout_option
from mooring.errors import InvalidInput


@click.command()
@click.argument("pod", metavar="POD")
@click.option("--with", "runtime", type=click.Choice(["podman", "cri"]), help="Who runs containers [podman].")
@click.option("--runtime", "oci_runtime", metavar="NAME", help="OCI runtime for podman, runtime handler for cri.")
@click.option("--ulimit", "ulimits", multiple=True, metavar="NAME=SOFT:HARD", help="Limit for podman's containers.")
@click.option("--option", "options", multiple=True, metavar="TEXT", help="Option of every podman call: --root=DIR.")
@click.option("--endpoint", metavar="SOCKET", help="CRI runtime's socket [/run/containerd/containerd.sock].")
@root_option
@timeout_option()
@click.pass_context
def run(
    context: click.Context,
    pod: str,
    runtime: str | None,
    oci_runtime: str | None,
    ulimits: Sequence[str],
    options: Sequence[str],
    endpoint: str | None,
    root: str | None,
    timeout: float,
) -> int:
    """Run a pod's containers on its volumes, show what they write, and end with the pod's exit status.

    A daemon must serve the pod (`mooring up`). Containers share the network of the machine. Ctrl-C ends them with
    their grace period, a second one at once. `--timeout` is for the volumes to be mounted.
    """
    chosen = runtime or ("cri" if endpoint else "podman")
    if chosen == "podman" and endpoint:
        raise InvalidInput("cannot use --endpoint", why="podman has no socket here", next_step="Write --with cri")
    if chosen == "cri" and (ulimits or options):
        raise InvalidInput("cannot use --ulimit and --option", why="they are podman's", next_step="Write --with podman")
    settings = settings_of(context, root)
    answer = Client(settings.root).post(
        "/v1/wait", {"pod": pod, "for": "mounted", "timeout": str(timeout)}, patience=timeout + 30.0
    )
    if not answer["done"]:
        report_unfinished_wait(pod, "mounted", timeout, answer)
        return 1
    from mooring.daemon.run_client import run_pod  # noqa: PLC0415 - the codec and asyncio behind it take their time
    from mooring.runtimes.records import RuntimeOptions  # noqa: PLC0415 - as before

    asked = RuntimeOptions(
        oci_runtime=oci_runtime or "",
        ulimits=tuple(ulimits),
        options=tuple(options),
        endpoint=os.path.abspath(endpoint.removeprefix("unix://")) if endpoint else "",
    )
    return run_pod(settings, pod, chosen, asked)
