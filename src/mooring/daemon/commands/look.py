"""`mooring get`, `describe` and `events`: what is there."""

from __future__ import annotations

import json
from typing import Any

import click

from mooring.daemon.client import Client
from mooring.daemon.options import output_option, root_option, settings_of
from mooring.daemon.tables import as_yaml, show, table, text
from mooring.errors import InvalidInput

_VOLUME_COLUMNS = [
    ("POD", "pod"),
    ("VOLUME", "volume"),
    ("PLUGIN", "plugin"),
    ("STATE", "state"),
    ("PATH", "path"),
    ("REASON", "reason"),
]
_USAGE_COLUMNS = [("CAPACITY", "capacity"), ("USED", "used"), ("INODES", "inodes")]
_COLUMNS = {
    "pods": [("POD", "pod"), ("READY", "ready"), ("MOUNTED", "mounted"), ("VOLUMES", "volumes"), ("CAUSE", "cause")],
    "volumes": _VOLUME_COLUMNS,
    "claims": [("CLAIM", "claim"), ("PHASE", "phase"), ("VOLUME", "volume"), ("CLASS", "class"), ("REASON", "reason")],
    "drivers": [
        ("DRIVER", "name"),
        ("STATE", "state"),
        ("VERSION", "version"),
        ("ENDPOINT", "endpoint"),
        ("NODE ID", "node_id"),
        ("REASON", "reason"),
    ],
    "operations": [("OPERATION", "operation"), ("POD", "pod"), ("VOLUME", "volume")],
    "events": [
        ("LAST SEEN", "last_seen"),
        ("TYPE", "type"),
        ("REASON", "reason"),
        ("OBJECT", "object"),
        ("COUNT", "count"),
        ("MESSAGE", "message"),
    ],
    "findings": [("KIND", "kind"), ("WHERE", "where"), ("WHAT", "what"), ("NEXT STEP", "next_step")],
}
_KINDS = {"pod": "pod", "pods": "pod", "po": "pod", "volume": "volume", "volumes": "volume"}


@click.command()
@click.argument("what", type=click.Choice(sorted(_COLUMNS)))
@root_option
@output_option("table", "wide", "json", "yaml")
@click.pass_context
def get(context: click.Context, what: str, root: str | None, output: str) -> None:
    """List pods, volumes, claims, drivers, operations, events or findings. `-o wide` shows how full volumes are."""
    client, columns = Client(settings_of(context, root).root), _COLUMNS[what]
    if output == "wide" and what == "volumes":
        rows = [{**row, **_usage_texts(row["usage"])} for row in client.get("/v1/volumes", {"usage": "1"})]
        columns = [*_VOLUME_COLUMNS[:4], *_USAGE_COLUMNS, *_VOLUME_COLUMNS[4:]]
    else:
        rows = client.get(f"/v1/{what}")
    show(rows, columns, "table" if output == "wide" else output, empty=f"no {what}")


def _usage_texts(usage: dict[str, Any] | None) -> dict[str, str]:
    """Figures as people read them; a lower bound is marked."""
    if usage is None:
        return {}
    mark = "" if usage["complete"] else "≥"
    return {
        "capacity": _bytes(usage["capacity"]),
        "used": mark + _bytes(usage["used"]),
        "inodes": f"{mark}{usage['inodes_used']}/{usage['inodes']}",
    }


def _bytes(amount: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"


@click.command()
@click.argument("thing", metavar="KIND/NAME")
@root_option
@output_option("text", "json", "yaml")
@click.pass_context
def describe(context: click.Context, thing: str, root: str | None, output: str) -> None:
    """Tell everything about one pod or volume: pod/NAME, pod/NAMESPACE/NAME or volume/POD/NAME."""
    kind, _, name = thing.partition("/")
    if kind not in _KINDS or not name:
        raise InvalidInput(
            f"cannot describe {thing!r}", why="it is not KIND/NAME", next_step="Write pod/NAME or volume/POD/NAME"
        )
    answer = Client(settings_of(context, root).root).get("/v1/describe", {"kind": _KINDS[kind], "name": name})
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
    elif output == "yaml":
        click.echo(as_yaml(answer), nl=False)
    else:
        _describe(answer)


def _describe(answer: dict[str, Any]) -> None:
    for key, value in answer.items():
        if isinstance(value, str | int | bool) or value is None:
            click.echo(f"{key.replace('_', ' ').capitalize() + ':':14}{text(value)}")
    for title, columns in (("volumes", _VOLUME_COLUMNS), ("events", _COLUMNS["events"]), ("timeline", TIMELINE)):
        rows = answer.get(title)
        if isinstance(rows, list) and rows:
            click.echo(f"\n{title.capitalize()}:")
            click.echo("\n".join(f"  {line}" for line in table(rows, columns)))


TIMELINE = [
    ("AT", "at"),
    ("VOLUME", "volume"),
    ("WHAT", "what"),
    ("RESULT", "result"),
    ("SECONDS", "seconds"),
    ("DETAIL", "detail"),
]


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on printing events as they happen.")
@root_option
@output_option("table", "json", "yaml")
@click.pass_context
def events(context: click.Context, follow: bool, root: str | None, output: str) -> None:
    """List events, or follow them."""
    client = Client(settings_of(context, root).root)
    if not follow:
        show(client.get("/v1/events"), _COLUMNS["events"], output, empty="no events")
        return
    for row in client.lines("/v1/events", {"follow": "1"}):
        if output == "json":
            click.echo(json.dumps(row))
        else:
            click.echo(f"{row['last_seen']} {row['type']} {row['reason']} {row['object']} {row['message']}")
