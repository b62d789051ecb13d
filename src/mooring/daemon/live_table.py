"""The table that `mooring up` keeps on the screen."""

from __future__ import annotations

import asyncio
from typing import Any

from rich.live import Live
from rich.table import Table
from rich.text import Text

from mooring.daemon.instance import Instance
from mooring.world.changes import Change

_STYLES = {"mounted": "green", "waiting": "yellow", "failed": "bold red", "uncertain": "magenta"}
_MOST_ROWS = 40


async def show_live(instance: Instance) -> None:
    """Draw the volumes again whenever something happened; rest while nothing does."""
    changed = asyncio.Event()

    def notice(_: Change) -> None:
        changed.set()

    instance.manager.subscribe(notice)
    with Live(_table(instance.status.volumes()), auto_refresh=False, transient=False) as live:
        while True:
            await changed.wait()
            await asyncio.sleep(0.1)  # a screen needs no more than ten pictures a second
            changed.clear()
            live.update(_table(instance.status.volumes()), refresh=True)


def _table(rows: list[dict[str, Any]]) -> Table:
    mounted = sum(row["state"] == "mounted" for row in rows)
    table = Table(title=f"{mounted} of {len(rows)} volumes mounted; Ctrl-C leaves them in place", title_justify="left")
    for heading in ("POD", "VOLUME", "STATE", "WHERE OR WHY"):
        table.add_column(heading, overflow="fold")
    for row in sorted(rows, key=lambda row: row["state"] == "mounted")[:_MOST_ROWS]:
        state = Text(row["state"], style=_STYLES.get(row["state"], "cyan"))
        where = row["path"] if row["state"] == "mounted" else row["reason"]
        table.add_row(row["pod"], row["volume"], state, where or "")
    if len(rows) > _MOST_ROWS:
        table.add_row("…", f"and {len(rows) - _MOST_ROWS} more", "", "")
    return table
