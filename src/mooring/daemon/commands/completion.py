"""`mooring completion`: the shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HOW = {
    "bash": 'eval "$(mooring completion bash)"',
    "zsh": 'eval "$(mooring completion zsh)"',
    "fish": "mooring completion fish | source",
}


@click.command()
@click.argument("shell", type=click.Choice(sorted(_HOW)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script: eval "$(mooring completion bash)"."""
    found = get_completion_class(shell)
    assert found is not None
    script = found(context.find_root().command, {}, "mooring", "_MOORING_COMPLETE")
    click.echo(script.source())
