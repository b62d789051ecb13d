"""`mooring down`: unmount everything and stop."""

from __future__ import annotations

import click

from mooring.daemon.client import Client, NoDaemon
from mooring.daemon.options import root_option, settings_of, timeout_option


@click.command()
@root_option
@timeout_option()
@click.pass_context
def down(context: click.Context, root: str | None, timeout: float) -> int:
    """End the containers of `mooring run`, unmount everything in order, and stop the daemon, if one runs."""
    settings = settings_of(context, root)
    try:
        answer = Client(settings.root).post("/v1/down", {"timeout": str(timeout)}, patience=timeout + 30.0)
    except NoDaemon:
        from mooring.daemon.cleanup import clean_up  # noqa: PLC0415 - needs the whole manager

        answer = clean_up(settings, timeout)
    if answer["done"]:
        return 0
    click.echo(f"mooring: not everything could be unmounted within {timeout:g} s:", err=True)
    for pod, words in answer["containers"].items():
        click.echo(f"  {pod}: containers have not ended ({words})", err=True)
    for row in answer["left"]:
        whose = f"{row['pod']} {row['volume']}: " if row["pod"] is not None else ""
        click.echo(f"  {whose}{row['reason'] or row['state']} ({row['path']})", err=True)
    return 1
