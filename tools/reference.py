"""Writes docs/reference.md from the code: commands, settings, JSON shapes, HTTP API and metrics. `--check` compares."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import click
from prometheus_client import CollectorRegistry

from mooring.daemon.command_line import cli
from mooring.observe.metrics import Metrics
from mooring.observe.mount_metrics import MountMetrics
from mooring.observe.shapes import ROUTES, SHAPES
from mooring.plugins.builtin import BUILTIN
from mooring.settings import Settings
from mooring.world.actual import ActualStateOfWorld
from mooring.world.desired import DesiredStateOfWorld

TARGET = Path(__file__).parent.parent / "docs" / "reference.md"

HEAD = """# Reference

This page is written by `make docs` from the code itself, and `make test` fails when it is out of date.

Exit status of every command: **0** done, **1** not done (the reasons are on stderr), **2** wrong usage or unusable
input (with file, line and field). Data goes to stdout, everything else to stderr. `POD` is `name` or
`namespace/name`; `PATH` is a file or a directory, which is read recursively (`*.yaml`, `*.yml`, `*.json`; hidden
names are left out). Times are written like `60s`, `2m` or `500ms`.
"""


def main() -> int:
    text = "\n".join([HEAD, *commands(), *settings(), *shapes(), *http(), *metrics(), *plugins()]) + "\n"
    if "--check" in sys.argv:
        if TARGET.read_text(encoding="utf-8") == text:
            return 0
        print("docs/reference.md does not say what the code does; run `make docs`", file=sys.stderr)
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


def commands() -> Iterator[str]:
    yield "## Commands\n"
    outer = click.Context(cli, info_name="mooring", terminal_width=80)
    yield "```text"
    yield cli.get_help(outer).rstrip()
    yield "```\n"
    for name in cli.list_commands(outer):
        command = cli.get_command(outer, name)
        assert command is not None
        yield f"### mooring {name}\n"
        yield "```text"
        yield command.get_help(click.Context(command, info_name=name, parent=outer, terminal_width=80)).rstrip()
        yield "```\n"


def settings() -> Iterator[str]:
    yield "## Settings\n"
    yield "From the strongest to the weakest: flags, environment (`MOORING_` and the name in capitals), the TOML file"
    yield "named by `--config` or `MOORING_CONFIG`, defaults.\n"
    yield "| name | default | meaning |"
    yield "|---|---|---|"
    for field in dataclasses.fields(Settings):
        default = f"{field.default:g} s" if isinstance(field.default, float) else f"`{field.default!r}`"
        yield f"| `{field.name}` | {default} | {field.metadata['says']} |"
    yield ""


def shapes() -> Iterator[str]:
    yield "## JSON shapes\n"
    yield "`-o json` prints one array of these objects (`get`, `timeline`) or one object (`explain`, `describe`,"
    yield "`plan`). Fields are only ever added.\n"
    for title, fields in SHAPES.items():
        yield f"### {title}\n"
        yield "| field | meaning |"
        yield "|---|---|"
        yield from (f"| `{name}` | {says} |" for name, says in fields.items())
        yield ""


def http() -> Iterator[str]:
    yield "## HTTP API\n"
    yield "On the control socket `<root>/mooring.sock`, which only the owner of the daemon may open:"
    yield "`curl --unix-socket /var/lib/mooring/mooring.sock http://mooring/v1/pods`. Errors are"
    yield '`{"error": …, "what": …, "why": …, "next_step": …}` with a fitting status.\n'
    yield "| request | answer |"
    yield "|---|---|"
    yield from (f"| `{route}` | {says} |" for route, says in ROUTES.items())
    yield ""


class _Engine:
    resync_found_work = 0


def metrics() -> Iterator[str]:
    yield "## Metrics\n"
    yield "At `/metrics` of the control socket, in Prometheus' text format. Names without `mooring_` are the"
    yield "kubelet's.\n"
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    made = Metrics(DesiredStateOfWorld(), ActualStateOfWorld(), _Engine(), surprises=lambda: 0)
    made.registry.register(MountMetrics(dict))
    for family in sorted(_families(made.registry), key=lambda family: family[0]):
        yield "| `{}` | {} | {} | {} |".format(*family)
    yield ""


def _families(registry: CollectorRegistry) -> Iterator[tuple[str, str, str, str]]:
    for collector in list(registry._collector_to_names):
        labels = getattr(collector, "_labelnames", ()) or getattr(collector, "label_names", ())
        for family in collector.collect():
            name = f"{family.name}_total" if family.type == "counter" else family.name
            shown = labels or (("plugin_name", "state") if name == "volume_manager_total_volumes" else ())
            yield name, family.type, ", ".join(f"`{label}`" for label in shown) or "–", family.documentation


def plugins() -> Iterator[str]:
    yield "## Volume types\n"
    yield "Other packages add their own with an entry point in the group `mooring.volume_plugins`.\n"
    yield "| plugin | what it is |"
    yield "|---|---|"
    for factory in BUILTIN:
        module = sys.modules[factory.__module__]
        says = (module.__doc__ or "").strip().splitlines()[0]
        yield f"| `{getattr(factory, 'name')}` | {says} |"  # noqa: B009 - a factory is any callable to the type checker


if __name__ == "__main__":
    sys.exit(main())
