"""The figures as tables, and as docs/performance.md."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench import plots
from bench.calls import SHOWN, UpAndDown
from bench.rows import Line, Samples, Spread, shown

DOCS = Path(__file__).parent.parent / "docs"
PAGE = Path(__file__).parent / "performance.md"


def table(lines: Sequence[Line]) -> str:
    """One line for each row. What cannot be compared is a dash."""
    told = [
        "| work | mooring | kubelet | times | floor | × floor | accepted at | aim | |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        row = line.row
        accepted, aim = (goal.words(row.unit) if goal is not None else "–" for goal in (row.accepted, row.aim))
        times = f"**{line.times:.1f}**" if line.times is not None else "–"
        of_floor = f"{line.of_floor:.1f}" if line.of_floor is not None else "–"
        sides = f"{_spread(line.ours, row.unit)} | {_spread(line.kubelet, row.unit)} | {times}"
        floor = f"{_median(line.floor, row.unit)} | {of_floor}"
        told.append(f"| {row.says} | {sides} | {floor} | {accepted} | {aim} | {verdict(line)} |")
    return "\n".join(told)


def verdict(line: Line) -> str:
    """How far a row came."""
    accepted, aim = line.met(line.row.accepted), line.met(line.row.aim)
    if accepted is False:
        return "**missed**"
    if aim:
        return "aim"
    return "accepted" if accepted else ""


def _spread(spread: Spread | None, unit: str) -> str:
    if spread is None:
        return "–"
    if spread.low == spread.high:
        return shown(spread.median, unit)
    return f"{shown(spread.median, unit)} ({_number(spread.low, unit)}–{_number(spread.high, unit)})"


def _median(spread: Spread | None, unit: str) -> str:
    return shown(spread.median, unit) if spread is not None else "–"


def _number(value: float, unit: str) -> str:
    return shown(value, unit).removesuffix("×").split(" ")[0]


def won_over(lines: Sequence[Line]) -> str:
    """Which rows are won over timers, and which over work."""
    words = []
    for what in ("timers", "work"):
        rows = [line.row.says for line in lines if line.row.won_over == what and (line.times or 0.0) > 1.0]
        if rows:
            words.append(f"- Over {what}: {'; '.join(rows)}.")
    return "\n".join(words)


def noise(samples: Samples) -> str:
    """How busy the machine was with other things."""
    told = ["| scenario | others' share of the machine: median | most |", "|---|---|---|"]
    for scenario, shares in samples.noise().items():
        told.append(f"| {scenario} | {statistics.median(shares):.0%} | {max(shares):.0%} |")
    return "\n".join(told)


def calls_table(counted: Mapping[str, UpAndDown]) -> str:
    """System calls, new processes and programs per volume on every side."""
    told = ["| per volume | system calls | processes and threads | programs run |", "|---|---|---|---|"]
    for side, both in counted.items():
        for way, calls in (("set up", both.up), ("taken down", both.down)):
            told.append(f"| {side}, {way} | {calls.total:.1f} | {calls.forks:.2f} | {calls.programs:.2f} |")
    for way, calls in (("set up", counted["mooring"].up), ("taken down", counted["mooring"].down)):
        most = sorted(calls.each.items(), key=lambda item: -item[1])[:SHOWN]
        each = ", ".join(f"{name} {number:.1f}" for name, number in most if number >= 0.05)
        told += ["", f"mooring, {way}: {each}."]
    return "\n".join(told)


def write(lines: Sequence[Line], samples: Samples, counted: Mapping[str, UpAndDown], rounds: int) -> None:
    """Write the page and its plots into docs/."""
    machine = f"{os.cpu_count()} processors, Linux {platform.release()}, Python {platform.python_version()}"
    explained = "\n".join(f"- **{line.row.says}.** {line.row.explains}" for line in lines)
    page = PAGE.read_text(encoding="utf-8").format(
        machine=machine,
        rounds=rounds,
        table=table(lines),
        won_over=won_over(lines),
        explained=explained,
        noise=noise(samples),
        calls=calls_table(counted) if counted else "strace was not installed: nothing was counted.",
    )
    (DOCS / "performance.md").write_text(page, encoding="utf-8")
    plots.write(DOCS / "performance", lines, samples)
