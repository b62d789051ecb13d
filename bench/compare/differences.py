"""What differs between the facts of both sides, and which of it is allowed.

Allowed differences stand in a table of `docs/differences.md`, each with its reason. In its columns `*` stands for
anything, and a side that knows nothing of a thing has `-`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.compare.seen import Fact, Facts, Stage, is_path, parent

HEADING = "## Trees, mounts and causes"
NOTHING = "-"
_COLUMNS = 5
_PRESENCE = "type"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One fact that both sides do not agree on."""

    fact: Fact
    kubelet: str
    mooring: str

    @property
    def where(self) -> str:
        """The thing and its field; what is left in the end is marked."""
        left = "left: " if self.fact.stage is Stage.LEFT else ""
        return f"{left}{self.fact.subject} {self.fact.field}"

    def __str__(self) -> str:
        return (
            f"{self.fact.manifest} ({self.fact.stage.value}), {self.where}\n"
            f"    kubelet: {self.kubelet}\n    mooring: {self.mooring}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowed:
    """A row of the table."""

    manifest: str
    where: str
    kubelet: str
    mooring: str
    reason: str

    def allows(self, difference: Difference) -> bool:
        pairs = (
            (self.manifest, difference.fact.manifest),
            (self.where, difference.where),
            (self.kubelet, difference.kubelet),
            (self.mooring, difference.mooring),
        )
        return all(_matches(pattern, text) for pattern, text in pairs)

    def __str__(self) -> str:
        return f"{self.manifest}, {self.where}: kubelet {self.kubelet}, mooring {self.mooring}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The differences by the row that allows them, those that nothing allows, and rows that allow nothing any more."""

    allowed: Sequence[tuple[Allowed, Sequence[Difference]]]
    unexpected: Sequence[Difference]
    unused: Sequence[Allowed]


def differences(kubelet: Facts, mooring: Facts) -> list[Difference]:
    """What differs. Of a thing that one side does not have only that is told, and of a directory not what is in it."""
    theirs, ours = _things(kubelet), _things(mooring)
    found: list[Difference] = []
    for fact in sorted({*kubelet, *mooring}, key=_order):
        thing = fact[:3]
        if kubelet.get(fact) == mooring.get(fact):
            continue
        if thing not in theirs or thing not in ours:
            above = (fact.stage, fact.manifest, parent(fact.subject))
            hidden = is_path(fact.subject) and (above in theirs) != (above in ours)
            if hidden or (is_path(fact.subject) and fact.field != _PRESENCE):
                continue
        found.append(Difference(fact=fact, kubelet=kubelet.get(fact, NOTHING), mooring=mooring.get(fact, NOTHING)))
    return found


def _things(facts: Facts) -> set[tuple[Stage, str, str]]:
    return {fact[:3] for fact in facts}


def _order(fact: Fact) -> tuple[str, int, str, str]:
    return fact.manifest, list(Stage).index(fact.stage), fact.subject, fact.field


def judged(found: Iterable[Difference], table: Sequence[Allowed]) -> Verdict:
    """Each difference belongs to the first row that allows it."""
    by_row: list[list[Difference]] = [[] for _ in table]
    unexpected: list[Difference] = []
    for difference in found:
        row = next((at for at, allowed in enumerate(table) if allowed.allows(difference)), None)
        (unexpected if row is None else by_row[row]).append(difference)
    return Verdict(
        allowed=[(allowed, each) for allowed, each in zip(table, by_row, strict=True) if each],
        unexpected=unexpected,
        unused=[allowed for allowed, each in zip(table, by_row, strict=True) if not each],
    )


def read_allowed(page: str) -> list[Allowed]:
    """The table below the heading, in a page of Markdown."""
    return list(_rows(page.partition(f"\n{HEADING}\n")[2].partition("\n## ")[0]))


def _rows(section: str) -> Iterator[Allowed]:
    table = [line for line in section.splitlines() if line.startswith("|")]
    for line in table[2:]:  # after its head
        cells = [cell.strip() for cell in line.strip().strip("|").split(" | ")]
        if len(cells) != _COLUMNS or not all(cells):
            raise ValueError(f"this row has not {_COLUMNS} columns that say something: {line}")
        manifest, where, kubelet, mooring = (cell.strip("`") for cell in cells[:-1])
        yield Allowed(manifest=manifest, where=where, kubelet=kubelet, mooring=mooring, reason=cells[-1])


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), text, re.DOTALL) is not None
