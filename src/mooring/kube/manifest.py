"""What a manifest file turns out to hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from mooring.kube.field_errors import FieldPath, ManifestProblem
from mooring.kube.objects.meta import KubernetesObject
from mooring.kube.yaml_builder import Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """One object of a file, and where it stands."""

    object: KubernetesObject
    origin: str
    document: int
    line: int
    lines: Lines | None = field(default=None, repr=False, compare=False)

    def line_of(self, path: FieldPath) -> int:
        """The line of one of the object's fields, or of the nearest thing around it whose line was kept."""
        return self.line if self.lines is None else self.lines.follow(path, otherwise=self.line)[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    """A file as a whole. It is usable when it has no problems, and holds no objects when it has some."""

    origin: str
    objects: tuple[Manifest, ...] = ()
    problems: tuple[ManifestProblem, ...] = ()
    warnings: tuple[ManifestProblem, ...] = ()

    @property
    def usable(self) -> bool:
        return not self.problems
