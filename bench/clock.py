"""What a stretch of work cost, and what this process holds."""

from __future__ import annotations

import os
import time

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
        """Processor time of this process, and of those it has started and seen end."""
        return self._processor() - self._cpu

    def figures(self) -> Figures:
        return {"seconds": self.seconds, "cpu": self.cpu}

    def _processor(self) -> float:
        times = os.times()
        return time.process_time() + times.children_user + times.children_system


def resident() -> int:
    """Bytes of memory this process holds."""
    with open("/proc/self/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
