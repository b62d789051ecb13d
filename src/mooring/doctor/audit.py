"""An audit from beginning to end: look, and if asked to, clear and look again until nothing more can be cleared."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from mooring.doctor.examination import examine, is_clean
from mooring.doctor.findings import Diagnosis
from mooring.doctor.proofs import Proofs
from mooring.doctor.repair import Repairer
from mooring.doctor.snapshot import Survey
from mooring.doctor.survey import Surveyor

_MOST_ROUNDS = 8  # an unmount shows what lay below, which may be cleared in turn
_FRESH = 0.2  # seconds for which a look at all processes is good: it takes milliseconds, and leftovers may be many


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was found, what of it was cleared, and why the rest that should have gone did not."""

    found: tuple[Diagnosis, ...]
    repaired: tuple[Diagnosis, ...] = ()
    failed: tuple[tuple[Diagnosis, str], ...] = ()
    manager: str = ""  # who manages the root directory, so that nothing is repaired there

    @property
    def is_clean(self) -> bool:
        """Whether nothing is left that a person should look at."""
        return is_clean(self.found)


def audit(surveyor: Surveyor) -> Report:
    """Look, and change nothing."""
    survey = surveyor.survey()
    return Report(found=tuple(examine(survey)), manager=survey.knowledge.manager)


def audit_and_repair(surveyor: Surveyor) -> Report:
    """Clear all that is provably nothing. The root directory is the caller's alone while this runs."""
    repairer = Repairer(surveyor.host, surveyor.root)
    repaired: list[Diagnosis] = []
    failed: dict[tuple[str, str], tuple[Diagnosis, str]] = {}
    found: list[Diagnosis] = []
    manager = ""
    for _ in range(_MOST_ROUNDS):
        survey = surveyor.survey()
        found, manager = examine(survey), survey.knowledge.manager
        due = [each for each in found if each.repair and (each.where, each.kind) not in failed]
        if not due:
            break
        fresh = _FreshProofs(surveyor, survey)
        for diagnosis in due:
            why = fresh.now().users_of(diagnosis.where) or repairer.clear(diagnosis.repair)
            if why:
                failed[diagnosis.where, diagnosis.kind] = (diagnosis, why)
            else:
                repaired.append(diagnosis)
    return Report(found=tuple(found), repaired=tuple(repaired), failed=tuple(failed.values()), manager=manager)


class _FreshProofs:
    """The proofs of a survey, with processes and their mounts looked at again before anything is done."""

    def __init__(self, surveyor: Surveyor, survey: Survey) -> None:
        self._surveyor, self._survey = surveyor, survey
        self._looked_at = float("-inf")
        self._proofs = Proofs(survey)

    def now(self) -> Proofs:
        if time.monotonic() - self._looked_at > _FRESH:
            uses, bounds = self._surveyor.users()
            self._proofs = Proofs(replace(self._survey, uses=uses, bounds=bounds))
            self._looked_at = time.monotonic()
        return self._proofs
