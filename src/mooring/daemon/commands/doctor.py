"""`mooring doctor`: what is left below a root directory, mooring's or a kubelet's, and what of it is nothing."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from mooring.daemon.client import Client
from mooring.daemon.options import output_option, root_option, settings_of
from mooring.daemon.root_directory import read_pid
from mooring.errors import MooringError
from mooring.host.paths import Paths

if TYPE_CHECKING:
    from mooring.doctor.audit import Report
    from mooring.doctor.findings import Diagnosis

Row = dict[str, Any]
_AGAIN = "See to the reason, then run `mooring doctor --repair` again"
_COLOURS = {"error": "red", "warning": "yellow", "info": "blue"}


@click.command()
@root_option
@click.option("--repair", is_flag=True, help="Clear what is provably empty and unused. Nothing with a byte in it goes.")
@output_option("table", "json")
@click.pass_context
def doctor(context: click.Context, root: str | None, repair: bool, output: str) -> int:
    """Examine a root directory of mooring or of a kubelet, and change nothing unless told to.

    Exit status: 0 nothing to do was found, 1 something was found (or is left after --repair), 2 the directory cannot
    be examined.
    """
    from mooring.daemon.building import make_host  # noqa: PLC0415 - needs all of the host
    from mooring.doctor.audit import audit, audit_and_repair  # noqa: PLC0415
    from mooring.doctor.survey import Surveyor, usable_root  # noqa: PLC0415

    settings = settings_of(context, root)
    host = make_host(settings)
    place = usable_root(settings.root, host.answers)
    with _alone(Paths(place)) as manager:
        known = _known_pods(place) if manager else None
        surveyor = Surveyor(host, place, manager=manager, known=known)
        report = audit_and_repair(surveyor) if repair else audit(surveyor)
    if repair and report.manager:
        click.echo(f"mooring: nothing was repaired: {report.manager} manages {place!r}", err=True)
    rows = _rows(report)
    if output == "json":
        click.echo(json.dumps(rows, indent=2))
    else:
        _print(rows, repair)
    return 0 if report.is_clean else 1


@contextlib.contextmanager
def _alone(paths: Paths) -> Iterator[str]:
    """Who manages the root directory, in words, or nobody: then mooring's lock, where there is one, is held meanwhile.

    The file of the lock is not written to, which holds the number of the process that had it last.
    """
    try:
        descriptor = os.open(paths.lock_file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        yield ""
        return
    except OSError as error:
        yield f"whoever may hold the lock that cannot be opened ({error.strerror})"
        return
    try:
        holder = ""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = f"the daemon (process {read_pid(paths)})"
        yield holder
    finally:
        os.close(descriptor)


def _known_pods(root: str) -> dict[str, str] | None:
    """Pods that the daemon knows or holds volumes of, by UID; None when it does not answer."""
    client = Client(root)
    try:
        pods = {row["uid"]: row["pod"] for row in client.get("/v1/pods")}
        volumes = {row["pod_uid"]: row["pod"] for row in client.get("/v1/volumes")}
    except (MooringError, OSError):
        return None
    return {**volumes, **pods}


def _rows(report: Report) -> list[Row]:
    failures = {(each.where, each.kind): why for each, why in report.failed}
    rows = [_row(each, "repaired", "") for each in report.repaired]
    for each in report.found:
        why = failures.get((each.where, each.kind), "")
        rows.append(_row(each, "left" if why else "found", why))
    return rows


def _row(diagnosis: Diagnosis, state: str, why: str) -> Row:
    from mooring.doctor.findings import words  # noqa: PLC0415

    next_step = _AGAIN if why else diagnosis.next_step
    return {
        "kind": diagnosis.kind,
        "severity": diagnosis.severity.value,
        "where": diagnosis.where,
        "what": diagnosis.what + (f"; it could not be cleared: {why}" if why else ""),
        "whose": diagnosis.whose or None,
        "holds": list(diagnosis.holds),
        "next_step": ("" if state == "repaired" else next_step) or None,
        "repair": [words(step) for step in diagnosis.repair],
        "state": state,
    }


def _print(rows: list[Row], repair: bool) -> None:
    for row in rows:
        mark = "cleared" if row["state"] == "repaired" else row["severity"]
        click.echo(
            f"{click.style(f'{mark:8}', fg=_COLOURS.get(mark, 'green'))} {row['kind']:14} {_shown(row['where'])}"
        )
        click.echo(f"         {_shown(row['what'])}")
        if row["next_step"]:
            click.echo(f"         → {_shown(row['next_step'])}")
    left = sum(row["state"] != "repaired" and row["severity"] != "info" for row in rows)
    clearable = sum(bool(row["repair"]) and row["state"] == "found" for row in rows)
    cleared = sum(row["state"] == "repaired" for row in rows)
    told = f"{cleared} cleared, {left} left" if repair else f"{left} found, {clearable} of them for --repair"
    click.echo(told if left or cleared else "nothing that needs anything done", err=True)


def _shown(text: str) -> str:
    """Text with odd characters made visible: names come from disks, and a terminal obeys some of them."""
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
