"""`python -m bench.informers`: what following a cluster costs, against reading the same lists once and keeping them.

It prints a table; `--write` puts it into docs/performance/informers.md as well.

A real control plane is filled with pods and ConfigMaps. Two sides take turns, each in a process of its own: mooring's
informers (streamed, decoded, indexed, then kept up to date), and plain requests whose answers are kept as `json.loads`
gives them. Afterwards thousands of changes are written while the informers follow.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from rig import control_plane

from bench.clock import Clock, resident
from mooring.kube import kubeconfig
from mooring.kube.api import ApiError, NotFound
from mooring.kube.api_server import ApiServer
from mooring.kube.api_transport import Request, Transport
from mooring.kube.informer_factory import SharedInformerFactory
from mooring.kube.listener import Handler
from mooring.kube.objects import ConfigMap, Container, ObjectMeta, Pod, PodSpec
from mooring.kube.objects.kinds import CONFIG_MAP, POD, SERVICE_ACCOUNT
from mooring.kube.objects.pod import VolumeMount
from mooring.kube.objects.volumes import ConfigMapVolumeSource, EmptyDirVolumeSource, Volume

NAMESPACE = "default"
PAGE = Path(__file__).parent / "informers.md"
WRITTEN = Path(__file__).parents[1] / "docs" / "performance" / "informers.md"
AT_ONCE = 32
SIDES = ("informers", "plain")
SAYS = {"informers": "mooring's informers", "plain": "lists, `json.loads`"}


def config_map(number: int) -> ConfigMap:
    data = {f"key-{key}": "x" * 100 for key in range(5)}
    return ConfigMap(metadata=ObjectMeta(name=f"map-{number}", namespace=NAMESPACE), data=data)


def pod(number: int) -> Pod:
    volumes = (
        Volume(name="config", config_map=ConfigMapVolumeSource(name=f"map-{number}")),
        Volume(name="cache", empty_dir=EmptyDirVolumeSource()),
    )
    mounts = tuple(VolumeMount(name=each.name, mount_path=f"/{each.name}") for each in volumes)
    spec = PodSpec(
        node_name=f"node-{number % 50}",
        containers=(Container(name="main", image="none", volume_mounts=mounts),),
        volumes=volumes,
    )
    return Pod(metadata=ObjectMeta(name=f"pod-{number}", namespace=NAMESPACE, labels={"app": "bench"}), spec=spec)


# -- filling the cluster ----------------------------------------------------------------------------------------------
async def fill(api: ApiServer, pods: int, maps: int) -> None:
    while True:  # a controller makes the account that pods need
        with contextlib.suppress(NotFound):
            await api.get(SERVICE_ACCOUNT, NAMESPACE, "default")
            break
        await asyncio.sleep(0.2)
    await each(maps, lambda number: api.create(config_map(number)))
    await each(pods, lambda number: api.create(pod(number)))


async def each(count: int, do: Callable[[int], Awaitable[object]]) -> None:
    """Do something for each number, some at a time, and again where the server is too busy."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            while True:
                try:
                    await do(number)
                    break
                except ApiError as error:
                    if error.code not in (429, 500, 503, 504):
                        raise
                    await asyncio.sleep(0.2)

    async with asyncio.TaskGroup() as tasks:
        for _ in range(AT_ONCE):
            tasks.create_task(work())


# -- the sides, each in a process of its own --------------------------------------------------------------------------
async def informers(path: str, changes: int) -> dict[str, float]:
    """Follow both kinds; then say so, and go on until so many changes were heard of."""
    heard = asyncio.Event()
    seen = 0

    def changed(old: ConfigMap, new: ConfigMap) -> None:
        nonlocal seen
        seen += 1
        if seen >= changes:
            heard.set()

    async with ApiServer(kubeconfig.load(path), agent="bench") as api:
        factory = SharedInformerFactory(api)
        maps, pods = factory.informer(CONFIG_MAP), factory.informer(POD)
        gc.collect()
        before, clock = resident(), Clock()
        async with asyncio.TaskGroup() as tasks:
            factory.start(tasks)
            await factory.wait_for_cache_sync()
            found = clock.figures()
            found |= {
                "bytes": float(resident() - before),
                "objects": len(maps.indexer.list()) + len(pods.indexer.list()),
            }
            if changes:
                maps.add_event_handler(
                    Handler(on_add=lambda obj, is_initial: None, on_update=changed, on_delete=lambda obj: None)
                )
                print("ready", flush=True)
                clock = Clock()
                await heard.wait()
                following = clock.figures()
                found |= {"change_cpu": following["cpu"] / changes, "following": following["seconds"]}
            factory.stop()
    return found


async def plain(path: str, changes: int) -> dict[str, float]:
    async with Transport(kubeconfig.load(path), agent="bench") as transport:
        gc.collect()
        before, clock = resident(), Clock()
        kept: dict[str, Any] = {}
        for kind in (CONFIG_MAP, POD):
            request = Request(method="GET", path=f"/api/v1/{kind.plural}", query={"resourceVersion": "0"}, what="list")
            for item in json.loads(await transport.call(request))["items"]:
                kept[f"{kind.name}/{item['metadata']['namespace']}/{item['metadata']['name']}"] = item
        return {**clock.figures(), "bytes": float(resident() - before), "objects": float(len(kept))}


# -- measuring --------------------------------------------------------------------------------------------------------
@contextlib.asynccontextmanager
async def _process(side: str, path: Path, changes: int = 0) -> AsyncIterator[asyncio.subprocess.Process]:
    command = [sys.executable, "-m", "bench.informers", "--side", side, "--kubeconfig", str(path)]
    started = await asyncio.create_subprocess_exec(*command, "--changes", str(changes), stdout=subprocess.PIPE)
    try:
        yield started
    finally:
        if started.returncode is None:
            started.kill()
            await started.wait()


async def measured(side: str, path: Path) -> dict[str, float]:
    async with _process(side, path) as process:
        output, _ = await process.communicate()
    return dict(json.loads(output))


async def followed(api: ApiServer, path: Path, maps: int, changes: int) -> dict[str, float]:
    """What informers need for changes that come as fast as the server takes them."""
    async with _process("informers", path, changes) as process:
        assert process.stdout is not None
        await process.stdout.readline()
        began = time.perf_counter()

        async def change(number: int) -> None:
            await api.patch(CONFIG_MAP, NAMESPACE, f"map-{number % maps}", {"data": {"number": str(number)}})

        await each(changes, change)
        written = time.perf_counter() - began
        output, _ = await process.communicate()
        heard = time.perf_counter() - began
    return {**json.loads(output), "written": written, "late": heard - written}


async def run(pods: int, maps: int, changes: int, rounds: int) -> str:
    """The figures, in Markdown."""
    async with control_plane.running() as plane:
        path = plane.kubeconfig
        async with ApiServer(kubeconfig.load(str(path)), agent="bench-writer") as api:
            print(f"  informers: making {maps:,} ConfigMaps and {pods:,} pods", file=sys.stderr)
            await fill(api, pods, maps)
            found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
            for number in range(rounds):
                for side in SIDES if number % 2 == 0 else reversed(SIDES):
                    found[side].append(await measured(side, path))
                print(f"  informers: round {number + 1} of {rounds}", file=sys.stderr)
            return f"{table(found)}\n\n{sentence(await followed(api, path, maps, changes), changes)}"


def table(found: dict[str, list[dict[str, float]]]) -> str:
    medians = {
        side: {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
        for side, rounds in found.items()
    }
    lines = ["| | objects | known after | processor time | memory | an object |", "|---|---|---|---|---|---|"]
    for side, figures in medians.items():
        lines.append(
            f"| {SAYS[side]} | {figures['objects']:,.0f} | {figures['seconds']:.2f} s | {figures['cpu']:.2f} s"
            f" | {figures['bytes'] / 2**20:.0f} MiB | {figures['bytes'] / figures['objects'] / 1024:.1f} KiB |"
        )
    ours, theirs = medians["informers"], medians["plain"]
    ratios = [f"{ours[name] / theirs[name]:.2f}" for name in ("seconds", "cpu", "bytes")]
    lines.append(f"| times | – | {' | '.join(ratios)} | – |")
    return "\n".join(lines)


def sentence(figures: dict[str, float], changes: int) -> str:
    return (
        f"{changes:,} changes, written in {figures['written']:.1f} s: {figures['change_cpu'] * 1e6:.0f} µs of processor"
        f" time each; the last was heard of {figures['late'] * 1000:.0f} ms after it was written."
    )


def write(figures: str, pods: int, maps: int, rounds: int) -> None:
    machine = f"{os.cpu_count()} processors, Linux {platform.release()}, Python {platform.python_version()}"
    page = PAGE.read_text(encoding="utf-8")
    text = page.format(figures=figures, machine=machine, pods=pods, maps=maps, rounds=rounds)
    WRITTEN.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.informers", description=__doc__)
    parser.add_argument("--pods", type=int, default=5_000, help="[5000]")
    parser.add_argument("--config-maps", type=int, default=20_000, help="[20000]")
    parser.add_argument("--changes", type=int, default=5_000, help="[5000]")
    parser.add_argument("--rounds", type=int, default=5, help="[5]")
    parser.add_argument("--write", action="store_true", help="write docs/performance/informers.md")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--kubeconfig", help=argparse.SUPPRESS)
    told = parser.parse_args()
    if told.side:
        one = informers if told.side == "informers" else plain
        print(json.dumps(asyncio.run(one(told.kubeconfig, told.changes))))
        return 0
    figures = asyncio.run(run(told.pods, told.config_maps, told.changes, told.rounds))
    print(figures)
    if told.write:
        write(figures, told.pods, told.config_maps, told.rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
