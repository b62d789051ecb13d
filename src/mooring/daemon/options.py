"""Options that several commands take, and how settings are made from them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import click

from mooring.errors import InvalidInput
from mooring.settings import Settings, load_settings, parse_duration

F = TypeVar("F", bound=Callable[..., Any])
ROOT_HELP = "Directory of the instance [/var/lib/mooring; ~/.local/state/mooring without root]."


class Duration(click.ParamType[float]):
    """A time such as `60s` or `2m`, in seconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_duration(str(value))
        except InvalidInput as error:
            self.fail(str(error), param, ctx)


def root_option(command: F) -> F:
    """`--root` after the command's name, as well as before it."""
    return click.option("--root", metavar="DIR", help=ROOT_HELP)(command)


def detach_option(command: F) -> F:
    says = "Return as soon as the daemon answers; it goes on in the background."
    return click.option("--detach", "detached", is_flag=True, help=says)(command)


def output_option(*formats: str) -> Callable[[F], F]:
    return click.option(
        "-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True, help="How to print it."
    )


def timeout_option(default: str = "60s") -> Callable[[F], F]:
    return click.option(
        "--timeout", type=Duration(), default=default, show_default=True, metavar="TIME", help="How long to wait."
    )


def settings_of(context: click.Context, root: str | None, **flags: object) -> Settings:
    """The settings that flags, environment and configuration file give. Ordinary users have a root of their own."""
    outer = context.find_root().obj or {}
    defaults = {} if os.geteuid() == 0 else {"root": user_root()}
    chosen = {"root": root or outer.get("root"), **flags}
    settings = load_settings(chosen, os.environ, file=outer.get("config"), defaults=defaults)
    return replace(settings, root=os.path.abspath(settings.root))


def user_root() -> str:
    """Where an instance of an ordinary user lives when nothing else is said."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return f"{state}/mooring"
