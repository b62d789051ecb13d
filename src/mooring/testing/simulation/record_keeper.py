"""Intent records as the machine has them: which there are, and what becomes of them while no manager runs."""

from __future__ import annotations

from functools import partial

from mooring.host.records import Records
from mooring.testing.simulation.faults import Faults
from mooring.testing.simulation.journal import Journal
from mooring.testing.simulation.script import DamageRecord
from mooring.testing.simulation.unreliable_host import UnreliableHost
from mooring.testing.simulation.world_model import WorldModel

Told = tuple[str, str | None]
"""A volume's unique name and the UID of a pod that has it; None for what the node itself has."""


class RecordKeeper:
    """Reads the records on disk with other eyes than the manager's, and damages them."""

    def __init__(self, host: UnreliableHost, faults: Faults, model: WorldModel, journal: Journal, place: str) -> None:
        self._host = host
        self._faults = faults
        self._model = model
        self._journal = journal
        self._place = place
        self._records = Records(host, place)
        self._removed: dict[str, bytes] = {}
        self.damaged: set[str] = set()

    def written(self) -> set[Told]:
        """All that records tell of, read without the manager's help."""
        told: set[Told] = set()
        for record in self._faults.act(self._records.read).records:
            volume, pod = record.body["volume"], record.body["pod"]
            told.add((str(volume), str(pod) if pod is not None else None))
        return told

    def names(self) -> list[str]:
        return self._faults.act(lambda: self._host.names_in(self._place)) if self._host.look(self._place) else []

    def changing(self, method: str, path: str) -> None:
        """Called before each call of a manager that changes the machine: keep what it removes."""
        if method == "remove_file" and path.startswith(self._place) and self._host.look(path) is not None:
            self._removed[path] = self._faults.act(lambda: self._host.read_file(path))

    def damage(self, step: DamageRecord) -> None:
        self._faults.act(lambda: self._damage(step))

    def _damage(self, step: DamageRecord) -> None:
        if step.how == "returned":
            gone = sorted(path for path in self._removed if self._host.look(path) is None)
            if gone:
                path = gone[step.which % len(gone)]
                self._host.put_file(path, self._removed[path])
                self._journal.note("damage", f"{path} is there again")
            return
        whole = sorted(name for name in self.names() if name.endswith(".record"))
        if not whole:
            return
        path = f"{self._place}/{whole[step.which % len(whole)]}"
        before = self.written()
        self._host.put_file(path, _damaged(self._host.read_file(path), step.how))
        for volume, pod in before - self.written():
            self._model.traceless.add(volume.rpartition("/")[2].removeprefix(f"{pod}-"))
        self.damaged.add(path)
        self._journal.note("damage", f"{path} is {step.how}")

    def mend(self) -> list[str]:
        """Remove what is damaged, as an administrator does who has looked after it; returns what there was."""
        found = self._faults.act(self._records.read).damaged
        for damage in found:
            self._faults.act(partial(self._host.remove_file, damage.path))
        return [damage.path for damage in found]


def _damaged(data: bytes, how: str) -> bytes:
    match how:
        case "cut":
            return data[: len(data) // 2]
        case "empty":
            return b""
        case _:
            return data[:10] + b"?" + data[11:]
