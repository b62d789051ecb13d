"""`mooring apply` and `delete`: change what a running manager keeps."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from mooring.daemon.client import Body, Client
from mooring.daemon.options import root_option, settings_of
from mooring.errors import InvalidInput
from mooring.observe.shapes import SEVERAL_FILES

files_option = click.option("-f", "--filename", "paths", multiple=True, required=True, metavar="PATH",
                            help="File or directory of manifests; - is standard input.")  # fmt: skip


@click.command()
@files_option
@root_option
@click.pass_context
def apply(context: click.Context, paths: Sequence[str], root: str | None) -> None:
    """Create or change objects, all together. One file with a mistake, and nothing changes."""
    answer = Client(settings_of(context, root).root).post("/v1/apply", body=_sent(paths))
    _tell(answer, ("created", "changed", "unchanged"))


@click.command()
@files_option
@root_option
@click.pass_context
def delete(context: click.Context, paths: Sequence[str], root: str | None) -> None:
    """Delete the objects that manifests name; volumes of deleted pods are unmounted."""
    answer = Client(settings_of(context, root).root).post("/v1/delete", body=_sent(paths))
    _tell(answer, ("deleted", "missing"))
    for name, path in answer["written_in"].items():
        again = "it comes back when that file changes or mooring starts again"
        click.echo(f"mooring: {name} is still written in {path}: {again}", err=True)


def _tell(answer: dict[str, Any], verbs: Sequence[str]) -> None:
    for verb in verbs:
        for name in answer[verb]:
            click.echo(f"{name} {'not found' if verb == 'missing' else verb}")


def _sent(paths: Sequence[str]) -> Body:
    """All manifests named, read before any is sent, so that a missing file changes nothing."""
    files = [{"origin": origin, "text": text.decode("utf-8", errors="replace")} for origin, text in _texts(paths)]
    return Body(json.dumps({"files": files}).encode(), SEVERAL_FILES)


def _texts(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    if "-" in paths:
        yield "standard input", sys.stdin.buffer.read()
    from mooring.sources.manifest_files import scan  # noqa: PLC0415 - the codec behind it takes its time to load

    found = scan([os.path.abspath(path) for path in paths if path != "-"])
    if found.unreadable:
        path, why = found.unreadable[0]
        raise InvalidInput(f"cannot read {path!r}", why=why)
    for path in found.files:
        with open(path, "rb") as stream:
            yield path, stream.read()
