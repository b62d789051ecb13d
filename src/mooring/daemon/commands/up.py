"""`mooring up`: run the manager over manifests, in the foreground or as a daemon."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from mooring.daemon.options import detach_option, root_option, settings_of, timeout_option
from mooring.daemon.process import command_line, detach, run_in_foreground
from mooring.errors import InvalidInput, Refused
from mooring.settings import Settings

if TYPE_CHECKING:
    from mooring.sources.manifest_files import ManifestFiles


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@root_option
@detach_option
@click.option("--rootless", is_flag=True, help="Mount in a user and mount namespace of its own, without root.")
@click.option("--node-name", metavar="NAME", help="Name of this node [the host name].")
@timeout_option()
@click.pass_context
def up(
    context: click.Context,
    paths: Sequence[str],
    root: str | None,
    detached: bool,
    rootless: bool,
    node_name: str | None,
    timeout: float,
) -> None:
    """Make the volumes of all pods in PATH... real, and keep them so. Ctrl-C leaves volumes in place."""
    settings = settings_of(context, root, node_name=node_name)
    manifests = [os.path.abspath(path) for path in paths]
    _check(manifests, rootless)
    files = _read(manifests, settings)
    if detached:
        flags = [*(["--rootless"] if rootless else []), *(["--node-name", node_name] if node_name else [])]
        detach(settings, command_line(context, settings, "up", *manifests, *flags), timeout)
        return
    if rootless:
        from mooring.host.namespaces import enter_user_namespace  # noqa: PLC0415 - only where it is asked for

        enter_user_namespace()
        click.echo("mooring: volumes live in a namespace of their own; `mooring enter` opens a shell in it", err=True)
    from mooring.daemon.instance import assembled  # noqa: PLC0415 - the whole daemon, which other commands do not need

    run_in_foreground(settings, lambda host: assembled(settings, host, manifests, files))


def _check(manifests: Sequence[str], rootless: bool) -> None:
    """Refuse what cannot work before anything is touched."""
    if os.geteuid() != 0 and not rootless:
        raise Refused(
            "cannot mount volumes",
            why="only root may mount on this machine",
            next_step="Run it as root, or with --rootless to mount in a namespace of your own",
        )
    for path in manifests:
        if not os.path.exists(path):
            raise InvalidInput(f"cannot read {path!r}", why="there is no such file or directory")


def _read(manifests: Sequence[str], settings: Settings) -> ManifestFiles:
    """Read the manifests, and refuse mistakes while nothing runs yet; later the last good version of all goes on."""
    from mooring.daemon.mistakes import BadManifests, mistakes_in, worded  # noqa: PLC0415 - as the next
    from mooring.daemon.node_facts import node_name  # noqa: PLC0415 - as the next
    from mooring.sources.manifest_files import ManifestFiles, scan  # noqa: PLC0415 - loads the codec

    files = ManifestFiles(node_name(settings))
    mistakes = mistakes_in(files.read(scan(manifests).files).findings)
    if mistakes and not os.path.isdir(f"{settings.root}/store"):
        raise BadManifests(mistakes, "nothing was started")
    for mistake in mistakes:
        click.echo(f"mooring: {worded(mistake)} What the file said before stays.", err=True)
    return files
