"""`mooring plan`: what `up` would do, with risks; changes nothing and needs no daemon."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

import click

from mooring.daemon.options import output_option, root_option, settings_of
from mooring.daemon.tables import table
from mooring.errors import InvalidInput


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@root_option
@output_option("table", "json")
@click.pass_context
def plan(context: click.Context, paths: Sequence[str], root: str | None, output: str) -> None:
    """Show what would be done over PATH..., with its risks. Changes nothing."""
    from mooring.daemon.planning import plan_manifests  # noqa: PLC0415 - loads the whole manager

    for path in paths:
        if not os.path.exists(path):
            raise InvalidInput(f"cannot read {path!r}", why="there is no such file or directory")
    answer = plan_manifests(settings_of(context, root), [os.path.abspath(path) for path in paths])
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
        return
    if answer["operations"]:
        columns = [("DO", "operation"), ("POD", "pod"), ("VOLUME", "volume"), ("PATH", "path"), ("RISKS", "risks")]
        click.echo("\n".join(table(answer["operations"], columns)))
    else:
        click.echo("Nothing is to be done.")
    if answer["waits"]:
        click.echo("\nThese volumes would wait:")
        columns = [("POD", "pod"), ("VOLUME", "volume"), ("CAUSE", "cause"), ("NEXT STEP", "next_step")]
        click.echo("\n".join(table(answer["waits"], columns)))
