"""One operation at a time for each volume and snapshot; those of others run beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from grpc import StatusCode

from mooring.loop_driver.failures import Failure


class VolumeLocks:
    """Who is being worked on. Nobody waits: whoever comes second is told to come back, as CSI wants it."""

    def __init__(self) -> None:
        self._busy: set[str] = set()

    @contextmanager
    def holding(self, what: str, *ids: str) -> Iterator[None]:
        """Keep these to the caller alone; ABORTED when one of them is busy."""
        wanted = {identity for identity in ids if identity}
        taken = sorted(wanted & self._busy)
        if taken:
            raise Failure(
                StatusCode.ABORTED,
                f"cannot {what}",
                why=f"another operation on {taken[0]!r} is under way",
                next_step="Try again when it has ended",
            )
        self._busy |= wanted
        try:
            yield
        finally:
            self._busy -= wanted
