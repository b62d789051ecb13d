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
        self._lines = [f"{each.where}: {each.what}. {each.next_step}".rstrip(". ") + "." for each in mistakes]

    def __str__(self) -> str:
        return "\n".join([*self._lines, f"mooring: {self.why}."])


def refuse_mistakes(findings: Iterable[Finding], consequence: str) -> None:
    """Raise `BadManifests` when findings have mistakes among them; warnings are none."""
    mistakes = [finding for finding in findings if finding.kind == "manifest"]
    if mistakes:
        raise BadManifests(mistakes, consequence)
