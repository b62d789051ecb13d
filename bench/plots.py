"""The plots of docs/performance.md."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.rows import Line, Samples
from bench.scenarios import FLEETS, KUBELET, MOORING, PYTHON, C

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {MOORING: "#2a6f97", KUBELET: "#c05746", PYTHON: "#999999", C: "#444444"}
_LABELS = {MOORING: "mooring", KUBELET: "kubelet", PYTHON: "loop in Python", C: "loop in C"}


def write(place: Path, lines: Sequence[Line], samples: Samples) -> None:
    place.mkdir(exist_ok=True)
    _ratios(place, lines)
    _flat(place, samples)


def _ratios(place: Path, lines: Sequence[Line]) -> None:
    """How many times mooring's figure the kubelet takes, with the goals."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - half a second that only the report needs

    shown = [line for line in reversed(lines) if line.times is not None and line.row.won_over]
    figure, axes = plt.subplots(figsize=(9, 0.36 * len(shown) + 1.2))
    colours = ["#8fb8cf" if line.row.won_over == "timers" else "#2a6f97" for line in shown]
    bars = axes.barh([line.row.says for line in shown], [line.times or 1.0 for line in shown], color=colours)
    axes.bar_label(bars, fmt="%.1f", padding=3)
    for place_on_axis, line in enumerate(shown):
        goal = line.row.accepted
        if goal is not None and goal.times is not None:
            axes.plot([goal.times] * 2, [place_on_axis - 0.4, place_on_axis + 0.4], color="#c05746", linewidth=2)
    axes.set_xscale("log")
    axes.axvline(1.0, color="#444444", linewidth=1)
    axes.set_xlabel("the kubelet's figure ÷ mooring's (light: over timers, dark: over work; red: accepted at)")
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, place / "ratios.svg")


def _flat(place: Path, samples: Samples) -> None:
    """What one of many volumes costs that come at once."""
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(6, 3.4))
    for side, colour in _COLOURS.items():
        points = [(4 * pods, samples.of(f"bulk {pods}", side, "up_per_volume")) for pods in FLEETS]
        costs = [(volumes, statistics.median(values) * 1e6) for volumes, values in points if values]
        axes.plot(*zip(*costs, strict=True), marker="o", label=_LABELS[side], color=colour)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("volumes at once")
    axes.set_ylabel("µs per volume")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    _save(figure, place / "flat.svg")


def _save(figure: Figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
