"""`mooring up`: run the manager over manifests, in the foreground or as a daemon."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence

import click

from mooring.daemon.client import Client
from mooring.daemon.options import root_option, settings_of, timeout_option
from mooring.daemon.root_directory import AlreadyRunning, make_root, read_pid
from mooring.errors import InvalidInput, Refused
from mooring.host.paths import Paths
from mooring.settings import Settings


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@root_option
@click.option("--detach", is_flag=True, help="Return as soon as the daemon answers; it goes on in the background.")
@click.option("--rootless", is_flag=True, help="Mount in a user and mount namespace of its own, without root.")
@click.option("--node-name", metavar="NAME", help="Name of this node [the host name].")
@timeout_option()
@click.pass_context
def up(
    context: click.Context,
    paths: Sequence[str],
    root: str | None,
    detach: bool,
    rootless: bool,
    node_name: str | None,
    timeout: float,
) -> None:
    """Make the volumes of all pods in PATH... real, and keep them so. Ctrl-C leaves volumes in place."""
    settings = settings_of(context, root, node_name=node_name)
    manifests = [os.path.abspath(path) for path in paths]
    _check(manifests, settings, rootless)
    if detach:
        config = (context.find_root().obj or {}).get("config")
        command = [sys.executable, "-m", "mooring", *(["--config", config] if config else [])]
        command += ["--root", settings.root, "up", *manifests, *(["--rootless"] if rootless else [])]
        command += ["--node-name", node_name] if node_name else []
        _detach(settings, command, timeout)
        return
    if rootless:
        from mooring.host.namespaces import enter_user_namespace  # noqa: PLC0415 - only where it is asked for

        enter_user_namespace()
        click.echo("mooring: volumes live in a namespace of their own; `mooring enter` opens a shell in it", err=True)
    _run(settings, manifests)


def _check(manifests: Sequence[str], settings: Settings, rootless: bool) -> None:
    """Refuse what cannot work before anything is touched."""
    if os.geteuid() != 0 and not rootless:
        raise Refused(
            "cannot mount volumes",
            why="only root may mount on this machine",
            next_step="Run it as root, or with --rootless to mount in a namespace of your own",
        )
    for path in manifests:
        if not os.path.exists(path):
            raise InvalidInput(f"cannot read {path!r}", why="there is no such file or directory")
    _check_manifests(manifests, fresh=not os.path.isdir(f"{settings.root}/store"))


def _check_manifests(manifests: Sequence[str], *, fresh: bool) -> None:
    """Refuse mistakes while nothing runs yet; later the last good version of everything goes on."""
    from mooring.daemon.mistakes import BadManifests, mistakes_in, worded  # noqa: PLC0415 - as the next
    from mooring.sources.manifest_files import ManifestFiles, scan  # noqa: PLC0415 - loads the codec

    mistakes = mistakes_in(ManifestFiles("").read(scan(manifests).files).findings)
    if mistakes and fresh:
        raise BadManifests(mistakes, "nothing was started")
    for mistake in mistakes:
        click.echo(f"mooring: {worded(mistake)} What the file said before stays.", err=True)


def _run(settings: Settings, manifests: Sequence[str]) -> None:
    from mooring.daemon.serve import serve  # noqa: PLC0415 - the whole daemon, which other commands do not need

    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    watch = None
    if sys.stdout.isatty():
        from mooring.daemon.live_table import show_live  # noqa: PLC0415

        watch = show_live
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(settings, manifests, watch=watch))


def _detach(settings: Settings, command: Sequence[str], timeout: float) -> None:
    """Start the daemon as a process of its own, and return when it answers."""
    client, paths = Client(settings.root), Paths(settings.root)
    if client.answers():
        raise AlreadyRunning(settings.root, read_pid(paths))
    make_root(paths)
    log_path = f"{settings.root}/mooring.log"
    with open(log_path, "ab") as log:
        daemon = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    deadline = time.monotonic() + timeout
    while not client.answers():
        if daemon.poll() is not None:
            raise Refused("the daemon ended at once", why=_last_line(log_path), next_step=f"Its log is {log_path}")
        if time.monotonic() > deadline:
            daemon.terminate()
            raise Refused("the daemon does not answer", why=f"{timeout:g} s have passed", next_step=f"See {log_path}")
        time.sleep(0.01)
    click.echo(f"mooring runs as process {daemon.pid}; its log is {log_path}", err=True)


def _last_line(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = stream.read().strip().splitlines()
    return lines[-1].removeprefix("mooring: ") if lines else "it said nothing"
