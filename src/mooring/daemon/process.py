"""An instance as a process: in the foreground with its log on stderr, or detached."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mooring.daemon.client import Client
from mooring.daemon.root_directory import AlreadyRunning, make_root, read_pid
from mooring.errors import Refused
from mooring.host import open_files
from mooring.host.paths import Paths
from mooring.settings import Settings

if TYPE_CHECKING:
    from mooring.daemon.serve import Assembly


def run_in_foreground(settings: Settings, assembly: Assembly) -> None:
    """Serve until told to stop; on a terminal with a table of the volumes."""
    from mooring.daemon.serve import serve  # noqa: PLC0415 - the whole daemon, which other commands do not need

    logging.basicConfig(level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    open_files.raise_limit()
    watch = None
    if sys.stdout.isatty():
        from mooring.daemon.live_table import show_live  # noqa: PLC0415

        watch = show_live
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(settings, assembly, watch=watch))


def command_line(context: click.Context, settings: Settings, *arguments: str) -> list[str]:
    """The command that runs `mooring` again with the same settings file and root."""
    config = (context.find_root().obj or {}).get("config")
    command = [sys.executable, "-m", "mooring", *(["--config", config] if config else [])]
    return [*command, "--root", settings.root, *arguments]


def detach(settings: Settings, command: Sequence[str], timeout: float) -> None:
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
