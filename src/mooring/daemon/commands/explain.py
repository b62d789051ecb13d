"""`mooring explain`, `timeline` and `wait`: why something is not ready, what happened, and waiting for it."""

from __future__ import annotations

import json
from typing import Any

import click

from mooring.daemon.client import Client
from mooring.daemon.commands.look import TIMELINE
from mooring.daemon.options import output_option, root_option, settings_of, timeout_option
from mooring.daemon.tables import show, table


def _split(text: str, pods: list[str]) -> tuple[str, str]:
    """POD and VOLUME of `pod`, `pod/volume`, `namespace/pod` or `namespace/pod/volume`; pods that exist decide."""
    parts = text.split("/")
    if len(parts) == 3:
        return f"{parts[0]}/{parts[1]}", parts[2]
    if len(parts) == 2 and text not in pods and any(pod.partition("/")[2] == parts[0] for pod in pods):
        return parts[0], parts[1]
    return text, ""


def _asked(client: Client, text: str) -> dict[str, str]:
    pods = [row["pod"] for row in client.get("/v1/pods")] if "/" in text else []
    pod, volume = _split(text, pods)
    return {"pod": pod, "volume": volume} if volume else {"pod": pod}


@click.command()
@click.argument("pod", metavar="POD[/VOLUME]")
@root_option
@output_option("text", "json")
@click.pass_context
def explain(context: click.Context, pod: str, root: str | None, output: str) -> None:
    """Say in one sentence why a pod's volumes are not ready, and what to do about it."""
    client = Client(settings_of(context, root).root)
    answer = client.get("/v1/explain", _asked(client, pod))
    if output == "json":
        click.echo(json.dumps(answer, indent=2))
    else:
        _explain(answer)


def _explain(answer: dict[str, Any]) -> None:
    if answer["ready"]:
        click.echo(f"{answer['pod']} is ready: {_readiness([row['volume'] for row in answer['volumes']])}.")
        return
    click.echo(f"{answer['pod']}: {answer['cause']}")
    step = next((row["next_step"] for row in answer["volumes"] if row["cause"] and row["next_step"]), None)
    if step:
        click.echo(f"Next step: {step}.")
    click.echo()
    columns = [("VOLUME", "volume"), ("STATE", "state"), ("ATTEMPTS", "attempts"), ("CAUSE", "cause")]
    click.echo("\n".join(table(answer["volumes"], columns)))


def _readiness(volumes: list[str]) -> str:
    match volumes:
        case []:
            return "it uses no volumes"
        case [one]:
            return f"volume {one!r} is mounted"
        case _:
            return f"all of its {len(volumes)} volumes are mounted"


@click.command()
@click.argument("pod", metavar="POD[/VOLUME]")
@root_option
@output_option("table", "json", "yaml")
@click.pass_context
def timeline(context: click.Context, pod: str, root: str | None, output: str) -> None:
    """Show what happened to a pod's volumes, also of a pod that is gone."""
    client = Client(settings_of(context, root).root)
    rows = client.get("/v1/timeline", _asked(client, pod))
    show(rows, TIMELINE, output, empty="nothing happened yet")


@click.command()
@click.argument("pod", metavar="POD")
@click.option("--for", "wanted", type=click.Choice(["mounted", "unmounted"]), default="mounted", show_default=True)
@root_option
@timeout_option()
@click.pass_context
def wait(context: click.Context, pod: str, wanted: str, root: str | None, timeout: float) -> int:
    """Wait until all volumes of a pod are mounted, or all are gone. Exit status 1, with the reasons, if not in time."""
    client = Client(settings_of(context, root).root)
    asked = {"pod": pod, "for": wanted, "timeout": str(timeout)}
    answer = client.post("/v1/wait", asked, patience=timeout + 30.0)
    if answer["done"]:
        return 0
    report_unfinished_wait(pod, wanted, timeout, answer)
    return 1


def report_unfinished_wait(pod: str, wanted: str, timeout: float, answer: dict[str, Any]) -> None:
    """Say why a wait ended without what was wanted."""
    click.echo(f"mooring: {pod} is not {wanted} after {timeout:g} s: {answer['cause']}", err=True)
    rows = [row for row in answer["volumes"] if row["state"] != wanted]
    if len(rows) > 1 or wanted == "unmounted":
        for row in rows:
            click.echo(f"  {row['volume']}: {row.get('cause') or row['state']}", err=True)
