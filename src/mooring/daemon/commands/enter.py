"""`mooring enter`: a shell in the namespace of a rootless instance."""

from __future__ import annotations

import os
import shutil

import click

from mooring.daemon.options import root_option, settings_of
from mooring.errors import Refused


@click.command(context_settings={"ignore_unknown_options": True})
@root_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.pass_context
def enter(context: click.Context, root: str | None, command: tuple[str, ...]) -> None:
    """Open a shell (or run COMMAND) where the volumes of a --rootless instance are mounted."""
    pid = _pid_of(settings_of(context, root).root)
    inside = list(command) or [os.environ.get("SHELL", "/bin/sh")]
    flags = [f"--{name}" for name, link in (("user", "user"), ("mount", "mnt")) if _is_elsewhere(pid, link)]
    if not flags:
        os.execvp(inside[0], inside)  # an instance without namespaces: its volumes are right here
    program = shutil.which("nsenter")
    if program is None:
        raise Refused("cannot enter", why="the program nsenter is missing", next_step="Install util-linux")
    flags += ["--preserve-credentials"] if "--user" in flags else []
    os.execv(program, [program, "--target", pid, *flags, f"--wd={os.getcwd()}", "--", *inside])


def _is_elsewhere(pid: str, namespace: str) -> bool:
    """Whether a process is in another namespace of this kind than we are."""
    return os.readlink(f"/proc/{pid}/ns/{namespace}") != os.readlink(f"/proc/self/ns/{namespace}")


def _pid_of(root: str) -> str:
    try:
        with open(f"{root}/mooring.lock", encoding="ascii") as stream:
            pid = stream.read().strip()
        os.kill(int(pid), 0)
    except (OSError, ValueError) as error:
        raise Refused(
            f"cannot enter the instance at {root!r}",
            why="no daemon runs there",
            next_step="Start one with `mooring up --rootless --detach`, or name its --root",
        ) from error
    return pid
