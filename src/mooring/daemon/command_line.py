"""The `mooring` command. Commands are loaded when called, so that the small ones start fast."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

import click

from mooring import __version__
from mooring.daemon.options import ROOT_HELP
from mooring.errors import InvalidInput, MooringError

_COMMANDS = {
    "up": "mooring.daemon.commands.up:up",
    "down": "mooring.daemon.commands.down:down",
    "apply": "mooring.daemon.commands.manifests:apply",
    "delete": "mooring.daemon.commands.manifests:delete",
    "plan": "mooring.daemon.commands.plan:plan",
    "get": "mooring.daemon.commands.look:get",
    "describe": "mooring.daemon.commands.look:describe",
    "explain": "mooring.daemon.commands.explain:explain",
    "timeline": "mooring.daemon.commands.explain:timeline",
    "doctor": "mooring.daemon.commands.doctor:doctor",
    "events": "mooring.daemon.commands.look:events",
    "top": "mooring.daemon.commands.top:top",
    "mounts": "mooring.daemon.commands.mounts:mounts",
    "run": "mooring.daemon.commands.run:run",
    "wait": "mooring.daemon.commands.explain:wait",
    "agent": "mooring.daemon.commands.agent:agent",
    "controller": "mooring.daemon.commands.controller:controller",
    "csi": "mooring.daemon.commands.csi:csi",
    "simulate": "mooring.daemon.commands.simulate:simulate",
    "enter": "mooring.daemon.commands.enter:enter",
    "completion": "mooring.daemon.commands.completion:completion",
}
"""Where each command lives."""

DONE, NOT_DONE, UNUSABLE = 0, 1, 2
"""Exit status: done; not done, with the reasons on stderr; wrong usage or unusable input."""


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = _COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mooring")
@click.option("--root", metavar="DIR", envvar="MOORING_ROOT", help=ROOT_HELP)
@click.option("--config", metavar="FILE", envvar="MOORING_CONFIG", help="TOML file with settings.")
@click.pass_context
def cli(context: click.Context, root: str | None, config: str | None) -> None:
    """Kubernetes volumes without a cluster: a directory of manifests becomes real, live volumes."""
    context.obj = {"root": root, "config": config}


def main(arguments: list[str] | None = None) -> None:
    """Run a command, and end with its exit status."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    """Run a command; errors are one clear text on stderr and a status, never a traceback."""
    try:
        result: Any = cli.main(args=arguments, prog_name="mooring", standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Abort:
        return NOT_DONE
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return UNUSABLE
    except InvalidInput as error:
        click.echo(f"mooring: {error}", err=True)
        return UNUSABLE
    except MooringError as error:
        click.echo(f"mooring: {error}", err=True)
        return NOT_DONE
    except BrokenPipeError:
        _let_go_of_stdout()
        return NOT_DONE
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        click.echo(f"mooring: {error.strerror or error}{where}", err=True)
        return NOT_DONE
    return result if isinstance(result, int) else DONE


def _let_go_of_stdout() -> None:
    """Whoever read our output has gone: what is still buffered goes nowhere, and the interpreter ends quietly."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)
