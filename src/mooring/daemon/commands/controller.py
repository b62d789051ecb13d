"""`mooring controller`: attaching and detaching, binding and growing for a whole cluster."""

from __future__ import annotations

import logging
import os

import click

from mooring.daemon.options import settings_of
from mooring.errors import InvalidInput

NAMES = ("attach-detach", "csi-attacher", "binder", "ephemeral", "expander")


@click.command()
@click.option(
    "--kubeconfig",
    metavar="FILE",
    envvar="KUBECONFIG",
    help="How to reach the API server, and as whom [as a pod of the cluster finds it].",
)
@click.option(
    "--controllers",
    metavar="LIST",
    default="*",
    show_default=True,
    help=f"Which ones run, divided by commas: {', '.join(NAMES)}; * is all, and -NAME leaves one out.",
)
@click.option("--leader-elect/--no-leader-elect", default=True, show_default=True, help="Only one of several acts.")
@click.option(
    "--lease",
    metavar="NAMESPACE/NAME",
    default="kube-system/mooring-controller",
    show_default=True,
    help="The Lease that says who leads.",
)
@click.option("--csi-socket", "sockets", metavar="PATH", multiple=True, help="A CSI driver to serve; may be repeated.")
@click.option("--metrics-address", metavar="HOST:PORT", help="Serve /metrics and /healthz there.")
@click.pass_context
def controller(
    context: click.Context,
    kubeconfig: str | None,
    controllers: str,
    leader_elect: bool,
    lease: str,
    sockets: tuple[str, ...],
    metrics_address: str | None,
) -> None:
    """Attach volumes to the nodes of a cluster where pods need them, and detach them when it is safe.

    Runs until SIGTERM or Ctrl-C; volumes stay as they are then. A line on stdout tells when this process leads.
    """
    import asyncio  # noqa: PLC0415 - as all below, not for --help

    from mooring.daemon.controller import Options  # noqa: PLC0415
    from mooring.host import open_files  # noqa: PLC0415
    from mooring.kube import kubeconfig as kubeconfigs  # noqa: PLC0415
    from mooring.registration.static_sockets import socket_path  # noqa: PLC0415

    settings = settings_of(context, None)
    options = Options(
        controllers=chosen_controllers(controllers),
        lease=_lease(lease) if leader_elect else None,
        csi_sockets=[socket_path(os.path.abspath(each) if "://" not in each else each) for each in sockets],
        metrics_address=_address(metrics_address) if metrics_address is not None else None,
    )
    access = kubeconfigs.load(kubeconfig) if kubeconfig else kubeconfigs.in_cluster(os.environ)
    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")

    open_files.raise_limit()

    async def run() -> None:
        from mooring.daemon.controller_process import serve  # noqa: PLC0415
        from mooring.kube.api_server import ApiServer  # noqa: PLC0415

        async with ApiServer(access, agent="mooring-controller") as api:
            await serve(api, settings, options, say=click.echo)

    asyncio.run(run())


def chosen_controllers(text: str) -> frozenset[str]:
    """The controllers that a list names."""
    found: set[str] = set()
    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        name = word.removeprefix("-")
        if name != "*" and name not in NAMES:
            next_step = f"Known are: {', '.join(NAMES)}"
            why = "there is no such controller"
            raise InvalidInput(f"cannot run {name!r}", why=why, next_step=next_step, place="--controllers")
        if not word.startswith("-"):
            found |= set(NAMES) if name == "*" else {name}
    found -= {word.removeprefix("-") for word in words if word.startswith("-")}
    if not found:
        raise InvalidInput("cannot run nothing", why="no controller is left in the list", place="--controllers")
    return frozenset(found)


def _lease(text: str) -> tuple[str, str]:
    namespace, slash, name = text.partition("/")
    if not namespace or not slash or not name or "/" in name:
        raise InvalidInput(f"cannot use {text!r}", why="NAMESPACE/NAME is expected", place="--lease")
    return namespace, name


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InvalidInput(f"cannot use {text!r}", why="HOST:PORT is expected", place="--metrics-address")
    return host.strip("[]") or "0.0.0.0", int(port)
