"""Mounts that were taken away from under their users, written down until nobody can be using them any more."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from mooring.host.answers import fuse_process
from mooring.host.durable_files import RecordFiles
from mooring.host.health import Debt
from mooring.host.records import Records, record_name


class Debts:
    """The debts of one instance, one record each."""

    def __init__(
        self, host: RecordFiles, directory: str, *, serving: Callable[[int], int | None] = fuse_process
    ) -> None:
        self._records = Records(host, directory)
        self._boot = host.boot_id
        self._serving = serving

    def add(self, debt: Debt) -> None:
        body = {
            "boot": self._boot(),
            "path": debt.path,
            "source": debt.source,
            "fs_type": debt.fs_type,
            "device": debt.device,
            "why": debt.why,
        }
        self._records.write({record_name(f"{debt.path} {debt.device}"): body})

    def open(self) -> list[Debt]:
        """Those that may still be in use. A boot ends them all, and the end of its daemon ends a FUSE file system."""
        found: list[Debt] = []
        paid: list[str] = []
        boot = self._boot()
        for record in self._records.read().records:
            debt = _debt(record.body)
            if record.body.get("boot") != boot or self._is_over(debt):
                paid.append(record.name)
            else:
                found.append(debt)
        self._records.remove(paid)
        return found

    def _is_over(self, debt: Debt) -> bool:
        return debt.fs_type.startswith("fuse") and self._serving(os.minor(debt.device)) is None


def _debt(body: Mapping[str, object]) -> Debt:
    device = body.get("device")
    return Debt(
        path=str(body.get("path", "")),
        source=str(body.get("source", "")),
        fs_type=str(body.get("fs_type", "")),
        device=device if isinstance(device, int) else 0,
        why=str(body.get("why", "")),
    )
