"""`mooring mounts`: what each container of a pod should see."""

from __future__ import annotations

import click

from mooring.daemon.client import Client
from mooring.daemon.mount_formats import FORMATS, NOT_RECURSIVE
from mooring.daemon.options import output_option, root_option, settings_of

_PATIENCE = 150.0  # longer than a hanging volume is waited for


@click.command()
@click.argument("pod", metavar="POD")
@root_option
@output_option(*FORMATS)
@click.pass_context
def mounts(context: click.Context, pod: str, root: str | None, output: str) -> None:
    """Show what each container of a pod should see, ready for those who start containers."""
    asked = {"pod": pod, "recursive_read_only": "no" if output in NOT_RECURSIVE else "yes"}
    rows = Client(settings_of(context, root).root).post("/v1/mounts", asked, patience=_PATIENCE)
    if rows or output in ("json", "oci"):
        click.echo(FORMATS[output](rows))
    else:
        click.echo("its containers use no volumes", err=True)
