"""Named points between two effects on a machine, at which a process can be made to die as if its plug were pulled.

A point is `CALL:before` or `CALL:after`, where the call is one of a `Host`'s that change something. The variable
`MOORING_FAULT` holds `POINT:N`: the process is killed when it passes the point for the Nth time. With
`MOORING_FAULT_LOG` the points passed are appended to a file, one a line, to learn which there are.
"""

from __future__ import annotations

import functools
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from mooring.errors import InvalidInput
from mooring.host.chores import Sharing
from mooring.host.linux import LinuxHost

FAULT, FAULT_LOG = "MOORING_FAULT", "MOORING_FAULT_LOG"

CALLS = (
    "make_directories",
    "make_directory",
    "write_files",
    "create_file",
    "make_link",
    "rename",
    "change_mode",
    "set_ownership",
    "mount_tmpfs",
    "bind",
    "unmount",
    "make_subpath",
    "bind_beneath",
    "make_file_system",
    "check_file_system",
    "mount_device",
    "attach_loop",
    "detach_loop",
    "remove_file",
    "remove_directory",
    "remove_tree",
    "write_durably",
)
POINTS = tuple(f"{call}:{when}" for call in CALLS for when in ("before", "after"))


class FaultPoints:
    """Counts the points that are passed, and ends the process at the one that was chosen."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._passed: Counter[str] = Counter()
        self._log = environment.get(FAULT_LOG)
        self._chosen = _parsed(environment[FAULT]) if environment.get(FAULT) else None

    def watch(self, host: LinuxHost) -> LinuxHost:
        """Let every changing call of a host pass its points."""
        host.chores.sharing = Sharing.OFF  # another process would pass them without being watched
        for name in CALLS:
            setattr(host, name, self._passing(name, getattr(host, name)))
        return host

    def _passing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def passing(*arguments: Any, **more: Any) -> Any:
            self._pass(f"{name}:before")
            result = call(*arguments, **more)
            self._pass(f"{name}:after")
            return result

        return passing

    def _pass(self, point: str) -> None:
        self._passed[point] += 1
        if self._log is not None:
            with open(self._log, "a", encoding="ascii") as file:
                file.write(f"{point}\n")
        if self._chosen == (point, self._passed[point]):
            os.kill(os.getpid(), signal.SIGKILL)


def _parsed(text: str) -> tuple[str, int]:
    point, _, count = text.rpartition(":")
    if point not in POINTS or not count.isdigit():
        raise InvalidInput(
            f"cannot use {FAULT}={text!r}",
            why="it is not CALL:before:N or CALL:after:N",
            next_step=f"The calls are: {', '.join(CALLS)}",
        )
    return point, int(count)
