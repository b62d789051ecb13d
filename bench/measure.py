"""One measurement in a process of its own: `python -m bench.measure SCENARIO SIDE ROOT [PODS]` prints one JSON line."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from bench import floor
from bench.node import pod, running_node, uid
from mooring.world.names import PodUid

Figures = dict[str, float]
EDITED = dict.fromkeys(floor.CONFIG, b"y" * 100)
IDLE_WINDOW = 8.0


class Clock:
    """Wall time and processor time since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    def figures(self) -> Figures:
        return {"seconds": time.perf_counter() - self._wall, "cpu": time.process_time() - self._cpu}


def resident() -> int:
    """Bytes of memory this process holds."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- one pod ------------------------------------------------------------------------------------------------------
async def single_mooring(root: str, pods: int) -> Figures:
    up, down = [], []
    async with running_node(root) as node:
        for number in range(pods):
            one = pod(number)
            began = time.perf_counter()
            node.manager.pod_changed(one)
            await node.manager.wait_for_attach_and_mount(one)
            up.append(time.perf_counter() - began)
            began = time.perf_counter()
            node.manager.pod_removed(PodUid(uid(number)))
            await node.manager.wait_for_unmount(one)
            down.append(time.perf_counter() - began)
            await node.manager.reconciler.until_idle()
    return {"ready": statistics.median(up), "ready_worst": max(up), "gone": statistics.median(down)}


async def single_floor(root: str, pods: int) -> Figures:
    up, down = [], []
    for number in range(pods):
        began = time.perf_counter()
        floor.set_up_pod(root, uid(number))
        up.append(time.perf_counter() - began)
        began = time.perf_counter()
        floor.tear_down_pod(root, uid(number))
        down.append(time.perf_counter() - began)
    return {"ready": statistics.median(up), "ready_worst": max(up), "gone": statistics.median(down)}


# -- many pods at once --------------------------------------------------------------------------------------------
async def bulk_mooring(root: str, pods: int) -> Figures:
    every = [pod(number) for number in range(pods)]
    async with running_node(root) as node:
        before, clock = resident(), Clock()
        for one in every:
            node.manager.pod_changed(one)
        await asyncio.gather(*(node.manager.wait_for_attach_and_mount(one) for one in every))
        up, memory = clock.figures(), resident() - before
        await node.manager.reconciler.until_idle()
        clock = Clock()
        for number in range(pods):
            node.manager.pod_removed(PodUid(uid(number)))
        await node.manager.wait_for_all_pods_unmount(every)
        await node.manager.reconciler.until_idle()  # the floor removes the pods' directories as well
        down = clock.figures()
    return {
        "up": up["seconds"],
        "up_cpu": up["cpu"],
        "down": down["seconds"],
        "down_cpu": down["cpu"],
        "bytes_per_volume": memory / (4 * pods),
    }


async def bulk_floor(root: str, pods: int) -> Figures:
    clock = Clock()
    for number in range(pods):
        floor.set_up_pod(root, uid(number))
    up, clock = clock.figures(), Clock()
    for number in range(pods):
        floor.tear_down_pod(root, uid(number))
    down = clock.figures()
    return {"up": up["seconds"], "up_cpu": up["cpu"], "down": down["seconds"], "down_cpu": down["cpu"]}


# -- idle, restart, refresh: over pods that stay -------------------------------------------------------------------
async def prepare(root: str, pods: int) -> Figures:
    """Mount the pods and leave them mounted."""
    every = [pod(number) for number in range(pods)]
    async with running_node(root) as node:
        for one in every:
            node.manager.pod_changed(one)
        await asyncio.gather(*(node.manager.wait_for_attach_and_mount(one) for one in every))
    return {}


async def restart_mooring(root: str, pods: int) -> Figures:
    """From the start of a manager over mounted pods until all are known to be as wanted; then its idle cost."""
    every = [pod(number) for number in range(pods)]
    clock = Clock()
    async with running_node(root, heard=False) as node:
        for one in every:
            node.manager.pod_changed(one)
        node.manager.sources_heard()
        await asyncio.gather(*(node.manager.wait_for_attach_and_mount(one) for one in every))
        figures = clock.figures()
        await node.manager.reconciler.until_idle()
        clock = Clock()
        await asyncio.sleep(IDLE_WINDOW)
        idle = clock.figures()["cpu"] * 60 / IDLE_WINDOW
    return {**figures, "idle_cpu_per_minute": idle}


async def restart_floor(root: str, pods: int) -> Figures:
    clock = Clock()
    for number in range(pods):
        floor.find_pod(root, uid(number))
    figures, clock = clock.figures(), Clock()
    await asyncio.sleep(IDLE_WINDOW)
    return {**figures, "idle_cpu_per_minute": clock.figures()["cpu"] * 60 / IDLE_WINDOW}


async def refresh_mooring(root: str, pods: int) -> Figures:
    """An edit of the ConfigMap until it is in every volume that uses it: one per pod, and one projected."""
    every = [pod(number) for number in range(pods)]
    async with running_node(root) as node:
        for one in every:
            node.manager.pod_changed(one)
        await asyncio.gather(*(node.manager.wait_for_attach_and_mount(one) for one in every))
        await node.manager.reconciler.until_idle()
        clock = Clock()
        node.edit_config(EDITED)
        await node.manager.reconciler.until_idle()
        return clock.figures()


async def refresh_floor(root: str, pods: int) -> Figures:
    for number in range(pods):
        floor.set_up_pod(root, uid(number))
    clock = Clock()
    for number in range(pods):
        floor.update_volumes(root, uid(number), EDITED)
    return clock.figures()


SCENARIOS: dict[str, Callable[[str, int], Coroutine[Any, Any, Figures]]] = {
    "single-mooring": single_mooring,
    "single-floor": single_floor,
    "bulk-mooring": bulk_mooring,
    "bulk-floor": bulk_floor,
    "prepare-mooring": prepare,
    "restart-mooring": restart_mooring,
    "restart-floor": restart_floor,
    "refresh-mooring": refresh_mooring,
    "refresh-floor": refresh_floor,
}


def main() -> None:
    scenario, side, root, pods = sys.argv[1:5]
    os.umask(0o022)
    print(json.dumps(asyncio.run(SCENARIOS[f"{scenario}-{side}"](root, int(pods)))))


if __name__ == "__main__":
    main()
