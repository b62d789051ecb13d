"""The kubelet's side: kubelet-peer's scenarios, its answers as figures of the same names as everybody's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bench.programs import DRIVER, PEER, Figures, csi_driver, run

FS_GROUP_TREE = "100x1000"
RESYNC = (60.0, 90.0)
"""After how many seconds a kubelet looks at the content of a pod again: its `syncFrequency`, or half as much more."""

_TICKER, _POPULATOR, _RECONCILER = 1.0, 0.1, 0.1


def _bench(scenario: str, root: str, *flags: str) -> Any:
    return run([str(PEER), "bench", scenario, "--root", root, *flags])


def _with_driver(scenario: str, root: str, *flags: str) -> Any:
    with csi_driver(root):
        socket = f"{root}/driver.sock"
        return _bench(scenario, f"{root}/node", "--kind", "csi", "--csi", f"{DRIVER}={socket}", *flags)


def single(root: str, pods: int) -> Figures:
    return _single(_bench("single", root, "--reps", str(pods)))


def csi_single(root: str, pods: int) -> Figures:
    return _single(_with_driver("single", root, "--reps", str(pods)))


def _single(answer: Mapping[str, Any]) -> Figures:
    """`ready` and `unmounted` are when it was so; `wait` and `gone` are when its caller learned it."""
    return {
        "wait": answer["waitSeconds"]["median"],
        "wait_worst": answer["waitSeconds"]["max"],
        "ready": answer["readySeconds"]["median"],
        "gone": answer["waitUnmountSeconds"]["median"],
        "unmounted": answer["unmountedSeconds"]["median"],
    }


def bulk(root: str, pods: int) -> Figures:
    return _bulk(_bench("bulk", root, "--pods", str(pods)))


def csi_bulk(root: str, pods: int) -> Figures:
    return _bulk(_with_driver("bulk", root, "--pods", str(pods)))


def _bulk(answer: Mapping[str, Any]) -> Figures:
    one, volumes = answer["runs"][0], answer["volumes"]
    arrival, removal = one["arrival"], one["removal"]
    _all_ready(arrival, removal)
    up_cpu, down_cpu = (phase["cpu"]["self"] + phase["cpu"]["children"] for phase in (arrival, removal))
    return {
        "up": arrival["seconds"],
        "up_cpu_per_volume": up_cpu / volumes,
        "up_per_volume": arrival["seconds"] / volumes,
        "median_share": arrival["podSeconds"]["median"] / arrival["seconds"],
        "down": removal["seconds"],
        "down_cpu_per_volume": down_cpu / volumes,
        "bytes_per_volume": (one["memory"]["heap"] - answer["memoryEmpty"]["heap"]) / volumes,
    }


def idle(root: str, pods: int, window: float) -> Figures:
    """In a mount namespace of its own: others are idle at the same time, and are told of mounts in theirs."""
    flags = ("--root", root, "--pods", str(pods), "--window", f"{window:g}s", "--windows", "1")
    answer = run(["unshare", "--mount", "--propagation", "private", str(PEER), "bench", "idle", *flags])
    return {"cpu_per_minute": answer["cpuPerMinute"]["median"], "resident": answer["memory"]["rssTrimmed"]}


def restart(root: str, pods: int) -> Figures:
    one = _bench("restart", root, "--pods", str(pods), "--prepare")["runs"][0]
    _all_ready(one["all"])
    return {"seconds": one["all"]["seconds"], "cpu": one["all"]["cpu"]["self"] + one["all"]["cpu"]["children"]}


def orphans(root: str, pods: int) -> Figures:
    answer = _bench("orphans", root, "--pods", str(pods), "--prepare")
    _all_ready(answer["all"])
    return {"seconds": answer["all"]["seconds"]}


def fs_group(root: str, pods: int) -> Figures:
    answer = _bench("fsgroup", f"{root}/tree", "--make", FS_GROUP_TREE, "--repeat", "1")
    return {"change": answer["changedSeconds"]["median"], "nothing": answer["alreadyRightSeconds"]["median"]}


def make_tree(root: str) -> str:
    """The tree that `fs_group` walks over, for others to walk over."""
    _bench("fsgroup", f"{root}/tree", "--make", FS_GROUP_TREE, "--repeat", "0")
    return f"{root}/tree"


def _all_ready(*phases: Mapping[str, Any]) -> None:
    for phase in phases:
        if phase["failed"]:
            raise RuntimeError(f"{phase['failed']} pods of the kubelet failed: {phase.get('firstError')}")


def refresh(root: str, pods: int) -> Figures:
    """Computed from its constants, not measured: nothing but a pod's next resync makes a kubelet read a ConfigMap."""
    return {"one": refresh_delay(0.5), "p99": refresh_delay(0.99)}


def refresh_delay(quantile: float) -> float:
    """Within how many seconds this share of volumes shows a change, which comes at any time between two resyncs.

    The time to the next of events that are evenly between 60 and 90 s apart is even up to 60 s and thins out after.
    """
    low, high = RESYNC
    mean = (low + high) / 2
    even, thinning = quantile * mean, high - math.sqrt(2 * (high - low) * mean * (1 - quantile))
    resync = even if even <= low else thinning
    return resync + (_TICKER + _POPULATOR + _RECONCILER) / 2
