"""What is measured: scenarios, and how each side runs them. Every run gets a fresh file system of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from bench import arena, daemon_side, kubelet, python_side
from bench.clock import Clock
from bench.programs import Figures, run, watched

MOORING, KUBELET, C, PYTHON, DRIVER = "mooring", "kubelet", "C", "Python", "driver"
PODS = 1000
SINGLES = 12  # pods that come and go one after the other
IDLE_WINDOW = 61.0
"""Seconds: mooring's full resync, once a minute, is among them."""

FLEETS = (25, 100, 250, PODS)

OnRoot = Callable[[str], Figures]
Side = Callable[[str, int], Figures]


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One kind of work. `together` runs the sides at the same time, where only processor time is looked at."""

    name: str
    sides: Mapping[str, OnRoot]
    together: bool = False

    def round(self, number: int) -> Iterator[tuple[str, Figures]]:
        """All sides once; every other round begins with the last."""
        order = list(self.sides)[:: 1 if number % 2 == 0 else -1]
        if self.together:
            with ThreadPoolExecutor(len(order)) as pool:
                yield from zip(order, pool.map(self._run, order), strict=True)
            return
        for side in order:
            yield side, self._run(side)

    def _run(self, side: str) -> Figures:
        with arena.fresh_file_system() as root:
            return self.sides[side](root)


def measured(scenario: str, side: str, pods: int) -> OnRoot:
    """A measurement by `bench.measure` in a process of its own."""

    def on(root: str) -> Figures:
        noise: Figures = {}
        with watched(noise):
            figures: Figures = run([sys.executable, "-m", "bench.measure", scenario, side, root, str(pods)])
        return {**figures, **noise}

    return on


def over_mounted(scenario: str, side: str, pods: int) -> OnRoot:
    """The same over pods that another process of the same side has mounted before."""

    def on(root: str) -> Figures:
        measured("prepare", side, pods)(root)
        return measured(scenario, side, pods)(root)

    return on


def noted(side: Side, pods: int) -> OnRoot:
    """A measurement that tells how busy the machine was otherwise."""

    def on(root: str) -> Figures:
        noise: Figures = {}
        with watched(noise):
            figures = side(root, pods)
        return {**figures, **noise}

    return on


class CFloor:
    """The compiled floor's scenarios."""

    def __init__(self, program: str, walker: str) -> None:
        self._program, self._walker = program, walker

    def plain(self, scenario: str, pods: int, root: str) -> Figures:
        figures: Figures = run([self._program, scenario, root, str(pods)])
        return figures

    def bulk(self, pods: int, root: str) -> Figures:
        one = self.plain("bulk", pods, root)
        up, down = ({"seconds": one[name], "cpu": one[f"{name}_cpu"]} for name in ("up", "down"))
        return python_side.bulk_figures(up, down, pods)

    def restart(self, pods: int, root: str) -> Figures:
        self.plain("prepare", pods, root)
        return self.plain("restart", pods, root)

    def orphans(self, pods: int, root: str) -> Figures:
        seconds = self.bulk(pods, root)["swept"]
        return {"seconds": seconds, "swept": seconds}

    def refresh(self, pods: int, root: str) -> Figures:
        whole = self.plain("refresh", pods, root)["seconds"]
        return {"p99": whole, "one": whole / (2 * pods)}

    def fs_group(self, root: str) -> Figures:
        tree, figures = kubelet.make_tree(root), {}
        for name, mode in (("change", "all"), ("nothing", "skip")):
            clock = Clock()
            run([self._walker, tree, "3000", mode])
            figures[name] = clock.seconds
        return figures


def _fs_group(root: str) -> Figures:
    kubelet.make_tree(root)
    return measured("fs_group", MOORING, 0)(root)


def _idle(side: Callable[[str, int, float], Figures]) -> OnRoot:
    """One with all pods and one without any, at the same time."""

    def on(root: str) -> Figures:
        with arena.fresh_file_system() as other, ThreadPoolExecutor(2) as pool:
            full, empty = pool.map(side, (root, other), (PODS, 0), (IDLE_WINDOW, IDLE_WINDOW))
        return {**full, **{f"{name}_empty": value for name, value in empty.items()}}

    return on


def loops(name: str, pods: int, c: CFloor | None) -> dict[str, OnRoot]:
    """The floors: the loop in Python always, that in C where it could be compiled."""
    prepared = name in ("restart", "orphans")
    found = {PYTHON: (over_mounted if prepared else measured)(name, "python", pods)}
    if c is not None:
        special = {"bulk": c.bulk, "restart": c.restart, "orphans": c.orphans, "refresh": c.refresh}
        found[C] = partial(special.get(name, partial(c.plain, name)), pods)
    return found


def of_four(name: str, pods: int, c: CFloor | None, theirs: Side | None = None) -> Scenario:
    """A scenario over pods of four volumes."""
    ours = over_mounted if name in ("restart", "orphans") else measured
    sides = {MOORING: ours(name, MOORING, pods), **loops(name, pods, c)}
    return Scenario(name=f"{name} {pods}", sides=sides if theirs is None else {**sides, KUBELET: noted(theirs, pods)})


def against_the_floor(c: CFloor | None) -> list[Scenario]:
    """What `make bench-quick` measures."""
    every = (
        ("single", SINGLES),
        ("bulk", FLEETS[0]),
        ("bulk", PODS),
        ("restart", PODS),
        ("orphans", PODS),
        ("refresh", 250),
    )
    return [of_four(name, pods, c) for name, pods in every]


def against_the_kubelet(c: CFloor | None) -> list[Scenario]:
    """What `make bench` measures, in the order of a round."""
    fours = (
        ("single", SINGLES, kubelet.single),
        *(("bulk", pods, kubelet.bulk) for pods in FLEETS),
        ("restart", PODS, kubelet.restart),
        ("orphans", PODS, kubelet.orphans),
        ("refresh", 250, kubelet.refresh),
        ("refresh", 1, kubelet.refresh),
    )
    with_driver = (("csi_single", SINGLES, kubelet.csi_single), ("csi_bulk", 100, kubelet.csi_bulk))
    walks = {MOORING: _fs_group, KUBELET: noted(kubelet.fs_group, 0), **({C: c.fs_group} if c is not None else {})}
    return [
        *(of_four(name, pods, c, theirs) for name, pods, theirs in fours),
        *(_with_driver(name, pods, theirs) for name, pods, theirs in with_driver),
        Scenario(name="fs_group", sides=walks),
        Scenario(
            name=f"get {PODS}",
            sides={MOORING: noted(daemon_side.get, PODS), PYTHON: noted(daemon_side.bare_start, 0)},
        ),
        Scenario(
            name=f"idle {PODS}", sides={MOORING: _idle(daemon_side.idle), KUBELET: _idle(kubelet.idle)}, together=True
        ),
    ]


def _with_driver(name: str, pods: int, theirs: Side) -> Scenario:
    sides = {MOORING: measured(name, MOORING, pods), DRIVER: measured(name, DRIVER, pods), KUBELET: noted(theirs, pods)}
    return Scenario(name=f"{name} {pods}", sides=sides)
