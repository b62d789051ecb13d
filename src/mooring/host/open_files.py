"""How many files this process may have open: each watch of an API server and each driver's channel is one.

The usual soft limit of 1024 is there for programs that use select(2), which mooring does not: it may be raised up to
the hard limit. Programs that we start do not know that, and get back what we were given.
"""

from __future__ import annotations

import contextlib
import logging
import resource

log = logging.getLogger(__name__)

_given: list[tuple[int, int]] = []
"""The limits that this process was started with, once they have been raised."""


def raise_limit() -> None:
    """Let this process have as many files open as its hard limit allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # the kernel allows no more than fs.nr_open
        log.warning("no more than %d files can be open at a time: %s", soft, error)
        return
    _given.append((soft, hard))


def give_back(process: int) -> None:
    """Let a program that was just started have the limits that we were started with."""
    if _given:
        with contextlib.suppress(OSError):  # it has ended already
            resource.prlimit(process, resource.RLIMIT_NOFILE, _given[0])
