"""One measurement in a process of its own: `python -m bench.measure SCENARIO SIDE ROOT PODS` prints one JSON line."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from bench import csi_side, mooring_side, python_side
from bench.programs import Figures

Measure = Callable[[str, int], Coroutine[Any, Any, Figures]]

SCENARIOS: Mapping[tuple[str, str], Measure] = {
    ("single", "mooring"): mooring_side.single,
    ("single", "python"): python_side.single,
    ("bulk", "mooring"): mooring_side.bulk,
    ("bulk", "python"): python_side.bulk,
    ("prepare", "mooring"): mooring_side.prepare,
    ("prepare", "python"): python_side.prepare,
    ("restart", "mooring"): mooring_side.restart,
    ("restart", "python"): python_side.restart,
    ("orphans", "mooring"): mooring_side.orphans,
    ("orphans", "python"): python_side.orphans,
    ("refresh", "mooring"): mooring_side.refresh,
    ("refresh", "python"): python_side.refresh,
    ("fs_group", "mooring"): mooring_side.fs_group,
    ("csi_single", "mooring"): csi_side.single,
    ("csi_single", "driver"): csi_side.driver_single,
    ("csi_bulk", "mooring"): csi_side.bulk,
    ("csi_bulk", "driver"): csi_side.driver_bulk,
}


def main() -> None:
    scenario, side, root, pods = sys.argv[1:5]
    os.umask(0o022)
    print(json.dumps(asyncio.run(SCENARIOS[scenario, side](root, int(pods)))))


if __name__ == "__main__":
    main()
