"""mooring's side: a manager as a library caller has it, with history on disk, metrics and events."""

from __future__ import annotations

import asyncio
import os
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

from bench import floor
from bench.clock import Clock, resident
from bench.node import BenchNode, pod, running_node, uid
from bench.programs import Figures
from mooring.host import features, ownership
from mooring.host.ownership_calls import Ownership, OwnershipWalk
from mooring.kube.objects.pod import Pod
from mooring.world.changes import Change, Finished
from mooring.world.names import PodUid

EDITED = dict.fromkeys(floor.CONFIG, b"y" * 100)


async def single(root: str, pods: int) -> Figures:
    async with running_node(root) as node:
        return await one_after_the_other(node, [pod(number) for number in range(pods)])


async def one_after_the_other(node: BenchNode, every: Sequence[Pod]) -> Figures:
    """Nothing is polled: what the caller sees is when it was so, and there is no other figure for it."""
    up, down = [], []
    for one in every:
        began = time.perf_counter()
        node.manager.pod_changed(one)
        await node.manager.wait_for_attach_and_mount(one)
        up.append(time.perf_counter() - began)
        began = time.perf_counter()
        node.manager.pod_removed(PodUid(one.metadata.uid))
        await node.manager.wait_for_unmount(one)
        down.append(time.perf_counter() - began)
        await node.manager.reconciler.until_idle()
    wait, gone = statistics.median(up), statistics.median(down)
    return {"wait": wait, "wait_worst": max(up), "ready": wait, "gone": gone, "unmounted": gone}


async def bulk(root: str, pods: int) -> Figures:
    async with running_node(root) as node:
        return await all_at_once(node, [pod(number) for number in range(pods)])


async def all_at_once(node: BenchNode, every: Sequence[Pod]) -> Figures:
    volumes = sum(len(one.spec.volumes) for one in every)
    before, clock = resident(), Clock()
    ready = await _arrive(node, every)
    up, up_cpu, memory = clock.seconds, clock.cpu, resident()
    await node.manager.reconciler.until_idle()
    clock = Clock()
    for one in every:
        node.manager.pod_removed(PodUid(one.metadata.uid))
    await node.manager.wait_for_all_pods_unmount(every)
    down = clock.seconds
    await node.manager.reconciler.until_idle()
    return {
        "up": up,
        "up_per_volume": up / volumes,
        "up_cpu_per_volume": up_cpu / volumes,
        "median_share": statistics.median(ready) / up,
        "down": down,
        "swept": clock.seconds,  # the pods' directories have gone as well
        "down_cpu_per_volume": clock.cpu / volumes,
        "bytes_per_volume": (memory - before) / volumes,
    }


async def _arrive(node: BenchNode, every: Sequence[Pod]) -> list[float]:
    """Hand all pods over, wait for each; returns when each was ready."""
    began = time.perf_counter()

    async def ready(one: Pod) -> float:
        await node.manager.wait_for_attach_and_mount(one)
        return time.perf_counter() - began

    for one in every:
        node.manager.pod_changed(one)
    return await asyncio.gather(*(ready(one) for one in every))


async def prepare(root: str, pods: int) -> Figures:
    """Mount the pods and leave them mounted."""
    async with running_node(root) as node:
        await _arrive(node, [pod(number) for number in range(pods)])
    return {}


async def restart(root: str, pods: int) -> Figures:
    """From the start of a manager over mounted pods until all are known to be as wanted."""
    every = [pod(number) for number in range(pods)]
    async with running_node(root, heard=False) as node:
        clock = Clock()  # the manager was made, and has done nothing yet
        for one in every:
            node.manager.pod_changed(one)
        node.manager.sources_heard()
        await asyncio.gather(*(node.manager.wait_for_attach_and_mount(one) for one in every))
        return clock.figures()


async def orphans(root: str, pods: int) -> Figures:
    """From the start of a manager that no pod is told of until no volume is left, and then no directory either."""
    async with running_node(root) as node:
        clock = Clock()
        await node.manager.wait_for_states_synced()
        await asyncio.gather(
            *(node.manager.wait_for_uid_unmount(found) for found in sorted(node.manager.actual.pods()))
        )
        unmounted = clock.seconds
        await node.manager.wait_for_nothing_left(timeout=300.0)
        swept = clock.seconds
    if forgotten := os.listdir(f"{root}/pods"):
        raise RuntimeError(f"{len(forgotten)} pods are left")
    return {"seconds": unmounted, "swept": swept}


async def refresh(root: str, pods: int) -> Figures:
    """An edit of the ConfigMap until it is in every volume that uses it: one in each pod, and one projected."""
    moments: list[float] = []
    began = 0.0

    def listen(change: Change) -> None:
        if isinstance(change, Finished) and change.refreshed:
            moments.append(time.perf_counter() - began)

    async with running_node(root) as node:
        await _arrive(node, [pod(number) for number in range(pods)])
        await node.manager.reconciler.until_idle()
        node.manager.subscribe(listen)
        clock, began = Clock(), time.perf_counter()
        node.edit_config(EDITED)
        await node.manager.reconciler.until_idle()
        figures = clock.figures()
    for number in range(pods):
        for place in ("kubernetes.io~configmap/config", "kubernetes.io~projected/projected"):
            if Path(root, "pods", uid(number), "volumes", place, "key-0").read_bytes() != EDITED["key-0"]:
                raise RuntimeError(f"pod {number} has not got the change")
    moments.sort()
    return {**figures, "one": moments[0], "p99": moments[int(0.99 * len(moments))]}


async def fs_group(root: str, pods: int) -> Figures:
    """Two walks as for an fsGroup: the first changes every entry, the second finds all right."""
    kernel, figures = features.probe(), {}
    for name in ("change", "nothing"):
        wanted = Ownership(gid=3000, file_mask=0o660, directory_mask=0o2770)
        clock = Clock()
        report = await asyncio.to_thread(
            ownership.own_tree, f"{root}/tree", wanted, kernel, OwnershipWalk(clock=time.monotonic)
        )
        figures[name] = clock.seconds
        if report.failed:
            raise RuntimeError(f"{report.failed} entries were not changed")
    return figures
