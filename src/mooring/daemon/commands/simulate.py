"""`mooring simulate`: whole histories of a node in memory, with faults and crashes, checked after every step."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

import click
import msgspec

from mooring.daemon.options import output_option
from mooring.errors import InvalidInput
from mooring.testing.simulation.history import LEAST_CRASHES
from mooring.testing.simulation.planted_bugs import PLANTED, planted
from mooring.testing.simulation.reporting import (
    Totals,
    as_document,
    numbered_steps,
    run_until_failure,
    scripts_of,
)
from mooring.testing.simulation.runner import History
from mooring.testing.simulation.script import Script, from_json, to_json
from mooring.testing.simulation.shrink import shrink


@click.command()
@click.option("--histories", type=click.IntRange(min=1), default=100, show_default=True, help="How many to run.")
@click.option("--seed", type=int, default=0, show_default=True, help="The first one's seed; the others follow it.")
@click.option(
    "--crashes",
    type=click.IntRange(min=0),
    default=LEAST_CRASHES,
    show_default=True,
    help="How many crashes each has at least.",
)
@click.option("--script", metavar="FILE", help="Run this one script (JSON) instead; - reads it from stdin.")
@click.option("--plant", type=click.Choice(sorted(PLANTED)), help="Plant a bug, to check the simulation itself.")
@output_option("text", "json")
def simulate(histories: int, seed: int, crashes: int, script: str | None, plant: str | None, output: str) -> int:
    """Run seeded histories of a whole node in memory, with faults and crashes.

    Pods share disks of drivers that attach, stage and publish and answer as they like, beside volumes of mooring's
    own. After every step it is checked that no data is lost, that what counts as mounted is there, that nothing is
    taken away too early, that all a driver has is written down, and at the end that nothing is left behind. A
    violated rule is shown with the shortest script found for it.
    """
    scripts = [_read(script)] if script is not None else scripts_of(seed, histories, crashes)
    logging.getLogger("mooring").addHandler(logging.NullHandler())  # what managers log is in the histories
    with planted(plant):
        again = _again(crashes, plant)
        return _print_document(scripts) if output == "json" else _print_summary(scripts, again)


def _again(crashes: int, plant: str | None) -> str:
    """The options that a failing history has to be run with again."""
    wanted = f" --crashes {crashes}" if crashes != LEAST_CRASHES else ""
    return f"{wanted} --plant {plant}" if plant is not None else wanted


def _read(script: str) -> Script:
    try:
        with click.open_file(script, "rb") as stream:
            return from_json(stream.read())
    except OSError as error:
        raise InvalidInput("cannot read the script", why=error.strerror or str(error), place=script) from error
    except msgspec.DecodeError as error:
        raise InvalidInput("cannot read the script", why=str(error), place=script) from error


def _print_document(scripts: Iterable[Script]) -> int:
    document = as_document(run_until_failure(scripts))
    click.echo(json.dumps(document, indent=1))
    return 0 if document["failure"] is None else 1


def _print_summary(scripts: Iterable[Script], again: str) -> int:
    totals = Totals()
    failure: History | None = None
    for history in run_until_failure(scripts):
        totals.add(history)
        failure = history if history.violation is not None else None
    click.echo(str(totals))
    if failure is None:
        return 0
    _print_failure(failure, again)
    return 1


def _print_failure(failure: History, again: str) -> None:
    """The seed and the rule, then the shortest script that breaks it, for reading and for running."""
    shrunk = shrink(failure).history
    assert failure.violation is not None
    assert shrunk.violation is not None
    seed = failure.script.seed
    click.echo(f"\nThe history of seed {seed} violates {failure.violation}", err=True)
    click.echo(f"It goes wrong in {len(shrunk.script.steps)} steps as well: {shrunk.violation}\n", err=True)
    for line in numbered_steps(shrunk.script):
        click.echo(line, err=True)
    click.echo("\nWhat happened:\n", err=True)
    for entry in shrunk.entries:
        click.echo(str(entry), err=True)
    click.echo(f"\nRun the whole history again: mooring simulate --seed {seed} --histories 1{again}", err=True)
    click.echo(
        f"Run the short one: save this as script.json, then mooring simulate --script script.json{again}", err=True
    )
    click.echo(to_json(shrunk.script), err=True)
