"""What is provably an empty leftover: for each unit, the steps that clear it, or all that keeps it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from mooring.doctor import layout
from mooring.doctor.below_mounts import DELETED
from mooring.doctor.findings import RemoveEmptyDirectory, RemoveEmptyFile, RemoveLink, Repair, Step
from mooring.doctor.layout import Area, Unit
from mooring.doctor.path_index import PathIndex
from mooring.doctor.snapshot import Bound, Entry, RecordFacts, Survey, Use
from mooring.host.atomic_writer import DATA_LINK, NEW_DATA_LINK
from mooring.host.interface import FileKind

MOUNTED = "something is mounted on it"
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Kept:
    """Something that is not provably nothing."""

    path: str
    what: str

    def __str__(self) -> str:
        return f"{posixpath.basename(self.path)!r}, {self.what}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a unit or a directory above units can be cleared: with these steps, or not because of these things."""

    steps: Repair = ()
    kept: tuple[Kept, ...] = ()
    why: str = ""  # it is not to be touched although it may be empty

    @property
    def clears(self) -> bool:
        return not self.kept and not self.why


class Proofs:
    """Verdicts over one survey."""

    def __init__(self, survey: Survey) -> None:
        self._survey = survey

    @cached_property
    def units(self) -> dict[str, Unit]:
        """All units that were found, by their paths."""
        found: dict[str, Unit] = {}
        for path in sorted(self._survey.entries):
            unit = self.unit_at(path)
            if unit is not None:
                found.setdefault(self._absolute(unit), unit)
        return found

    @cached_property
    def members(self) -> dict[str, list[Entry]]:
        """All that was seen of each unit, the unit itself first."""
        members: dict[str, list[Entry]] = {path: [] for path in self.units}
        for path, entry in sorted(self._survey.entries.items()):
            unit = self.unit_at(path)
            if unit is not None:
                members[self._absolute(unit)].append(entry)
        return members

    @cached_property
    def verdicts(self) -> dict[str, Verdict]:
        """Of every unit, by its path."""
        return {path: self._verdict(path, unit) for path, unit in self.units.items()}

    def units_of(self, uid: str) -> list[tuple[str, Unit]]:
        """The units of one pod, with their paths."""
        return self._by_pod.get(uid, [])

    def unit_at(self, path: str) -> Unit | None:
        """The unit that a path is or belongs to."""
        return layout.unit_of(self._survey.below(path))

    def subtree(self, path: str) -> Verdict:
        """Of a directory and all in it: it goes when every unit in it does."""
        if path in self.units:
            return self.verdicts[path]
        entry = self._survey.entries[path]
        trouble = _scaffold_trouble(entry)
        if trouble:
            return Verdict(kept=(Kept(path, trouble),))
        parts = [self.subtree(f"{path}/{name}") for name in entry.names if f"{path}/{name}" in self._survey.entries]
        kept = tuple(each for part in parts for each in part.kept)
        why = next((part.why for part in parts if part.why), "") or self.in_use(path)
        steps = tuple(step for part in parts for step in part.steps)
        return Verdict(steps=(*steps, RemoveEmptyDirectory(path)), kept=kept[:_SHOWN], why=why)

    def clearable_parts(self, path: str) -> Iterator[tuple[str, Verdict]]:
        """The largest parts of a directory that can be cleared, the directory itself if that is one."""
        verdict = self.subtree(path)
        if verdict.clears:
            yield path, verdict
        elif path not in self.units:
            entry = self._survey.entries[path]
            if entry.kind is FileKind.DIRECTORY and not entry.mounted:
                for name in entry.names:
                    yield from self.clearable_parts(f"{path}/{name}")

    def scaffolding(self, path: str) -> Iterator[Entry]:
        """What lies in a directory above any unit."""
        for name in self._survey.entries[path].names:
            below = f"{path}/{name}"
            if below not in self.units and below in self._survey.entries:
                yield self._survey.entries[below]
                yield from self.scaffolding(below)

    def in_use(self, path: str) -> str:
        """Who uses something at or below a path, in words; empty when nobody is seen to."""
        return self.users_of(path) or next((f"it is mounted at {bound.path}" for bound in self._bound_below(path)), "")

    def users_of(self, path: str) -> str:
        """Which process uses something at or below a path, or sees it mounted in a namespace of its own, in words."""
        for use in self._uses.at_or_below(path):
            return f"process {use.process} ({use.program}) uses {use.path}"
        for bound in self._bound_below(path):
            if not bound.own:
                who = f"process {bound.process} ({bound.program})"
                return f"{who} has it, or something on it, mounted at {bound.path}"
        return ""

    def _bound_below(self, path: str) -> Iterator[Bound]:
        holding = self._survey.mounts.holding(path)
        if holding is not None:
            inside = holding.root.rstrip("/") + path[len(holding.path.rstrip("/")) :]
            yield from self._bounds.at_or_below(f"{holding.device}:{inside}")

    @cached_property
    def _uses(self) -> PathIndex[Use]:
        return PathIndex((use.path, use) for use in self._survey.uses)

    @cached_property
    def _bounds(self) -> PathIndex[Bound]:
        return PathIndex((f"{each.device}:{each.root.removesuffix(DELETED)}", each) for each in self._survey.bounds)

    @cached_property
    def _records(self) -> PathIndex[RecordFacts]:
        return PathIndex((record.path, record) for record in self._survey.records if record.path)

    def _verdict(self, path: str, unit: Unit) -> Verdict:
        kept: list[Kept] = []
        steps: list[Step] = []
        for entry in self.members[path]:
            inner = entry.path[len(path) + 1 :]
            step = self._step(unit, inner, entry)
            if isinstance(step, str):
                kept.append(Kept(entry.path, step))
            else:
                steps.append(step)
        why = self.recorded(path) or self.in_use(path) or self._noted(unit)
        return Verdict(steps=tuple(reversed(steps)), kept=tuple(kept[:_SHOWN]), why=why)

    def _step(self, unit: Unit, inner: str, entry: Entry) -> Step | str:
        """How one entry of a unit goes, or what it is that stays."""
        if entry.mounted:
            return MOUNTED
        if entry.trouble:
            return f"it could not be looked at ({entry.trouble})"
        match entry.kind:
            case FileKind.DIRECTORY:
                return RemoveEmptyDirectory(entry.path) if entry.whole else "it was not read to its end"
            case FileKind.FILE:
                if entry.size == 0 and entry.links == 1 and layout.is_placeholder(unit, inner):
                    return RemoveEmptyFile(entry.path, entry.inode)
            case FileKind.LINK:
                if self._link_means_nothing(unit, inner, entry):
                    return RemoveLink(entry.path, entry.text)
        return _described(entry)

    def _link_means_nothing(self, unit: Unit, inner: str, entry: Entry) -> bool:
        if unit.area is Area.DEVICE and not inner:
            return self._survey.knowledge.certain or entry.path in self._survey.dangling
        if unit.area is not Area.VOLUME or unit.plugin not in layout.CONTENT_PLUGINS or "/" in inner:
            return False
        if inner in (DATA_LINK, NEW_DATA_LINK):
            return entry.text.startswith("..20") and "/" not in entry.text
        return entry.text == f"{DATA_LINK}/{inner}"

    def _noted(self, unit: Unit) -> str:
        """Which volume that stays a plugin's notes are about, in words: its pod may want both again."""
        if unit.area is not Area.PLUGIN_DATA or self._survey.knowledge.certain:
            return ""
        name = unit.name.removeprefix("wrapped_")
        for path, other in self.units_of(unit.pod):
            if other.area is Area.VOLUME and other.name == name and not self._verdict(path, other).clears:
                return f"it is about {path}, which stays"
        return ""

    @cached_property
    def _by_pod(self) -> dict[str, list[tuple[str, Unit]]]:
        found: dict[str, list[tuple[str, Unit]]] = {}
        for path, unit in self.units.items():
            found.setdefault(unit.pod, []).append((path, unit))
        return found

    def recorded(self, path: str) -> str:
        """Which record tells of something at or below a path, in words; empty when none does."""
        return next((f"the record {each.file} tells of it" for each in self._records.at_or_below(path)), "")

    def _absolute(self, unit: Unit) -> str:
        return f"{self._survey.root.rstrip('/')}/{unit.path}"


def _scaffold_trouble(entry: Entry) -> str:
    if entry.mounted:
        return MOUNTED
    if entry.kind is not FileKind.DIRECTORY:
        return _described(entry)
    return "" if entry.whole else entry.trouble or "it could not be read to its end"


def _described(entry: Entry) -> str:
    if entry.kind is FileKind.FILE:
        more = f", {entry.links} links" if entry.links > 1 else ""
        return f"a file of {entry.size:,} bytes{more}"
    if entry.kind is FileKind.LINK:
        return f"a link to {entry.text!r}"
    return f"a {entry.kind.value}"
