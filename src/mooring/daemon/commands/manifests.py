"""`mooring apply` and `delete`: change what a running manager keeps."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from mooring.daemon.client import Client
from mooring.daemon.options import root_option, settings_of
from mooring.errors import InvalidInput

files_option = click.option("-f", "--filename", "paths", multiple=True, required=True, metavar="PATH",
                            help="File or directory of manifests; - is standard input.")  # fmt: skip


@click.command()
@files_option
@root_option
@click.pass_context
def apply(context: click.Context, paths: Sequence[str], root: str | None) -> None:
    """Create or change objects. A file with a mistake changes nothing."""
    client = Client(settings_of(context, root).root)
    for origin, text in _texts(paths):
        answer = client.post("/v1/apply", {"origin": origin}, body=text)
        _tell(answer, ("created", "changed", "unchanged"))


@click.command()
@files_option
@root_option
@click.pass_context
def delete(context: click.Context, paths: Sequence[str], root: str | None) -> None:
    """Delete the objects that manifests name; volumes of deleted pods are unmounted."""
    client = Client(settings_of(context, root).root)
    for origin, text in _texts(paths):
        answer = client.post("/v1/delete", {"origin": origin}, body=text)
        _tell(answer, ("deleted", "missing"))


def _tell(answer: dict[str, Any], verbs: Sequence[str]) -> None:
    for verb in verbs:
        for name in answer[verb]:
            click.echo(f"{name} {'not found' if verb == 'missing' else verb}")


def _texts(paths: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """All manifests named, read before the first is sent, so that a missing file changes nothing."""
    if paths == ("-",):
        yield "standard input", sys.stdin.buffer.read()
        return
    from mooring.sources.manifest_files import scan  # noqa: PLC0415 - the codec behind it takes its time to load

    found = scan([os.path.abspath(path) for path in paths])
    if found.unreadable:
        path, why = found.unreadable[0]
        raise InvalidInput(f"cannot read {path!r}", why=why, place=path)
    texts = []
    for path in found.files:
        with open(path, "rb") as stream:
            texts.append((path, stream.read()))
    yield from texts
