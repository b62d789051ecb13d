"""Listings of everything below `/srv`, with names in place of what differs from run to run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.compare.machine import SRV
from bench.compare.seen import Seen

_TREE = Path(__file__).parents[1] / "kubelet-peer" / "tree"
_LOOP = 7  # major number of loop devices
_PAUSE = 0.5  # seconds between two looks
_TRIES = 20


def settled(look: Callable[[], Seen]) -> Seen:
    """What is seen as soon as two looks see the same: what fails is tried again and again, and is seen meanwhile."""
    before = look()
    for _ in range(_TRIES):
        time.sleep(_PAUSE)
        after = look()
        if after == before:
            break
        before = after
    return before


def entries() -> list[dict[str, Any]]:
    """All paths, as they are now."""
    ended = subprocess.run([sys.executable, _TREE, SRV], capture_output=True, text=True, check=False)
    if ended.returncode != 0:  # something vanished while it was read
        return [{"path": "nothing", "type": ended.stderr}]
    devices = _loop_devices()
    return [_named(entry, devices) for entry in json.loads(ended.stdout)["entries"]]


def _named(entry: dict[str, Any], devices: dict[str, str]) -> dict[str, Any]:
    """Loop devices have other numbers in each run: their files tell which is which."""
    for field in ("device", "target"):
        value = str(entry.get(field, ""))
        if value in devices:
            entry[field] = devices[value]
    return entry


def _loop_devices() -> dict[str, str]:
    """What stands behind each loop device, by its number and by its path."""
    found: dict[str, str] = {}
    for place in Path("/sys/block").glob("loop*/loop/backing_file"):
        number = place.parts[3].removeprefix("loop")
        backing = place.read_text().strip().removeprefix(f"{SRV}/")
        for name in (f"{_LOOP}:{number}", f"/dev/loop{number}"):
            found[name] = f"loop device of {os.path.basename(backing)}"
    return found
