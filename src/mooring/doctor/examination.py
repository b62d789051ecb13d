"""The whole examination: every family of checks over one survey, the worst first."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.doctor.checks.environment import check_environment
from mooring.doctor.checks.mounts import check_mounts
from mooring.doctor.checks.pods import check_pods
from mooring.doctor.checks.records import check_records
from mooring.doctor.checks.secrets import check_secrets
from mooring.doctor.checks.sockets import check_loops, check_sockets
from mooring.doctor.checks.staging import check_staging
from mooring.doctor.findings import Diagnosis, Severity
from mooring.doctor.proofs import Proofs
from mooring.doctor.snapshot import Survey

_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.INFO: 2}


def examine(survey: Survey) -> list[Diagnosis]:
    """Everything that is to be said about a root directory, in an order that does not change."""
    proofs = Proofs(survey)
    found = [
        *check_pods(survey, proofs),
        *check_staging(survey, proofs),
        *check_mounts(survey, proofs),
        *check_sockets(survey),
        *check_loops(survey),
        *check_records(survey),
        *check_secrets(survey, proofs),
        *check_environment(survey, proofs),
    ]
    return sorted(found, key=lambda each: (_ORDER[each.severity], each.where, each.kind, each.what))


def is_clean(found: Sequence[Diagnosis]) -> bool:
    """Whether there is nothing a person should do something about."""
    return all(each.severity is Severity.INFO for each in found)
