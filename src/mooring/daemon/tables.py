"""Rows as text: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

Row = dict[str, Any]
_GAP = "   "
_COLOURS = {"mounted": "green", "waiting": "yellow", "failed": "red", "uncertain": "magenta", "unmounting": "cyan"}


def show(rows: Sequence[Row], columns: Sequence[tuple[str, str]], output: str, *, empty: str) -> None:
    """Print rows: as a table of (heading, field) columns, or whole as JSON or YAML."""
    if output == "json":
        click.echo(json.dumps(list(rows), indent=2))
    elif output == "yaml":
        click.echo(as_yaml(list(rows)), nl=False)
    elif not rows:
        click.echo(empty, err=True)
    else:
        click.echo("\n".join(table(rows, columns)))


def table(rows: Sequence[Row], columns: Sequence[tuple[str, str]]) -> list[str]:
    """The lines of a table; the last column is not padded."""
    texts = [[heading for heading, _ in columns]] + [[text(row.get(field)) for _, field in columns] for row in rows]
    widths = [max(len(line[at]) for line in texts) for at in range(len(columns))]
    return [_line(line, widths, heading=at == 0) for at, line in enumerate(texts)]


def _line(texts: list[str], widths: list[int], *, heading: bool) -> str:
    padded = [text.ljust(width) for text, width in zip(texts[:-1], widths[:-1], strict=True)] + texts[-1:]
    shown = padded if heading else [_coloured(text) for text in padded]
    return _GAP.join(shown).rstrip()


def _coloured(text: str) -> str:
    colour = _COLOURS.get(text.strip())
    return click.style(text, fg=colour) if colour else text


def text(value: Any) -> str:
    """A value as a person reads it."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, list):
        return ",".join(str(each) for each in value) or "-"
    return str(value)


def as_yaml(value: Any) -> str:
    import yaml  # noqa: PLC0415 - 26 ms that only `-o yaml` should pay

    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))
