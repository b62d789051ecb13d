"""The floor in Python: what bench/floor.c does, in an interpreter like mooring's."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

from bench import floor
from bench.clock import Clock
from bench.mooring_side import EDITED
from bench.node import uid
from bench.programs import Figures


async def single(root: str, pods: int) -> Figures:
    up, down = [], []
    for number in range(pods):
        began = time.perf_counter()
        floor.set_up_pod(root, uid(number))
        up.append(time.perf_counter() - began)
        began = time.perf_counter()
        floor.tear_down_pod(root, uid(number))
        down.append(time.perf_counter() - began)
    return {"wait": statistics.median(up), "wait_worst": max(up), "gone": statistics.median(down)}


async def bulk(root: str, pods: int) -> Figures:
    up = _for_all(floor.set_up_pod, root, pods)
    down = _for_all(floor.tear_down_pod, root, pods)
    return bulk_figures(up, down, pods)


def bulk_figures(up: Figures, down: Figures, pods: int) -> Figures:
    """The same names that managers have for a loop's figures; it removes what it unmounts at once."""
    volumes = 4 * pods
    return {
        "up": up["seconds"],
        "up_per_volume": up["seconds"] / volumes,
        "up_cpu_per_volume": up["cpu"] / volumes,
        "down": down["seconds"],
        "swept": down["seconds"],
        "down_cpu_per_volume": down["cpu"] / volumes,
    }


async def prepare(root: str, pods: int) -> Figures:
    return _for_all(floor.set_up_pod, root, pods)


async def restart(root: str, pods: int) -> Figures:
    return _for_all(floor.find_pod, root, pods)


async def orphans(root: str, pods: int) -> Figures:
    figures = _for_all(floor.tear_down_pod, root, pods)
    return {**figures, "swept": figures["seconds"]}


async def refresh(root: str, pods: int) -> Figures:
    _for_all(floor.set_up_pod, root, pods)
    clock = Clock()
    for number in range(pods):
        floor.update_volumes(root, uid(number), EDITED)
    return {**clock.figures(), "one": clock.seconds / (2 * pods), "p99": clock.seconds}


def _for_all(one: Callable[[str, str], object], root: str, pods: int) -> Figures:
    clock = Clock()
    for number in range(pods):
        one(root, uid(number))
    return clock.figures()
