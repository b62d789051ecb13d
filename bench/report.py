"""The figures as a table, as docs/performance.md, and as plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

DOCS = Path(__file__).parent.parent / "docs"
_SCALE = {"s": 1.0, "ms": 1000.0}


class Sampled(Protocol):
    def median(self, name: str) -> float: ...


@dataclass(frozen=True, slots=True)
class Row:
    """One figure on both sides, in seconds, and the unit it is shown in."""

    says: str
    mooring: float
    floor: float
    unit: str

    @property
    def ratio(self) -> float | None:
        """How many times the floor; none where the floor is next to nothing."""
        return self.mooring / self.floor if self.floor > 1e-4 else None

    def shown(self, seconds: float) -> str:
        return f"{seconds * _SCALE[self.unit]:.2f} {self.unit}"


@dataclass(frozen=True, slots=True)
class Point:
    """Seconds per volume at a number of volumes."""

    volumes: int
    mooring: float
    floor: float


def ratio(says: str, sides: Mapping[str, Sampled], name: str, unit: str) -> Row:
    return Row(says, sides["mooring"].median(name), sides["floor"].median(name), unit)


def table(rows: Sequence[Row], per_volume: Sequence[Point], memory: float) -> str:
    lines = ["| work | mooring | plain loop | times |", "|---|---|---|---|"]
    for row in rows:
        times = f"{row.ratio:.1f}" if row.ratio is not None else "–"
        lines.append(f"| {row.says} | {row.shown(row.mooring)} | {row.shown(row.floor)} | {times} |")
    for point in per_volume:
        says = f"one of {point.volumes:,} volumes at once"
        cost, bottom = point.mooring * 1e6, point.floor * 1e6
        lines.append(f"| {says} | {cost:.0f} µs | {bottom:.0f} µs | {cost / bottom:.1f} |")
    lines.append(f"| memory a volume, at 4,000 | {memory / 1024:.1f} KiB | – | – |")
    return "\n".join(lines)


_PAGE = """# Performance

Written by `make bench-quick`, with the plots. Each row compares mooring with **the floor**: the same directories,
files, links and mounts made by a plain Python loop ([bench/floor.py](../bench/floor.py)) that keeps no state, checks
nothing and tells nobody. Both sides run in turn in one run, on a fresh ext4 with a journal, in a private mount
namespace; figures are medians. Machines differ and are noisy: read the last column.

Measured on {machine}.

{table}

![How many times the floor each kind of work takes](performance/ratios.svg)

![Cost of one volume at 400 and at 4,000 volumes](performance/flat.svg)

## What the rows mean

- **One pod** is a configMap (5 files), a secret (3), a projected volume (6) and an emptyDir in memory: three tmpfs
  mounts. *Known → ready* is what a waiter sees, from handing the pod over to the return of the wait: the event loop's
  turns, planning, the system calls, both worlds, history on disk, metrics. Nothing on the path sleeps or polls.
- **At once**: all pods are handed over and all waits started; the figure is the time until the last wait returned. At
  most 64 operations run at a time, in the order pods came, so the first pods are ready long before the last.
- **Removed** includes the pods' directories on both sides; mooring looks for foreign mounts and files before it
  removes anything.
- **Restart**: a new manager finds everything on disk, and one set-up per volume compares every byte of its content;
  no mount is touched.
- **Edit**: from the change of the object to the last rewritten volume; one configMap and one projected volume in each
  of 250 pods. Volumes that do not use the object are not looked at.
- **Idle**: nothing is polled; what remains is the full resync once a minute, which finds nothing to do.
- **One of N volumes**: the cost of a volume does not grow with their number.
- **Memory**: growth of the resident set divided by the number of volumes, pods and history included.
"""


def write(rows: Sequence[Row], per_volume: Sequence[Point], memory: float, machine: str) -> None:
    """Write the page and its plots into docs/."""
    page = _PAGE.format(machine=machine, table=table(rows, per_volume, memory))
    (DOCS / "performance.md").write_text(page, encoding="utf-8")
    _plot_ratios([row for row in rows if row.ratio is not None])
    _plot_flat(per_volume)


def _plot_ratios(rows: Sequence[Row]) -> None:
    import matplotlib.pyplot as plt  # noqa: PLC0415 - half a second that only the report needs

    figure, axes = plt.subplots(figsize=(9, 4))
    names = [row.says for row in reversed(rows)]
    values = [row.ratio or 0.0 for row in reversed(rows)]
    bars = axes.barh(names, values, color="#2a6f97")
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.axvline(1.0, color="#444444", linewidth=1)
    axes.set_xlabel("times the plain loop (1 = nothing but system calls)")
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, "ratios.svg")


def _plot_flat(points: Sequence[Point]) -> None:
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(6, 3.2))
    sizes = [point.volumes for point in points]
    axes.plot(sizes, [point.mooring * 1e6 for point in points], marker="o", label="mooring", color="#2a6f97")
    axes.plot(sizes, [point.floor * 1e6 for point in points], marker="o", label="plain loop", color="#999999")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("volumes at once")
    axes.set_ylabel("µs per volume")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, "flat.svg")


def _save(figure: object, name: str) -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415

    assert isinstance(figure, Figure)
    place = DOCS / "performance"
    place.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(place / name, metadata={"Date": None})
