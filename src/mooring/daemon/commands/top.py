"""`mooring top`: the volumes of a running daemon, live."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from mooring.daemon.client import Client
from mooring.daemon.options import root_option, settings_of, timeout_option
from mooring.daemon.tables import table

_COLUMNS = [("POD", "pod"), ("VOLUME", "volume"), ("STATE", "state"), ("PLUGIN", "plugin"), ("REASON", "reason")]
_PAUSE = 0.1


@click.command()
@click.option("--until-mounted", is_flag=True, help="End when every volume is mounted; status 1 if not in time.")
@root_option
@timeout_option()
@click.pass_context
def top(context: click.Context, until_mounted: bool, root: str | None, timeout: float) -> int:
    """Show all volumes and keep the picture fresh, until Ctrl-C."""
    client = Client(settings_of(context, root).root)
    deadline = time.monotonic() + timeout
    picture = _Picture()
    while True:
        rows = client.get("/v1/volumes")
        picture.draw(rows)
        mounted = client.is_ready() and all(row["state"] == "mounted" for row in rows)
        if until_mounted and (mounted or time.monotonic() > deadline):
            return 0 if mounted else 1
        time.sleep(_PAUSE)


class _Picture:
    """The table as last printed. On a terminal it is drawn over; elsewhere only changes are printed."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def draw(self, rows: list[dict[str, Any]]) -> None:
        mounted = sum(row["state"] == "mounted" for row in rows)
        lines = [*table(rows, _COLUMNS), f"{mounted} of {len(rows)} volumes mounted"]
        if lines == self._lines:
            return
        if self._lines and sys.stdout.isatty():
            click.echo(f"\033[{len(self._lines)}A\033[J", nl=False)
        click.echo("\n".join(lines))
        self._lines = lines
