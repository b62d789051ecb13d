"""What a stretch of work cost, and what this process holds."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.programs import Figures


class Clock:
    """Wall time and processor time since it was made."""

    def __init__(self) -> None:
        self._wall, self._cpu = time.perf_counter(), self._processor()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._wall

    @property
    def cpu(self) -> float:
        """Processor time of this process and of those it has started."""
        return self._processor() - self._cpu

    def figures(self) -> Figures:
        return {"seconds": self.seconds, "cpu": self.cpu}

    def _processor(self) -> float:
        times = os.times()
        ended = times.children_user + times.children_system
        return time.process_time() + ended + sum(map(_of_child, _children()))


def _children() -> list[str]:
    children = Path("/proc/thread-self/children")
    return children.read_text(encoding="ascii").split()


def _of_child(process: str) -> float:
    """Processor time of a child that still runs; its name, in brackets, may hold anything."""
    words = Path("/proc", process, "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def resident() -> int:
    """Bytes of memory this process holds."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
