"""Manifests that cannot be used, told all at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mooring.errors import InvalidInput
from mooring.world.findings import Finding


class BadManifests(InvalidInput):
    """Mistakes in manifests, one line for each, with file, line and field."""

    def __init__(self, mistakes: Sequence[Finding], consequence: str) -> None:
        first = mistakes[0]
        super().__init__(first.what, why=consequence, next_step=first.next_step, place=first.where)
        self.args = ("\n".join([*map(worded, mistakes), f"mooring: {consequence}."]),)


def mistakes_in(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that make a manifest unusable; warnings are none."""
    return [finding for finding in findings if finding.kind == "manifest"]


def worded(mistake: Finding) -> str:
    """A mistake as one line."""
    next_step = f" {mistake.next_step}." if mistake.next_step else ""
    return f"{mistake.where}: {mistake.what}.{next_step}"
